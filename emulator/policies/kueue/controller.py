"""Kueue's scheduler with what it remembers: who waits, what is admitted, and when those set aside are woken.

It reads no clock and knows nobody who runs.  A caller says what has happened, and carries out what each cycle decides:
``scheduler``, in experiments and in plays, or a search for loops (``emulator.loops.play``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emulator.policies.kueue.cycle import Decision, Outcome, RunningCycle, advance, run_cycle
from emulator.policies.kueue.model import Ties
from emulator.policies.kueue.queues import Queues
from emulator.policies.kueue.snapshot import Amounts, Held, Node, Snapshot
from emulator.sites.kueue import Cluster, StopPolicy

BATCH_NS = 10**9
"""Kueue collects what was freed for a second before it wakes whoever is set aside."""
MAX_IDLE_CYCLES = 6
"""A cycle may change nothing that shows and yet go on to a workload's next flavor."""


class Controller:
    """The queues and quotas of one cluster, cycle after cycle."""

    def __init__(
        self, cluster: Cluster, ties: Ties, batch_ns: int = BATCH_NS, may_admit: Callable[[], bool] | None = None
    ) -> None:
        """``may_admit``: asked before each admission, for which a cycle waits; None: they never wait."""
        self.snapshot = Snapshot(cluster)
        self.queues = Queues(self.snapshot)
        self.cycles = 0
        """Run so far."""
        self.wake_ns: int | None = None
        """When those set aside are woken next; None: nothing was freed since."""
        self.freed: dict[Node, None] = {}
        """Roots of the trees in which they are."""
        self._ties = ties
        self._batch_ns = batch_ns
        self._may_admit = may_admit
        self._cycle: RunningCycle | None = None
        """The one that waits."""
        self._freed: list[tuple[Node, Amounts] | Held] = []
        """What is free since; the cycle goes on with the cluster as it was."""

    @property
    def waits(self) -> bool:
        """Whether a cycle has begun, and waits before an admission."""
        return self._cycle is not None

    def free(self, held: Held, now_ns: int, wakes: bool = True) -> None:
        """The quota of a workload that has ended, or was evicted, is free.  ``wakes``: so who is set aside is woken."""
        if self._cycle is not None:
            held.evicted = True
            self._freed.append(held)
        else:
            self.snapshot.discharge(held)
        if wakes:
            self.record_freed(held.node.root, now_ns)

    def stop(self, queue: Node, policy: StopPolicy, now_ns: int) -> None:
        """A queue gets this policy; who is set aside in its tree looks again."""
        self.snapshot.stop(queue, policy)
        self.record_freed(queue.root, now_ns)

    def unspare(self, held: Held) -> None:
        """A workload may be preempted from now on, if it is still there: whoever was set aside looks again."""
        if self.snapshot.held[held.workload.queue].get(held.workload.name) is not held:
            return
        self.snapshot.revisions[held.node.root] += 1
        self.queues.wake(held.node.root)

    def release(self, queue: str, amounts: Amounts, now_ns: int) -> None:
        """What was kept (``Snapshot.keep``) for a workload of ``queue`` is free."""
        node = self.snapshot.queues[queue]
        if self._cycle is not None:
            self._freed.append((node, amounts))
        else:
            self.snapshot.release(node, amounts)
        self.record_freed(node.root, now_ns)

    def record_freed(self, root: Node, now_ns: int) -> None:
        """Something was freed in a tree: who is set aside there is woken in a while."""
        self.queues.freed(root)
        if self.wake_ns is None:
            self.wake_ns = now_ns + self._batch_ns
        self.freed[root] = None

    def wake(self) -> None:
        """The time ``wake_ns`` has come."""
        for root in self.freed:
            self.queues.wake(root)
        self.freed, self.wake_ns = {}, None

    def cycle_by_cycle(self, now_ns: int) -> Iterator[list[Decision]]:
        """What one cycle after another decides at ``now_ns``, until nothing changes.  Each is to be carried out before
        the next is asked for."""
        idle = 0
        while self._cycle is not None or (idle < MAX_IDLE_CYCLES and self.queues.has_active):
            self.snapshot.now_ns = now_ns
            if self._cycle is None:
                self.cycles += 1
                blocks = self._may_admit is not None
                self._cycle = run_cycle(self.snapshot, self.queues, self.cycles, self._ties, blocks)
            elif self._may_admit is not None and not self._may_admit():
                return
            decisions, has_ended = advance(self._cycle)
            if has_ended:
                self._end_cycle()
            yield decisions
            idle = 0 if any(map(_changes, decisions)) else idle + 1

    def _end_cycle(self) -> None:
        freed, self._freed, self._cycle = self._freed, [], None
        for each in freed:
            if isinstance(each, Held):
                self.snapshot.discharge(each)
            else:
                self.snapshot.release(*each)


def _changes(decision: Decision) -> bool:
    return decision.outcome is Outcome.ADMITTED or bool(decision.evicted) or decision.aside
