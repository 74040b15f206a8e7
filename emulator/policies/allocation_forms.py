"""The forms that an allocation can have; each is a record, and the machines have a strategy for each.

An ``AllocationPolicy`` orders queues and says who may take from whom; a ``ShareAllocation`` gives every job a number of
containers; a ``PacedAllocation`` orders queues, and names the containers that it takes back; a ``SchedulerAllocation``
is decided by a scheduler that chooses the nodes: one that people run, or another process.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Protocol, cast

import msgspec
from msgspec.structs import replace

from emulator.policies.policy import AllocationRule, Policy
from emulator.policies.views import ClusterView, Take
from emulator.vocabulary import Frozen


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
    """Whether it ends a run itself in which evictions go round in a circle, and says whose."""

    @property
    def interval_ns(self) -> int | None:
        """Time between two of its rounds of taking back; None: the period of the Preemptor."""
        return None


class ShareAllocation(AllocationPolicy):
    """An allocation that gives every job a number of containers."""

    takes_back: TakesBack = TakesBack.IF_NAMED
    queues: QueueRules = QueueRules(maximum=Maximum.NONE, may_be_left_out=True)
    engines: frozenset[str] = _MACHINES | FLUID


class Pace(Protocol):
    """How and when an allocation takes back containers that it names."""

    @property
    def interval_ns(self) -> int:
        """Time between two rounds."""
        ...

    @property
    def wait_ns(self) -> int:
        """How long a container must stay chosen before it is taken."""
        ...

    def takes(self, view: ClusterView) -> tuple[Take, ...]:
        """What this round would take back."""
        ...


class PacedAllocation(AllocationPolicy):
    """An allocation that orders queues, and at its own pace takes back containers that it names."""

    pace: Pace | None = None
    """None: nothing is taken back."""

    @property
    def interval_ns(self) -> int | None:
        """See ``AllocationPolicy``."""
        return None if self.pace is None else self.pace.interval_ns

    def with_options(self, options: Frozen) -> PacedAllocation:
        """See ``Policy``: ``options.pace`` is its pace."""
        return replace(cast(PacedAllocation, Policy.with_options(self, options)), pace=cast(Any, options).pace)


class Outside(Frozen):
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
    outside: Outside | None = None
    """The process that it is, if it is one."""

    def with_options(self, options: Frozen) -> SchedulerAllocation:
        """See ``Policy``; a process outside gets its options from its driver."""
        if isinstance(options, Outside):
            return replace(self, outside=options, options=None)
        return cast(SchedulerAllocation, Policy.with_options(self, options))
