"""kube-scheduler with the pods that it sees: who is on which node, who waits, and one cycle after another.

It reads no clock and knows nobody who runs.  A caller says what has happened, and carries out what each cycle decides:
``scheduler``, in experiments and in plays.  Within an instant each event takes a microsecond, so that no two pods have
the same age.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from emulator.policies.kubernetes.cycle import Decision, run_cycle
from emulator.policies.kubernetes.gangs import GangDecision
from emulator.policies.kubernetes.queue import Queue
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import IN_KUBERNETES, Terms, Ties
from emulator.policies.schedulers.protocol import SchedulerError
from emulator.sites.kubernetes import BudgetSpec, Group, Node, Pending, Pod, State
from emulator.vocabulary import SECOND_NS

_STEP_NS = 1000
_LOOK_NS = 30 * SECOND_NS
"""How often those are looked at who have been set aside for long; only while anything else is still to happen."""
_MAX_EVICTIONS = 100
"""At one instant, of one pod and those that came in its place."""


class Controller:
    """The nodes of one cluster, cycle after cycle."""

    def __init__(
        self,
        nodes: Iterable[Node],
        budgets: Iterable[BudgetSpec],
        groups: Iterable[Group],
        ties: Ties,
        terms: Terms = IN_KUBERNETES,
    ) -> None:
        self._budgets, self._ties = tuple(budgets), ties
        standing = tuple(each.standing(0) for each in self._budgets)
        self.snapshot = Snapshot(State(tuple(nodes), budgets=standing, groups=tuple(groups)), terms)
        self.queue = Queue()
        self.cycles = 0
        """Run so far."""
        self.now_ns = 0
        """With the microseconds that events take within an instant."""
        self.flush_ns: int | None = None
        """When ``look`` is to be called; None: it was not planned."""
        self.instant_ns = 0
        """That of ``begin``."""
        self._evictions: Counter[str] = Counter()
        """At this instant."""

    def begin(self, instant_ns: int) -> None:
        """What follows happens at this instant."""
        if instant_ns != self.instant_ns:
            self._evictions.clear()
        self.instant_ns = instant_ns
        self.now_ns = max(self.now_ns, instant_ns)

    def step(self) -> int:
        """Something happens: when, by the scheduler's clock."""
        self.now_ns += _STEP_NS
        return self.now_ns

    def arrive(self, pod: Pod, since_ns: int) -> None:
        """A pod comes that is to be placed; one of a group is looked at when enough of it are there."""
        pending = Pending(pod, since_ns=since_ns)
        group = self.snapshot.groups.get(pod.group)
        if group is None:
            self.queue.add(pending)
            return
        self.queue.hold(pending)
        if self.snapshot.members[group.name] + self.queue.members(group.name) >= group.min_count:
            self.queue.release(group.name)

    def leave(self, name: str) -> None:
        """A pod has left its node."""
        pod = self.snapshot.remove(name).pod
        self.step()
        self.queue.pod_left(pod)

    def cycle_by_cycle(self) -> Iterator[Decision | GangDecision]:
        """What one cycle after another decides, until no pod is ready.  Each is to be carried out before the next is
        asked for."""
        while self.queue.has_ready:
            self.snapshot.restand(self._budgets)
            decision = run_cycle(self.snapshot, self.queue, self.step(), self._ties)
            assert decision is not None, "a pod was ready"
            self.cycles += 1
            self.step()  # the pod's new state becomes known
            yield decision

    def plan_flush(self) -> int | None:
        """Plan the next look at the pods that are set aside; call it only while something else is still to happen.

        Returns when it is; None: there are none, or it was planned before.
        """
        if self.flush_ns is not None or not self.queue.has_unschedulable:
            return None
        self.flush_ns = (self.instant_ns // _LOOK_NS + 1) * _LOOK_NS
        return self.flush_ns

    def flush(self) -> None:
        """Those are ready who have been set aside for long."""
        self.flush_ns = None
        self.queue.flush(self.step())

    def count_eviction(self, first: str) -> None:
        """``first``, or a pod that came in its place, is evicted.  Raises SchedulerError: too often at one instant.

        If the pods of a gang have a lower priority than their group, it can evict the same pods again and again:
        without a grace these are gone at once, and those that come in their place are placed before the gang.
        """
        self._evictions[first] += 1
        if self._evictions[first] > _MAX_EVICTIONS:
            raise SchedulerError(
                f"at {self.instant_ns / 1e9:g} s evictions of {first} go round in a circle; give the pods of PodGroups"
                " their group's priority, or the others a grace"
            )
