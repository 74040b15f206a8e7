"""What a policy is: a function of a view, and a record with everything that the machines need to know about it.

A function reads no clock and does no I/O; times are emulated nanoseconds.  If it raises, or returns something other
than its Protocol says, the run ends with a message that names it.  If it draws, it gets a ``random.Random`` that
belongs to this one decision.

An allocation has one of three forms; the machines have a strategy for each.  An ``AllocationPolicy`` orders queues and
says who may take from whom; a ``ShareAllocation`` gives every job a number of containers; a ``SchedulerAllocation`` is
decided by a scheduler that chooses the nodes: one that people run, or another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from random import Random
from typing import Annotated, Any, Generic, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from emulator.policies.views import (
    AllocationDecision,
    ClusterView,
    JobView,
    MechanismDecision,
    NodeView,
    PlacementDecision,
    ShareDecision,
    SuspendedView,
    TaskView,
)
from emulator.vocabulary import Frozen, Mechanism, Resources

AllocationRule: TypeAlias = Callable[[ClusterView], AllocationDecision | ShareDecision]
"""Which queue gets the next container, and who may reclaim from whom; or how many containers each job is to
hold."""
JobSelection: TypeAlias = Callable[[ClusterView, tuple[JobView, ...]], Sequence[str]]
"""Names of ``jobs`` in the order of service; jobs left out are not served for now."""
JobEviction: TypeAlias = Callable[[ClusterView, tuple[JobView, ...], Random], str]
"""Name of the victim job: one of ``jobs``, which is never empty; each of them has a container to give."""
TaskEviction: TypeAlias = Callable[[ClusterView, tuple[TaskView, ...], Random], Sequence[str]]
"""Containers of ``tasks``, all of the victim job (of all victim jobs, if it ranks across jobs), in the order of
eviction; tasks left out are spared."""
MechanismChoice: TypeAlias = Callable[[ClusterView, TaskView], MechanismDecision]
"""What happens to the victim ``task``."""
Placement: TypeAlias = Callable[[ClusterView, SuspendedView, NodeView], PlacementDecision]
"""Whether ``suspended`` resumes in a free container of ``node`` now."""
ResumeOrder: TypeAlias = Callable[[ClusterView, tuple[SuspendedView, ...]], Sequence[SuspendedView]]
"""The suspended tasks of one job, in the order in which they resume."""
Fit: TypeAlias = Callable[[ClusterView, Resources, tuple[NodeView, ...], NodeView], str]
"""Name of the node that a new container gets: one of ``nodes``, which all have room for ``request`` and are in the
order of the cluster.  ``offer`` is the one whose heartbeat it is; it may have no room."""


class Reads(Enum):
    """Information that is kept up to date only for policies that read it, because that costs time."""

    PROGRESS = "progress of jobs"
    MEMORY = "memory of nodes and tasks"
    DEVICES = "storage devices and their queues"
    FORECAST = "capacity to come"


EVERYTHING = frozenset(Reads)
LEAST_WAIT_NS = 10_000_000
"""A policy is asked again no sooner: time would hardly pass for one that always wants the next nanosecond."""
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
PolicyT = TypeVar("PolicyT", bound="Policy[Any]")
_UNKNOWN = 1 << 62


class Score(Frozen):
    """The number that a rule compares between candidates; it serves the log of why a candidate was chosen.

    Policies do not use it: they may consider ties, draws and several numbers.
    """

    name: str
    """Name of the number, unit last; times are in nanoseconds (``deadline_ns``)."""
    value: Callable[[Any, int], int | None]
    """Its value for a candidate's view at an instant.  None (no deadline, no estimate yet) is above any number."""
    largest_first: bool

    def key(self, view: Any, now_ns: int) -> int:
        """Sort key of candidates: the one who goes first comes first."""
        value = self.value(view, now_ns)
        known = _UNKNOWN if value is None else value
        return -known if self.largest_first else known


class Policy(Frozen, Generic[FunctionT]):
    """A choice on one axis of a scheduler."""

    name: str
    """Its name in an experiment file."""
    function: FunctionT
    source: str
    """Paper and section."""
    reads: frozenset[Reads] = frozenset()
    draws: bool = False
    """Whether it decides by chance, beyond breaking ties."""
    dictates: Policy[JobSelection] | None = None
    """For a job eviction: the only job selection that does not give a freed container back to the job it was taken
    from (natjam, section 4).  For an allocation: its own job selection."""
    sort_key: Callable[[JobView], Any] | None = None
    """For a job selection: its sort key, if the key of a job never changes."""
    score: Score | None = None
    """For an eviction: the number it compares, if it compares just one."""
    across_jobs: bool = False
    """For a task eviction: whether the ResourceManager chooses the containers, among the tasks of all victim jobs."""
    options: type[Frozen] | None = None
    """Further keys beside its name in the experiment file; the function gets them as ``options``."""

    @property
    def summary(self) -> str:
        """What it does, in a sentence or two: the first paragraph of its docstring."""
        return " ".join((self.function.__doc__ or "").split("\n\n")[0].split())

    def with_options(self: PolicyT, options: Frozen) -> PolicyT:
        """The same policy with a function that always gets ``options``."""
        bound: Any = partial(self.function, options=options)
        return replace(self, function=bound, options=None)


class MechanismPolicy(Policy[MechanismChoice]):
    """A choice of mechanism."""

    among: frozenset[Mechanism] = frozenset(Mechanism)
    """What it may choose."""
    heeds_refusals: bool = False
    """Whether it takes another mechanism for a task that its node has refused to stop.  If so, the task may be chosen
    again at once; otherwise it is spared for a while, because another node may have room."""

    def with_options(self, options: Frozen) -> MechanismPolicy:
        """See ``Policy``; options that name mechanisms, as those of ``adaptive``, leave it no others."""
        named: Iterable[Mechanism] = getattr(options, "among", self.among)
        return replace(cast(MechanismPolicy, Policy.with_options(self, options)), among=frozenset(named))


