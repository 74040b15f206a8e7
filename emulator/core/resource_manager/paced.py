"""Paced allocation: containers are taken back by name, round by round (YARN's ProportionalCapacityPreemptionPolicy).

Theory of operation
-------------------
Containers are given out by the order of the queues.  Once per interval the policy's pace says how much it would take
back, and from which jobs.  The task eviction order names the containers: one after another, those that make some of it
free (``emulator.policies.yarn_ideal.Chosen``).  Each goes on a list with the current time.  If a container is chosen
again in a later round, at least ``wait`` after it went on the list, it is taken by a strict contract.  If it is not
chosen again, it is forgotten after twice ``wait``.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from emulator.core.decisions import order_tasks, takes
from emulator.core.effects import Effect
from emulator.core.explanation import explain_tasks
from emulator.core.machine import keyed_random
from emulator.core.mechanisms import needs_no_job
from emulator.core.resource_manager.allocation import Asked, Decision, Occasion, StrictContract
from emulator.core.resource_manager.by_queues import ByQueues
from emulator.core.resource_manager.offers import Parts
from emulator.policies.allocation_forms import Pace
from emulator.policies.resources import total
from emulator.policies.views import ClusterView, Take, TaskView
from emulator.policies.yarn_amounts import ONE_CONTAINER
from emulator.policies.yarn_ideal import Chosen
from emulator.vocabulary import Resources


class Candidates:
    """The list of containers that may be taken, each with the time when it went on the list."""

    def __init__(self, pace: Pace) -> None:
        self._interval_ns = pace.interval_ns
        self._wait_ns = pace.wait_ns
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


class _ChosenFrom(NamedTuple):
    """A container that a round would take: the tasks that it was chosen from, and their order."""

    tasks: Sequence[TaskView]
    order: tuple[str, ...]


class Paced:
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts, pace: Pace, offers: ByQueues) -> None:
        self._rounds_that_changed = 0
        self._offers = offers
        self._scheduler = parts.settings.scheduler
        self._seed = parts.settings.seed
        self._pace = pace
        self._state = parts.state
        self._candidates = Candidates(pace)
        self._explains = needs_no_job(self._scheduler.mechanism.among)
        """Whether nobody else will explain: a job that is asked explains what it gives."""
        self._whys: list[Effect] = []

    @property
    def changes(self) -> int:
        """See ``Allocation``."""
        return self._rounds_that_changed + self._offers.changes

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``."""
        if occasion is Occasion.TIME:
            return now_ns if self._scheduler.preempts and self._state.queues.pending else None
        return self._offers.asked_ns(occasion, now_ns)

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        if asked.occasion is Occasion.TIME:
            return self._round(asked.now_ns, asked.planned_ns)
        return self._offers.decide(asked)

    def _round(self, now_ns: int, planned_ns: int) -> Iterator[StrictContract]:
        """One round; the times on the list are planned times."""
        if self.asked_ns(Occasion.TIME, now_ns) is None:
            return
        view = self._state.view(now_ns)
        chosen, among = dict[str, _ChosenFrom](), Chosen()
        for take in takes(self._scheduler.allocation, self._pace, view):
            self._choose(take, view, chosen, among)
        before = self._candidates.since_ns
        due = self._candidates.round(chosen, planned_ns)
        self._rounds_that_changed += self._candidates.since_ns != before
        for container in due:
            held = self._state.containers[container]
            if self._explains:
                tasks, order = chosen[container]
                in_order = (held.id, *(other for other in order if other != held.id))
                self._whys.append(explain_tasks(self._scheduler.task_eviction.name, held.job, tasks, in_order, 1))
            yield StrictContract(held)

    def _choose(self, take: Take, view: ClusterView, chosen: dict[str, _ChosenFrom], among: Chosen) -> None:
        """Add the containers of ``take`` to ``chosen``."""
        found: dict[str, _ChosenFrom] = {}
        names = among.choose(take, self._in_order(take, view, chosen, found))
        chosen |= {name: found[name] for name in names}

    def _in_order(
        self, take: Take, view: ClusterView, chosen: Container[str], found: dict[str, _ChosenFrom]
    ) -> Iterator[tuple[str, Resources]]:
        """The containers that may go for ``take``, the first victim first, each with what it makes free: all of a gang
        that goes with it.  They are noted in ``found``."""
        state = self._state
        for job in take.jobs:
            tasks = tuple(
                task
                for task in view.tasks(job)
                if state.may_be_victim(task, view.now_ns) and task.container not in chosen
            )
            if not tasks:
                continue
            # One draw per job, so that a random order stays the same from round to round.
            random = keyed_random(self._seed, "rm", "candidates", job)
            order = order_tasks(self._scheduler.task_eviction, view, tasks, random)
            found |= dict.fromkeys(order, _ChosenFrom(tasks, order))
            frees = [self._offers.frees(state.containers[name]) or ONE_CONTAINER for name in order]
            if order and state.applications[job].goes_whole:
                order, frees = order[:1], [total(frees, ())]
            yield from zip(order, frees, strict=True)

    def explain(self) -> list[Effect]:
        """See ``Allocation``."""
        whys, self._whys = self._whys, []
        return [*self._offers.explain(), *whys]
