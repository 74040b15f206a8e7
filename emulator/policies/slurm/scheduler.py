"""Slurm as the scheduler of whole machines: its controller decides, and this carries it out in the cluster's machines.

Theory of operation
-------------------
In the controller's snapshot a job is on its nodes from the decision on, and a victim until the cluster has told that
all of its containers are back.  A ``_Stay`` is a job on its nodes once; it has a wish (to run, to stop, to go), and
what the cluster has told of its containers.  After all news those whose wish is not fulfilled yet are looked at:
containers are given when there is room for all; to take one back takes all of a rigid job.

``REQUEUE`` is ``mechanism: kill``; with ``checkpoint`` or ``image`` the job goes on from what was saved.  ``SUSPEND``
is ``mechanism: suspend``, of all jobs, of a queue or of a job.  A job that waits for a container again, or has lost a
node, is requeued, as Slurm does when a node fails; what of it is stopped elsewhere goes on there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from emulator.policies.news import (
    Answer,
    CancelJob,
    CannotGoOnError,
    ContainerEnded,
    ContainerStarted,
    ContainerStopped,
    Give,
    JobEnded,
    JobSubmitted,
    JobWaits,
    News,
    NodeGone,
    NodeUp,
    Said,
    TakeBack,
    details_of,
)
from emulator.policies.slurm.controller import Controller
from emulator.policies.slurm.decisions import Decision, Outcome
from emulator.policies.slurm.snapshot import Running, Waiting
from emulator.sites.slurm import FOREVER_NS, SECOND_NS, Cluster, Job, Mode, SlurmDetails
from emulator.vocabulary import Frozen

CPU = "cpu"
"""The resource that jobs ask for (``CR_CPU``)."""
CANCELLED = "preempted (PreemptMode=CANCEL)"
"""Why a job has ended that was ended for another."""


class SlurmRules(Frozen):
    """What Slurm decides by; ``natjam import slurm`` writes it."""

    cluster: Cluster
    controller_started_s: float = 0.0
    """When the controller started, in the jobs' time; its schedulers run at whole seconds from then on."""


class _Wish(Enum):
    RUN = "run"
    STOP = "stop"
    GO = "go"


@dataclass(eq=False, slots=True)
class _Stay:
    """A job on its nodes, once; see the module's theory of operation."""

    running: Running
    wish: _Wish = _Wish.RUN
    containers: dict[str, str] = field(default_factory=dict)
    """Those that have what they need of their nodes, by their names; their nodes."""
    awaits: bool = False
    """Whether something was given or taken back, and the cluster has not told all of it."""
    was_whole: bool = False
    """Whether it has been on all of its nodes."""
    is_over: bool = False
    """Whether the job has been ended: its time limit is over, or it was preempted under ``PreemptMode=CANCEL``."""
    beside: int = 0
    """How many other jobs have started in the same pass."""
    requester: str | None = None
    """For whom it was last told to go or to stop."""
    why: str = ""
    """The same in words."""

    @property
    def name(self) -> str:
        return self.running.waiting.job.name

    @property
    def is_whole(self) -> bool:
        return len(self.containers) == len(self.running.nodes)