class PlacementPolicy(Policy[Placement]):
    """A choice of placement."""

    strangers_are_alike: bool = False
    """Whether all nodes that a task was never on get the same answer for it.  A driver then need not ask for each of
    them after one refusal."""
    gives_up: bool = True
    """Whether it may give up stopped processes, so that it must be asked about them."""


class FitPolicy(Policy[Fit]):
    """A choice of fit."""

    takes_the_offer: bool = False
    """Whether it is always the node whose heartbeat it is, so that it need not be asked."""


class Elsewhere(Frozen, Generic[PolicyT]):
    """A policy with modules of its own that few runs need: they are imported when it is asked for."""

    name: str
    """Its name, as in its record."""
    record: Callable[[], PolicyT]
    """Imports it."""


class _ByName(Mapping[str, PolicyT]):
    """The policies of an axis, by name."""

    def __init__(self, policies: Sequence[PolicyT | Elsewhere[PolicyT]]) -> None:
        self._policies = {policy.name: policy for policy in policies}

    def __getitem__(self, name: str) -> PolicyT:
        found = self._policies[name]
        if isinstance(found, Elsewhere):
            found = self._policies[name] = found.record()
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._policies)

    def __len__(self) -> int:
        return len(self._policies)


class Axis(Generic[PolicyT]):
    """One of the choices that make up a scheduler."""

    def __init__(self, name: str, policies: Sequence[PolicyT | Elsewhere[PolicyT]], record: type[PolicyT]) -> None:
        """``name``: key in the experiment file, below ``scheduler``; ``record``: the class of its policies."""
        self.name = name
        self.record = record
        self.by_name: Mapping[str, PolicyT] = _ByName(policies)

    @property
    def policies(self) -> tuple[PolicyT, ...]:
        """All its policies."""
        return tuple(self.by_name.values())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its policies."""
        return tuple(self.by_name)

    def own(self, name: str, function: Callable[..., Any]) -> PolicyT:
        """A policy from the user's own function.  Nothing is known about it, so it may read and do anything."""
        record: Callable[..., PolicyT] = self.record
        return record(name, function, "your own", reads=EVERYTHING, draws=True)


class TakesBack(Enum):
    """When an allocation takes containers back; it decides which mechanisms an experiment may name."""

    ALWAYS = "with checkpoint, unless the experiment names another mechanism"
    IF_NAMED = "with the mechanism that the experiment names; if it names none, it waits"
    NEVER = "the only mechanism is wait"


class Maximum(Enum):
    """What the ``maximum`` of a queue is under an allocation."""

    FREE = "any part of the cluster"
    CAPACITY = "its capacity"
    NONE = "only jobs have one"


class QueueRules(Frozen):
    """The queues that an allocation works with."""

    fewest: int = 1
    most: int | None = None
    maximum: Maximum = Maximum.FREE
    may_be_left_out: bool = False
    """Whether an experiment need not name any: it then has one, without a capacity of its own."""
    least_urgent_takes: bool = True
    """Whether the least urgent queue may ever take containers back."""


_MACHINES = frozenset({"live", "sim"})
FLUID = frozenset({"fluid"})


class AllocationPolicy(Policy[AllocationRule]):
    """An allocation that orders queues and says who may take from whom.

    The Preemptor asks back as many containers as are wanted.
    """

    takes_back: TakesBack = TakesBack.ALWAYS
    queues: QueueRules = QueueRules()
    engines: frozenset[str] = _MACHINES
    """Engines that know it."""
    ends_circles: bool = False
    """Whether it ends a run itself in which evictions go round in a loop, and says whose."""
    admits_masters: bool = False
    """Whether it decides itself whose ApplicationMaster may start; else jobs wait whose masters would leave no room for
    a task."""


class ShareAllocation(AllocationPolicy):
    """An allocation that gives every job a number of containers."""

    takes_back: TakesBack = TakesBack.IF_NAMED
    queues: QueueRules = QueueRules(maximum=Maximum.NONE, may_be_left_out=True)
    engines: frozenset[str] = _MACHINES | FLUID


class ExternalCommand(Frozen):
    """Options of ``external``: the process that decides."""

    command: Annotated[tuple[Annotated[str, msgspec.Meta(min_length=1)], ...], msgspec.Meta(min_length=1)]
    """The program and its arguments; ``{python}`` is the Python that runs natjam."""
    answer_within_s: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 10.0
    """Real seconds within which it must have answered a question."""


class SchedulerAllocation(AllocationPolicy):
    """An allocation by a scheduler that is notified of what happens and chooses the nodes, also for gangs of any size
    (``emulator.policies.schedulers.protocol``)."""

    function: Callable[..., Any]
    """Makes the scheduler from its options."""
    takes_back: TakesBack = TakesBack.IF_NAMED
    queues: QueueRules = QueueRules(may_be_left_out=True)
    spares: bool = False
    """Whether it heeds the ``minimum_runtime_s`` of a queue, before which nobody is to be a victim."""
    starts_gangs: bool = True
    """Whether it grants a gang all of its containers in one answer."""
    outside: ExternalCommand | None = None
    """The process that it is, if it is one."""

    def with_options(self, options: Frozen) -> SchedulerAllocation:
        """See ``Policy``; a process outside gets its options from its driver."""
        if isinstance(options, ExternalCommand):
            return replace(self, outside=options, options=None)
        allocation = cast(SchedulerAllocation, Policy.with_options(self, options))
        return replace(allocation, admits_masters=getattr(options, "admits_masters", False))
