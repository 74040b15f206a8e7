"""The Releaser: which running tasks of a job are given back (natjam, section 3.2).

Theory of operation
-------------------
The ResourceManager asks a job for a number of containers, not for particular ones.  The Releaser, in the job's
ApplicationMaster, keeps this debt.  When it has read the task heartbeats, it orders the running tasks by the task
eviction policy and takes the first ones.  If room of a node is owed (``emulator.core.application_master.node_debts``),
it takes the first ones there that make it free, and none of them in vain.  The mechanism policy decides for each what
happens to it.  Estimates are refreshed once per period, and the latest complete set is used: readings after the last
refresh are left for the next.  Reading all missed readings at once gives the same estimates as reading every period.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from emulator.core.application_master.image_costs import ImageCosts
from emulator.core.application_master.node_debts import NodeDebts
from emulator.core.application_master.task import AttemptEvent, AttemptState, TaskAttempt
from emulator.core.decisions import choose_mechanism, order_tasks
from emulator.core.effects import ExplainTaskEviction
from emulator.core.explanation import explain_tasks
from emulator.core.machine import Phase, keyed_random
from emulator.core.mechanisms import TRAITS, applied_to
from emulator.core.messages import Answer, ProgressSamples
from emulator.core.saved import ProcessImage
from emulator.core.settings import Settings
from emulator.policies.views import ClusterView, Known, MechanismDecision, TaskView
from emulator.vocabulary import JobFacts, MeasuredCosts, Mechanism, Work


class Choice(NamedTuple):
    """Tasks that must give their containers back, in order."""

    victims: list[TaskAttempt]
    why: ExplainTaskEviction


class Releaser:
    """Part of one ApplicationMaster; see the module's theory of operation."""

    def __init__(self, facts: JobFacts, settings: Settings, live: Mapping[str, TaskAttempt]) -> None:
        self.job = facts.name
        self.on_nodes = NodeDebts(facts, settings, live)
        self.debt = 0
        """Containers asked back for which no victim has been chosen yet."""
        self.named: dict[str, int | None] = {}
        """Containers asked back by name that have not been made victims yet, and how long an image of them waits for
        the device, if that was said."""
        self.costs = MeasuredCosts()
        self._seed = settings.seed
        self._eviction = settings.scheduler.task_eviction
        self._mechanism = settings.scheduler.mechanism
        self._own = None if facts.mechanism is None else MechanismDecision(facts.mechanism)
        self._estimate_period_ns = settings.protocol.estimate_period_ns
        self._decisions = 0
        self._images = ImageCosts(settings.tier, facts)
        self._minimum_runtime_ns = facts.minimum_runtime_ns
        self._has_device = settings.tier is not None

    @cached_property
    def _refresh(self) -> Phase:
        """When estimates are refreshed; drawn only for jobs whose progress is read."""
        return Phase(self._seed, f"am:{self.job}", "estimates", self._estimate_period_ns)

    @property
    def owes(self) -> bool:
        """Whether containers are still to be given back."""
        return bool(self.debt or self.named or self.on_nodes.owed)

    def take(self, answer: Answer) -> None:
        """Take what the answer asks back."""
        if answer.costs is not None:
            self.costs = answer.costs
        self.debt = max(0, self.debt - answer.withdrawn) + answer.reclaim
        self.named.update(dict.fromkeys(answer.named))
        self.named.update(answer.device_queues)
        self.on_nodes.keeps = dict(answer.keeps)

    @staticmethod
    def candidates(tasks: Iterable[TaskAttempt], now_ns: int) -> list[TaskAttempt]:
        """Attempts that run or are being restored; those already chosen, or refused a moment ago, are left out."""
        running = AttemptState.RUNNING
        return [a for a in tasks if (a.state is running or a.is_being_restored) and a.spared_until_ns <= now_ns]

    def to_give(self, tasks: Iterable[TaskAttempt], now_ns: int) -> list[TaskAttempt]:
        """The candidates that have run for the job's minimum runtime, and those asked back by name: the ResourceManager
        has seen to the minimum of these."""
        candidates, minimum_ns = self.candidates(tasks, now_ns), self._minimum_runtime_ns
        if not minimum_ns:
            return candidates
        return [
            a
            for a in candidates
            if a.container in self.named or (a.was_launched and a.running_since_ns + minimum_ns <= now_ns)
        ]

    def read(self, message: ProgressSamples, attempts: dict[str, TaskAttempt], now_ns: int) -> None:
        """Add the readings up to the last refresh to the estimates of ``attempts`` (by container)."""
        until_ns = self._refresh.until(now_ns)
        for container, readings in message.samples:
            attempt = attempts.get(container)
            if attempt is None or not attempt.was_launched:
                continue
            for at_ns, keys_done in readings:
                if attempt.running_since_ns <= at_ns <= until_ns:
                    attempt.estimate = attempt.estimate.with_reading(at_ns, keys_done)

    def choose(self, candidates: list[TaskAttempt], now_ns: int, whole: bool = False) -> Choice | None:
        """Choose victims for as much of the debt as ``candidates`` allow, and mark them; all of them if the ``whole``
        job must give its containers back.

        Named containers that are not among ``candidates`` either end by themselves or are not given back.  Those whose
        wait for the device was said stay named until they can be given.
        """
        if not (whole or self.debt or self.named):
            owed = self.on_nodes.owed
            candidates = [attempt for attempt in candidates if attempt.node in owed]
        if not candidates:
            return None
        tasks = tuple(self._weighed(view_of(self.job, attempt, now_ns), now_ns) for attempt in candidates)
        view = self.view(now_ns, tasks)
        named = tuple(task.container for task in tasks if task.container in self.named)
        order = self._in_order(view, tasks, () if whole else named)
        if whole:  # nobody is spared
            order += tuple(task.container for task in tasks if task.container not in order)
        going = order if whole or named or self.debt else self.on_nodes.choose(tasks, order)
        most = len(going) if whole or named else self.debt or len(going)
        chosen = self._with_mechanisms(view, tasks, going, most, whole)
        self.named = {name: wait for name, wait in self.named.items() if wait is not None and name not in named}
        if not chosen:
            return None
        by_container = {attempt.container: attempt for attempt in candidates}
        victims = [by_container[container] for container, _ in chosen]
        for victim, (_, decision) in zip(victims, chosen, strict=True):
            pays_debt = not named and self.debt > 0
            victim.take(AttemptEvent.CHOOSE, decision.mechanism, pays_debt)
            self.debt -= pays_debt
        taken = [container for container, _ in chosen]
        in_order = [*taken, *(container for container in order if container not in taken)]
        mechanisms = tuple(decision for _, decision in chosen)
        why = explain_tasks(self._eviction.name, self.job, tasks, in_order, len(taken), mechanisms)
        return Choice(victims, why)

    def _in_order(self, view: ClusterView, tasks: tuple[TaskView, ...], named: tuple[str, ...]) -> tuple[str, ...]:
        """Those that are ``named``; if none is, the tasks by the task eviction policy."""
        self._decisions += 1
        random = keyed_random(self._seed, f"am:{self.job}", "task-eviction", self._decisions)
        return named or order_tasks(self._eviction, view, tasks, random)

    def _with_mechanisms(
        self, view: ClusterView, tasks: tuple[TaskView, ...], order: tuple[str, ...], most: int, whole: bool
    ) -> list[tuple[str, MechanismDecision]]:
        """At most ``most`` containers of ``order``, each with its mechanism; tasks to be waited for are left out.  If
        the ``whole`` job goes, they are killed, and so are tasks that a node has refused to stop."""
        by_container = {task.container: task for task in tasks}
        chosen: list[tuple[str, MechanismDecision]] = []
        for container in order:
            if len(chosen) == most:
                break
            task = self._weighed(by_container[container], view.now_ns)  # images chosen before it may queue
            decision = self._own or choose_mechanism(self._mechanism, view, task, self._has_device)
            applied = applied_to(decision.mechanism, Work.KEYS if task.keys_total else Work.SHUFFLE, task.is_saved)
            if applied is not decision.mechanism:
                decision = MechanismDecision(applied, decision.numbers)
            if whole and (task.refusals or not TRAITS[applied].frees_slot):
                decision = MechanismDecision(Mechanism.KILL, decision.numbers)
            traits = TRAITS[decision.mechanism]
            if traits.makes_image:
                self._images.begin(task, view.now_ns)
            if traits.frees_slot:
                chosen.append((container, decision))
        return chosen

    def forget_ended(self, live: Container[str]) -> None:
        """Containers asked back by name that are not among ``live`` have been given by their end."""
        if self.named:
            self.named = {name: wait for name, wait in self.named.items() if name in live}

    def _weighed(self, task: TaskView, now_ns: int) -> TaskView:
        return self._images.weighed(task, now_ns, self.named.get(task.container))

    def view(self, now_ns: int, tasks: tuple[TaskView, ...] = ()) -> ClusterView:
        """What the job's policies see: its own tasks, and the costs it was told."""
        return ClusterView(now_ns, Known(tasks=tasks, costs=self.costs))


def view_of(job: str, attempt: TaskAttempt, now_ns: int) -> TaskView:
    """The attempt as task eviction sees it."""
    container, node = attempt.place
    started_ns = attempt.running_since_ns if attempt.was_launched else now_ns
    return TaskView(
        container=container,
        job=job,
        group=attempt.group,
        node=node,
        started_ns=started_ns,
        task=attempt.task.number,
        keys_done=attempt.estimate.keys_done,
        keys_total=attempt.keys_total,
        remaining_ns=attempt.estimate.remaining_ns(attempt.keys_total, now_ns),
        memory_bytes=attempt.memory_bytes,
        refusals=attempt.refusals,
        has_image=isinstance(attempt.saved, ProcessImage),
        is_saved=attempt.saved is not None and started_ns == now_ns,
        saved_ns=attempt.saved_by_itself_ns,
    )