class SlurmScheduler:
    """Slurm decides, for the nodes, partitions and jobs of an imported site: who starts where, and who makes room.

    A ``Scheduler``; see the module's theory of operation.
    """

    def __init__(self, options: SlurmRules) -> None:
        self._controller = Controller(options.cluster, round(options.controller_started_s * SECOND_NS))
        self._snapshot = self._controller.snapshot
        self._groups: dict[str, str] = {}
        """The group of each job's tasks."""
        self._waits: dict[str, JobWaits] = {}
        self._free = dict.fromkeys(options.cluster.nodes, 0)
        """CPUs of each node that the cluster has free, by what it has told."""
        self._stays: dict[str, _Stay] = {}
        """Of the jobs that are on nodes in the snapshot."""
        self._open: list[_Stay] = []
        """Those whose wish is not fulfilled yet."""
        self._holders: dict[str, _Stay] = {}
        """By container."""
        self._started: list[_Stay] = []
        """In the pass that is under way."""
        self._is_shared = True
        """Whether it is known who of those that share CPUs runs."""

    def hear(self, news: Sequence[News], now_ns: int) -> Answer:
        """See ``Scheduler``."""
        for each in news:
            self._hear(each, now_ns)
        if news:
            self._is_shared = False
        return Answer(self._fulfilled(now_ns), now_ns if self._is_due(now_ns) else self._again_ns(now_ns))

    def decide(self, now_ns: int) -> Answer:
        """See ``Scheduler``."""
        if over := [*self._over(now_ns)]:
            return Answer([*over, *self._fulfilled(now_ns)], now_ns)
        if self._controller.slice_ns <= now_ns:
            self._controller.change_turns()
        said: list[Said] = []
        if self._controller.tick_ns <= now_ns:
            for decision in self._controller.tick(now_ns):
                said += self._carry_out(decision, now_ns)
            for stay in self._started:
                stay.beside = len(self._started) - 1
            self._started.clear()
        self._share(now_ns)
        return Answer([*said, *self._fulfilled(now_ns)], self._again_ns(now_ns))

    # ---- what has happened ----

    def _hear(self, news: News, now_ns: int) -> None:
        match news:
            case NodeUp(node=node):
                self._free[node] = self._snapshot.cluster.nodes[node]
                self._snapshot.node_up(node)
            case NodeGone(node=node):
                self._free[node] = 0
                self._snapshot.node_gone(node)
                for stay in [stay for stay in self._stays.values() if node in stay.running.nodes]:
                    self._send_off(stay, now_ns)
            case JobSubmitted():
                self._submitted(news)
            case JobWaits():
                self._wait(news, now_ns)
            case ContainerStarted(container=container, job=job, node=node):
                stay = self._holders[container] = self._stay_of(job)
                stay.containers[container] = node
                stay.was_whole |= stay.is_whole
                stay.awaits &= not stay.is_whole
            case ContainerStopped(container=container) | ContainerEnded(container=container):
                self._left(container)
            case JobEnded(job=job):
                self._ended(job)
            case _:
                pass

    def _submitted(self, news: JobSubmitted) -> None:
        """Raises CannotGoOnError: the job has no details of Slurm, several groups of tasks, or an unknown partition."""
        details = details_of(news, SlurmDetails, "Slurm job")
        if len(news.groups) > 1:
            raise CannotGoOnError(
                f"job {news.job} must have one group of tasks, of which one runs on each of its nodes"
            )
        (group,) = news.groups
        cpus = -(-group.resources.get(CPU, 0) // 1000)
        of_slurm = details.limit_ns, news.priority, details.qos
        # Slurm does not know how long a job will work.
        job = Job(news.job, news.queue, group.tasks, cpus, 0, news.submitted_ns, *of_slurm)
        self._groups[news.job] = group.group
        try:
            self._controller.submit(job)
        except KeyError as error:
            raise CannotGoOnError(f"job {news.job}: Slurm has no partition, or QOS, {error}") from None

    def _stay_of(self, job: str) -> _Stay:
        """The one whose containers start; if the job has ended meanwhile, they are still to be given back."""
        return self._stays.get(job) or next(stay for stay in self._open if stay.name == job)

    def _wait(self, news: JobWaits, now_ns: int) -> None:
        """A job waits for containers; if it has been on its nodes, it has lost some of them."""
        self._waits[news.job] = news
        self._note_stopped(news.job)
        stay = self._stays.get(news.job)
        if stay is not None and stay.was_whole and stay.wish is _Wish.RUN and not stay.awaits and news.new:
            self._send_off(stay, now_ns)

    def _note_stopped(self, job: str) -> None:
        """Where a pending job must be, because of what it has told last."""
        if job in self._snapshot.waiting and job in self._waits:
            suspended = self._waits[job].suspended
            self._snapshot.waiting[job].stopped_on = frozenset(each.node for each in suspended if each.only_there)

    def _left(self, container: str) -> None:
        """A container has what it needs of its node no longer."""
        stay = self._holders.pop(container, None)
        if stay is None:  # its process was stopped before
            return
        node = stay.containers.pop(container)
        if node in self._snapshot.up:
            self._free[node] += stay.running.cpus
        stay.awaits &= bool(stay.containers)

    def _ended(self, job: str) -> None:
        del self._groups[job]
        self._waits.pop(job, None)
        if job in self._stays:
            stay = self._stays[job]
            stay.awaits &= bool(stay.containers)
            self._wishes(stay, _Wish.GO)
        elif job in self._snapshot.waiting:
            self._controller.withdraw(job)

    def _over(self, now_ns: int) -> Iterator[Said]:
        """The time limit, or the grace, of running jobs is over."""
        if self._next_end_ns() > now_ns:
            return
        for stay in [stay for stay in self._limited() if self._controller.ends_ns(stay.running) <= now_ns]:
            if stay.running.preempted:
                yield from self._evict(stay, now_ns)
            else:
                stay.is_over = True
                yield CancelJob(stay.name, "its time limit is over", fails=False)

    # ---- what is decided ----

    def _carry_out(self, decision: Decision, now_ns: int) -> Iterator[Said]:
        for name in decision.victims:
            stay = self._stays[name]
            self._note_why(stay, self._snapshot.waiting[decision.job], f"PreemptMode={stay.running.waiting.terms.mode}")
            if not self._snapshot.begin_grace(stay.running, now_ns):
                yield from self._evict(stay, now_ns)
        if decision.outcome is Outcome.STARTS:
            stay = self._stays[decision.job] = _Stay(self._controller.start(decision, now_ns))
            self._open.append(stay)
            self._started.append(stay)

    def _evict(self, stay: _Stay, now_ns: int) -> Iterator[Said]:
        self._send_off(stay, now_ns)
        if stay.running.waiting.terms.mode is Mode.CANCEL:
            stay.awaits = stay.is_over = True
            yield CancelJob(stay.name, CANCELLED, fails=False, loses=True)

    def _send_off(self, stay: _Stay, now_ns: int) -> None:
        """It has to leave its nodes."""
        self._snapshot.send_off(stay.running, now_ns)
        self._wishes(stay, _Wish.GO)

    def _leave(self, stay: _Stay, now_ns: int) -> None:
        """It has left its nodes."""
        del self._stays[stay.name]
        waiting, was_sent_off = stay.running.waiting, stay.name in self._snapshot.going
        self._controller.leave(stay.running)
        if was_sent_off and stay.name in self._groups and not stay.is_over:
            self._controller.requeue(waiting, waiting.job, now_ns)
            self._note_stopped(stay.name)

    def _share(self, now_ns: int) -> None:
        stops, goes_on = self._controller.share(now_ns)
        for name in stops:
            self._note_why(self._stays[name], self._on_top_of(self._stays[name]), "they share CPUs")
            self._wishes(self._stays[name], _Wish.STOP)
        for name in goes_on:
            self._wishes(self._stays[name], _Wish.RUN)
        self._is_shared = True

    def _on_top_of(self, stay: _Stay) -> Waiting | None:
        """A running job on nodes of a stopped one, of the highest tier that there is."""
        nodes = set(stay.running.nodes)
        others = (each for each in self._stays.values() if each.wish is _Wish.RUN and each is not stay)
        there = [each for each in others if not nodes.isdisjoint(each.running.nodes)]
        return max((each.running.waiting for each in there), key=lambda each: each.partition.tier, default=None)

    def _note_why(self, stay: _Stay, requester: Waiting | None, how: str) -> None:
        stay.requester, stay.why = None, ""
        if requester is not None:
            job = requester.job
            stay.requester = job.name
            stay.why = f"makes room for {job.name} of {job.qos or job.partition} ({how})"

    def _is_due(self, now_ns: int) -> bool:
        """Whether there is something to decide, after all that happens at this instant by itself."""
        may_share = self._snapshot.cluster.settings.gang and not self._is_shared
        return may_share or min(self._controller.tick_ns, self._controller.slice_ns, self._next_end_ns()) <= now_ns

    def _again_ns(self, now_ns: int) -> int | None:
        again_ns = min(self._controller.arm(now_ns), self._controller.slice_ns, self._next_end_ns())
        return again_ns if again_ns < FOREVER_NS else None

    def _next_end_ns(self) -> int:
        """When the next job is ended because its time limit, or its grace, is over."""
        return min((self._controller.ends_ns(stay.running) for stay in self._limited()), default=FOREVER_NS)

    def _limited(self) -> Iterator[_Stay]:
        """Those whose time counts, and who have not been ended."""
        return (stay for stay in self._stays.values() if stay.wish is _Wish.RUN and not stay.is_over)

    # ---- what is said ----

    def _wishes(self, stay: _Stay, wish: _Wish) -> None:
        stay.wish = wish
        if wish is _Wish.GO:
            self._controller.stopped.pop(stay.name, None)  # it does not go on
        if stay not in self._open:
            self._open.append(stay)

    def _is_done(self, stay: _Stay) -> bool:
        return not stay.awaits and (stay.is_whole if stay.wish is _Wish.RUN else not stay.containers)

    def _fulfilled(self, now_ns: int) -> list[Said]:
        """What is to be said now, so that wishes are fulfilled."""
        said = [decision for stay in self._open for decision in self._for_wish(stay)]
        done = [stay for stay in self._open if self._is_done(stay)]
        self._open = [stay for stay in self._open if stay not in done]
        for stay in done:
            if stay.wish is _Wish.GO:
                self._leave(stay, now_ns)
        return said

    def _for_wish(self, stay: _Stay) -> Iterable[Said]:
        if stay.awaits:
            return ()
        if stay.wish is _Wish.RUN:
            return self._gives(stay)
        if not stay.containers or stay.name not in self._groups:
            return ()
        stay.awaits = True
        return (TakeBack(next(iter(stay.containers)), requester=stay.requester, why=stay.why),)

    def _gives(self, stay: _Stay) -> list[Said]:
        """Containers for all of its tasks; none as long as they do not all wait and have room."""
        waits, nodes, group = self._waits.get(stay.name), stay.running.nodes, self._groups[stay.name]
        if waits is None or stay.containers:
            return []
        suspended = [each for each in waits.suspended if each.group == group]
        if len(suspended) + waits.new.get(group, 0) < len(nodes):
            return []
        there = {each.node: each.task for each in suspended if each.only_there}
        elsewhere = [each.task for each in suspended if not each.only_there]
        if any(self._free[node] < stay.running.cpus for node in nodes):
            return []
        stay.awaits = True
        del self._waits[stay.name]
        for node in nodes:
            self._free[node] -= stay.running.cpus
        tasks = [there[node] if node in there else elsewhere.pop(0) if elsewhere else None for node in nodes]
        return [Give(stay.name, node, group, task, stay.beside) for node, task in zip(nodes, tasks, strict=True)]
