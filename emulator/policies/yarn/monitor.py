"""The rounds of YARN's preemption policy: what each gives up, marks and kills, and why.

A round selects containers (``victims``).  What is reserved of the applications that give is given up at once.  A
container that is selected for the first time is marked; one that is selected again when its mark is
``max_wait_before_kill`` old or older is killed.  A mark lapses after twice that time, not when a round passes the
container over.

(Hadoop 3.4: ``ProportionalCapacityPreemptionPolicy``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from emulator.policies.yarn.capacity import CapacityScheduler, Request, Step
from emulator.policies.yarn.fair import Starvation
from emulator.policies.yarn.options import YarnPreemption
from emulator.policies.yarn.reasons import Reasons
from emulator.policies.yarn.victims import select


class Marks:
    """Since when each container has been on the list of those that are wanted."""

    def __init__(self, interval_ns: int, wait_ns: int) -> None:
        """``interval_ns``: time between two rounds."""
        self._interval_ns = interval_ns
        self._wait_ns = wait_ns
        self.since_ns: dict[str, int] = {}

    def round(self, chosen: Iterable[str], now_ns: int) -> list[str]:
        """The containers of ``chosen`` that are due; the others go on the list, or stay on it."""
        # Forget what the round before this one would have forgotten, even if that round was skipped.
        oldest_ns = now_ns - self._interval_ns - 2 * self._wait_ns
        self.since_ns = {container: since for container, since in self.since_ns.items() if since >= oldest_ns}
        due: list[str] = []
        for container in chosen:
            since_ns = self.since_ns.get(container)
            if since_ns is None:
                self.since_ns[container] = now_ns
            elif since_ns + self._wait_ns <= now_ns:
                del self.since_ns[container]
                due.append(container)
        return due


class Round(NamedTuple):
    """What a round does."""

    given_up: Sequence[Step]
    marked: Sequence[Request]
    killed: Sequence[Request]
    reasons: Reasons
    """Why each of them, and why not more."""


class PreemptionMonitor:
    """The policy, round by round (see the module's description)."""

    def __init__(self, scheduler: CapacityScheduler, preemption: YarnPreemption) -> None:
        self._scheduler = scheduler
        self._preemption = preemption
        self._marks = Marks(preemption.interval_ns, preemption.wait_ns)
        self._starvation = None if scheduler.root.fair is None else Starvation(scheduler.root.all, preemption)

    def round(self, now_ns: int) -> Round:
        """One round: what it gives up and kills is no longer held of the queues."""
        scheduler, root = self._scheduler, self._scheduler.need()
        waits = self._starvation.limit(root, scheduler.amounts, now_ns) if self._starvation else {}
        applications = scheduler.applications(now_ns)
        free = {name: node.free for name, node in scheduler.nodes.items()}
        selected = select(root, applications, free, self._preemption, scheduler.amounts)
        given_up = [
            scheduler.unreserve(scheduler.reserved[each.node], each.node)
            for ones in applications.values()
            for one in ones
            for each in one.reserved
            if each.name in selected.given_up
        ]
        held = {each.label: each for leaf in scheduler.root.leaves for each in leaf.held}
        names = dict.fromkeys((*selected.for_reserved, *selected.across_queues, *selected.inside_queues))
        known = {*self._marks.since_ns}
        due = self._marks.round([name for name in names if name in held], now_ns)
        marked = [held[name] for name in self._marks.since_ns if name not in known]
        killed = [held[name] for name in due]
        for request in killed:
            scheduler.kill(request)
        wanted = [held[name] for name in names if name in held]
        reasons = Reasons(
            root, selected, self._preemption, scheduler.amounts, wanted, killed, bool(self._starvation), waits
        )
        return Round(given_up, marked, killed, reasons)
