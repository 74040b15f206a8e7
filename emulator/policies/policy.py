"""What a policy is: a function on a view, and beside it all that the machines need to know of it.

A function reads no clock and does no I/O; times are emulated nanoseconds.  One that returns something else than its
Protocol says, or raises, ends the run with a message that names it.  Where it draws, it is given a ``random.Random``
that belongs to this one decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Generic, Protocol, TypeVar, cast

from emulator.policies.views import (
    AllocationDecision,
    ClusterView,
    JobView,
    MechanismDecision,
    NodeView,
    PlacementDecision,
    SuspendedView,
    Take,
    TaskView,
)
from emulator.vocabulary import Frozen, Mechanism


class AllocationRule(Protocol):
    """Which queue gets the next container, and who may take back from whom."""

    def __call__(self, view: ClusterView) -> AllocationDecision: ...


class JobSelection(Protocol):
    """Names of ``jobs``, the first to be served first; those left out are not served for now."""

    def __call__(self, view: ClusterView, jobs: tuple[JobView, ...]) -> Sequence[str]: ...


class JobEviction(Protocol):
    """Name of the victim job: one of ``jobs``, which all have a container to give and are never none."""

    def __call__(self, view: ClusterView, jobs: tuple[JobView, ...], random: Random) -> str: ...


class TaskEviction(Protocol):
    """Containers of ``tasks``, all of the victim job, the first to be evicted first; those left out are spared."""

    def __call__(self, view: ClusterView, tasks: tuple[TaskView, ...], random: Random) -> Sequence[str]: ...


class MechanismChoice(Protocol):
    """What happens to the victim ``task``."""

    def __call__(self, view: ClusterView, task: TaskView) -> MechanismDecision: ...


class Placement(Protocol):
    """Whether ``suspended`` goes on in a free container of ``node``, as things stand."""

    def __call__(self, view: ClusterView, suspended: SuspendedView, node: NodeView) -> PlacementDecision: ...


class ResumeOrder(Protocol):
    """The suspended tasks of one job, the first to go on first."""

    def __call__(self, view: ClusterView, suspended: tuple[SuspendedView, ...]) -> Sequence[SuspendedView]: ...


class Pace(Protocol):
    """How an allocation takes containers back by name, and when."""

    @property
    def interval_ns(self) -> int:
        """From one round to the next."""
        ...

    @property
    def wait_ns(self) -> int:
        """How long a container must have been chosen before it is taken."""
        ...

    def takes(self, view: ClusterView) -> tuple[Take, ...]:
        """What this round would take back."""
        ...


class Reads(Enum):
    """What costs something to be kept up to date for the policies that read it."""

    PROGRESS = "progress of jobs"
    MEMORY = "memory of nodes and tasks"
    DEVICES = "storage devices and their queues"
    FORECAST = "capacity to come"


EVERYTHING = frozenset(Reads)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
PolicyT = TypeVar("PolicyT", bound="Policy[Any]")
_UNKNOWN = 1 << 62


@dataclass(frozen=True, slots=True)
class Score:
    """The number a rule goes by, one a candidate: for the log of why somebody was chosen.

    Policies do not use it: they may weigh ties, draws and more than one thing.
    """

    name: str
    """What it is, unit last; times are kept in nanoseconds (``deadline_ns``)."""
    value: Callable[[Any, int], int | None]
    """Of a candidate's view, at an instant.  None (no deadline, no estimate yet) counts as more than any number."""
    largest_first: bool

    def key(self, view: Any, now_ns: int) -> int:
        """Sorts candidates: who goes first comes first."""
        value = self.value(view, now_ns)
        known = _UNKNOWN if value is None else value
        return -known if self.largest_first else known


@dataclass(frozen=True, slots=True)
class Policy(Generic[FunctionT]):
    """A choice on one axis of a scheduler."""

    name: str
    """What an experiment file calls it."""
    function: FunctionT
    source: str
    """Paper and section."""
    reads: frozenset[Reads] = frozenset()
    draws: bool = False
    """Whether it decides by chance, beyond breaking ties."""
    dictates: Policy[JobSelection] | None = None
    """Of a job eviction: the one job selection that does not give a freed container back to the job it was taken
    from (natjam, section 4).  Of an allocation: the job selection that is its own."""
    sort_key: Callable[[JobView], Any] | None = None
    """Of a job selection: what it sorts by, where that never changes of a job."""
    score: Score | None = None
    """Of an eviction: what it goes by, if that is one number."""
    options: type[Frozen] | None = None
    """Keys that stand beside its name in the experiment file; given to the function as ``options``."""

    @property
    def summary(self) -> str:
        """What it does, in a sentence or two: the first paragraph of its docstring."""
        return " ".join((self.function.__doc__ or "").split("\n\n")[0].split())

    def with_options(self: PolicyT, options: Frozen) -> PolicyT:
        """The same policy, its function given ``options`` whenever it is asked."""
        bound: Any = partial(self.function, options=options)
        return replace(self, function=bound, options=None)


@dataclass(frozen=True, slots=True)
class AllocationPolicy(Policy[AllocationRule]):
    """A choice of allocation."""

    preempts: bool = True
    """Whether containers are ever taken back under it; the mechanism is *wait* where they are not."""
    waits: bool = False
    """Whether the mechanism is *wait* unless another is named."""
    fewest_queues: int = 1
    most_queues: int | None = None
    gives_shares: bool = False
    """Whether it answers with containers for each job."""
    fluid_only: bool = False
    """Whether it decides in fluid runs only, because it takes long or needs a capacity in time."""
    maximum_is_capacity: bool = False
    """Whether no queue may ever hold more than its capacity."""
    pace: Callable[[Any], Pace | None] | None = None
    """From its options: how it takes containers back by name; None: it says who may take from whom, and the Preemptor
    asks for as many as are wanted."""
    paced: Pace | None = None
    """The same, once it has its options."""

    def with_options(self, options: Frozen) -> AllocationPolicy:
        """See ``Policy``."""
        bound = cast(AllocationPolicy, Policy.with_options(self, options))
        return bound if self.pace is None else replace(bound, paced=self.pace(options))


@dataclass(frozen=True, slots=True)
class MechanismPolicy(Policy[MechanismChoice]):
    """A choice of mechanism."""

    among: frozenset[Mechanism] = frozenset(Mechanism)
    """What it may choose."""


@dataclass(frozen=True, slots=True)
class PlacementPolicy(Policy[Placement]):
    """A choice of placement."""

    strangers_are_alike: bool = False
    """Whether a task that is refused on a node it was never on would be refused on every other such node too; a driver
    need not have them all ask."""
    gives_up: bool = True
    """Whether it may give stopped processes up, and so must be asked about them."""


@dataclass(frozen=True, slots=True)
class Axis(Generic[PolicyT]):
    """One of the choices that make up a scheduler."""

    name: str
    """Key in the experiment file, below ``scheduler``."""
    policies: tuple[PolicyT, ...]
    record: type[PolicyT]
    by_name: dict[str, PolicyT] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {policy.name: policy for policy in self.policies})

    @property
    def names(self) -> tuple[str, ...]:
        """Of the policies there are."""
        return tuple(self.by_name)

    def own(self, name: str, function: Callable[..., Any]) -> PolicyT:
        """A function of the user's own as a policy: nothing is known of it, so it may read and do anything."""
        return self.record(name, function, "your own", reads=EVERYTHING, draws=True)
