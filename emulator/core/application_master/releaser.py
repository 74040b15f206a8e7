"""The Releaser: which running tasks of a job are given back (natjam, section 3.2).

Theory of operation
-------------------
The ResourceManager asks a job for a number of containers, not for particular ones.  The Releaser, in the job's
ApplicationMaster, keeps this debt.  When it has read the task heartbeats, it orders the running tasks by the task
eviction policy and takes the first ones.  The mechanism policy decides for each what happens to it.  Estimates are
refreshed once per period, and the latest complete set is used: readings after the last refresh are left for the next.
Reading all missed readings at once gives the same estimates as reading every period.

Where containers have several sizes, the ResourceManager says how much the job's tasks may go on holding of a node
(``Answer.keeps``).  The job owes what they hold beyond that, without those that are leaving: victims, and tasks that
commit.  So a task that ends by itself pays as well, and a limit that is repeated changes nothing.  The whole set of
limits is sent each time.  The Releaser takes the first tasks there that free what is owed, and none without need.

An image of a task costs the size of its memory at the device's speed, and the wait for the device.  The wait is what
the ResourceManager counts of all jobs, where it chooses the container (adaptive-checkpointing, section 5.2.2).
Otherwise an ApplicationMaster knows only the writes that it has itself requested on a node's device, and keeps a queue
of its own for each node.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from msgspec import structs

from emulator.core.application_master.devices import DeviceQueue
from emulator.core.application_master.task import VICTIM, AttemptEvent, AttemptState, TaskAttempt
from emulator.core.decisions import choose_mechanism, order_tasks
from emulator.core.effects import ExplainTaskEviction
from emulator.core.explanation import explain_tasks
from emulator.core.machine import Phase, keyed_random
from emulator.core.messages import AllocateResponse, ProgressSamples
from emulator.core.settings import Settings
from emulator.policies.adaptive_checkpointing import image_overhead_ns
from emulator.policies.mechanism import TRAITS, applied_to, keeps_processes
from emulator.policies.resources import WHOLE_PPM, irreducible, lacking, minus, total
from emulator.policies.views import ClusterView, Known, MechanismDecision, TaskView
from emulator.vocabulary import JobFacts, MeasuredCosts, Mechanism, ProcessImage, Resources, Tier, Work


class ChosenTasks(NamedTuple):
    """Tasks that must give their containers back, in order."""

    victims: list[TaskAttempt]
    why: ExplainTaskEviction


class NodeContractsOfJob:
    """What a job owes on single nodes, where containers have several sizes."""

    def __init__(self, facts: JobFacts, settings: Settings, live: Mapping[str, TaskAttempt]) -> None:
        self.keeps: dict[str, Resources] = {}
        """The limits, by node."""
        self._live = live
        self._requests = {group.name: group.request for group in facts.groups}
        self._nodes = settings.nodes_by_name
        self._may_stop = keeps_processes(settings.scheduler.mechanism.among)

    @property
    def open_contracts(self) -> dict[str, Resources]:
        """By node, what is owed and no task is leaving for."""
        if not self.keeps:  # most often
            return {}
        owed = {node: lacking(self._will_be_held(node), keep) for node, keep in self.keeps.items()}
        return {node: short for node, short in owed.items() if any(short)}

    def choose(self, tasks: Iterable[TaskView], order: Iterable[str]) -> tuple[str, ...]:
        """The first containers of ``order``, which are those of ``tasks``, that pay what is owed; none is superfluous.

        On a node where they are not enough yet none is chosen: one that comes later might do alone.
        """
        by_container = {task.container: task for task in tasks}
        in_order = [by_container[container] for container in order]
        chosen: list[TaskView] = []
        for node, short in self.open_contracts.items():
            chosen += irreducible(short, [task for task in in_order if task.node == node], self._frees) or ()
        return tuple([task.container for task in chosen])

    def _will_be_held(self, node: str) -> Resources:
        """What the tasks there go on holding."""
        here = [attempt for attempt in self._live.values() if attempt.node == node]
        return total((self._will_hold(attempt) for attempt in here), self._nodes[node].resource_names)

    def _will_hold(self, attempt: TaskAttempt) -> Resources:
        request, node = self._requests[attempt.group], self._nodes[attempt.node or ""]
        if attempt.state is AttemptState.COMMIT_PENDING:
            return (0,) * len(request)
        if attempt.state is AttemptState.SUSPENDED:
            return node.held_when_stopped(request)
        if attempt.state in VICTIM:
            return minus(request, node.guaranteed_freed(request, self._may_stop))
        return request

    def _frees(self, task: TaskView) -> Resources:
        return self._nodes[task.node].guaranteed_freed(self._requests[task.group], self._may_stop)


class ImageCosts:
    """What images of the tasks of one job cost."""

    def __init__(self, tier: Tier | None, facts: JobFacts) -> None:
        self._tier = tier
        self._facts = facts
        self._queues: dict[str, DeviceQueue] = {}

    def weighed(self, task: TaskView, now_ns: int, reported_ns: int | None = None) -> TaskView:
        """The task with the cost of making an image of it now, if images can be made; ``reported_ns``: the wait for the
        device, where the ResourceManager has counted it."""
        tier = self._tier
        if tier is None:
            return task
        if task.is_saved:
            return structs.replace(task, image_overhead_ns=0, image_memory_ns=0, image_dump_ns=0)
        dump_bytes = self._dump_bytes(tier, task)
        size_bytes = self._facts.footprint_bytes(task.group, task.task or 0, _done_ppm(task))
        queue_ns = self._queue(task.node, now_ns).wait_ns(now_ns) if reported_ns is None else reported_ns
        overhead_ns, memory_ns = (
            image_overhead_ns(tier, written_bytes, size_bytes, queue_ns) for written_bytes in (dump_bytes, size_bytes)
        )
        return structs.replace(
            task,
            image_overhead_ns=overhead_ns,
            image_memory_ns=memory_ns,
            image_dump_ns=tier.write_ns(dump_bytes),
        )

    def begin(self, task: TaskView, now_ns: int) -> None:
        """An image of the task has been ordered."""
        if self._tier is not None:
            queue = self._queue(task.node, now_ns)
            dump_ns = self._tier.write_ns(self._dump_bytes(self._tier, task))
            queue.submit(f"{task.container} {now_ns}", dump_ns, now_ns)

    def _dump_bytes(self, tier: Tier, task: TaskView) -> int:
        return tier.dump_bytes(self._facts, task.group, task.task or 0, task.has_image, _done_ppm(task))

    def _queue(self, node: str, now_ns: int) -> DeviceQueue:
        """The queue of a node's device, without the writes that must be finished by now at the device's speed."""
        queue = self._queues.get(node)
        if queue is None:
            assert self._tier is not None
            queue = self._queues[node] = DeviceQueue(self._tier.at_once)
        while (due := queue.next_due()) is not None and due[0] <= now_ns:
            queue.end(due[1], due[0])
        return queue


def _done_ppm(task: TaskView) -> int:
    """Share of its work that a task has done, in millionths.  One that counts no keys counts as done: it may then use
    all its memory."""
    return WHOLE_PPM if not task.keys_total else (task.keys_done or 0) * WHOLE_PPM // task.keys_total


class Releaser:
    """Chooses the victims among one job's tasks; see the module's theory of operation."""

    def __init__(self, facts: JobFacts, settings: Settings, live: Mapping[str, TaskAttempt]) -> None:
        self.job = facts.name
        self.on_nodes = NodeContractsOfJob(facts, settings, live)
        self.open_contracts = 0
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
    def has_open_contract(self) -> bool:
        """Whether containers are still to be given back."""
        return bool(self.open_contracts or self.named or self.on_nodes.open_contracts)

    def apply_response(self, answer: AllocateResponse) -> None:
        """Take what the answer asks back."""
        if answer.costs is not None:
            self.costs = answer.costs
        self.open_contracts = max(0, self.open_contracts - answer.withdrawn) + answer.reclaim
        self.named.update(dict.fromkeys(answer.named))
        self.named.update(answer.device_queues)
        self.on_nodes.keeps = dict(answer.keeps)

    @staticmethod
    def candidates(tasks: Iterable[TaskAttempt], now_ns: int) -> list[TaskAttempt]:
        """Attempts that run or are being restored; those already chosen, or refused a moment ago, are left out."""
        running = AttemptState.RUNNING
        return [a for a in tasks if (a.state is running or a.is_being_restored) and a.spared_until_ns <= now_ns]

    def victims(self, tasks: Iterable[TaskAttempt], now_ns: int) -> list[TaskAttempt]:
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

    def choose(self, candidates: list[TaskAttempt], now_ns: int, whole: bool = False) -> ChosenTasks | None:
        """Choose victims for as much of the debt as ``candidates`` allow, and mark them; all of them if the ``whole``
        job must give its containers back.

        Named containers that are not among ``candidates`` either end by themselves or are not given back.  Those whose
        wait for the device was said stay named until they can be given.
        """
        if not (whole or self.open_contracts or self.named):
            owed = self.on_nodes.open_contracts
            candidates = [attempt for attempt in candidates if attempt.node in owed]
        if not candidates:
            return None
        tasks = tuple([view_of(self.job, attempt, now_ns) for attempt in candidates])
        if self._has_device:
            tasks = tuple([self._weighed(task, now_ns) for task in tasks])
        view = self.view(now_ns, tasks)
        named = tuple(task.container for task in tasks if task.container in self.named)
        order = self._in_order(view, tasks, () if whole else named)
        if whole:  # nobody is spared
            order += tuple(task.container for task in tasks if task.container not in order)
        going = order if whole or named or self.open_contracts else self.on_nodes.choose(tasks, order)
        most = len(going) if whole or named else self.open_contracts or len(going)
        chosen = self._with_mechanisms(view, tasks, going, most, whole)
        self.named = {name: wait for name, wait in self.named.items() if wait is not None and name not in named}
        if not chosen:
            return None
        by_container = {attempt.container: attempt for attempt in candidates}
        victims = [by_container[container] for container, _ in chosen]
        for victim, (_, decision) in zip(victims, chosen, strict=True):
            pays_debt = not named and self.open_contracts > 0
            victim.take(AttemptEvent.CHOOSE, decision.mechanism, pays_debt)
            self.open_contracts -= pays_debt
        taken = [container for container, _ in chosen]
        in_order = [*taken, *(container for container in order if container not in taken)]
        mechanisms = tuple(decision for _, decision in chosen)
        why = explain_tasks(self._eviction.name, self.job, tasks, in_order, len(taken), mechanisms)
        return ChosenTasks(victims, why)

    def _in_order(self, view: ClusterView, tasks: tuple[TaskView, ...], named: tuple[str, ...]) -> tuple[str, ...]:
        """Those that are ``named``; if none is, the tasks by the task eviction policy."""
        self._decisions += 1
        random = keyed_random(self._seed, f"am:{self.job}", "task-eviction", self._decisions)
        return named or order_tasks(self._eviction, view, tasks, random)

    def _with_mechanisms(
        self, view: ClusterView, tasks: tuple[TaskView, ...], order: tuple[str, ...], limit: int, whole: bool
    ) -> list[tuple[str, MechanismDecision]]:
        """At most ``most`` containers of ``order``, each with its mechanism; tasks to be waited for are left out.  If
        the ``whole`` job goes, they are killed, and so are tasks that a node has refused to stop."""
        by_container = {task.container: task for task in tasks}
        chosen: list[tuple[str, MechanismDecision]] = []
        for container in order:
            if len(chosen) == limit:
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
        """What the job's policies see: its own tasks, and the costs that it received."""
        return ClusterView(now_ns, Known(tasks=tasks, costs=self.costs))


def view_of(job: str, attempt: TaskAttempt, now_ns: int) -> TaskView:
    """The attempt as task eviction sees it."""
    container, node = attempt.place
    started_ns = attempt.running_since_ns if attempt.was_launched else now_ns
    return TaskView(
        container=container,
        job=job,
        group=attempt.task.group,
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
