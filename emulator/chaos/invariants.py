"""The invariants that must hold in a simulated run under any faults, checked after every message and at the end.

Theory of operation
-------------------
Each machine checks its own state (``validate_state``: no node exceeds its ledger, one unfinished attempt per task).
This module checks what processes do, from the processes themselves.  It checks how many processes run or are stopped on
a node, whether a task is launched beside one that still runs, and which keys each container has walked.  The output of
a reduce consists of the containers that its last attempt resumed from, in order; together they must have walked every
key exactly once.

No gang is half placed: when its first task gets a container at the ResourceManager, as many do as it needs at once, or
all that are left; and as many are started when its ApplicationMaster starts the first.

A node that was given up may live on for a while, and its tasks then run beside their replacements.  So may a container
whose job has ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import AttemptState
from emulator.core.completions import Checkpointed, Exited, SavedByItself
from emulator.core.effects import Launch, Send
from emulator.core.job import JobSpec
from emulator.core.messages import (
    RESOURCE_MANAGER,
    JobFinished,
    JobState,
    NodeHeartbeat,
    NodeLost,
)
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.resource_manager.applications import Application
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.core.settings import Settings
from emulator.policies.policy import Reads
from emulator.policies.resources import fits, plus
from emulator.records.journal import Record
from emulator.sim.cluster import SimulatedCluster
from emulator.sim.tasks import VirtualTask
from emulator.vocabulary import Resources, Work


class Violation(Exception):
    """An invariant does not hold."""


def require(holds: bool, otherwise: str) -> None:
    """Raise Violation with the text ``otherwise`` unless ``holds``."""
    if not holds:
        raise Violation(otherwise)


def may_be_endless(settings: Settings) -> bool:
    """Whether tasks may be preempted without end: where jobs take turns because their order depends on their progress
    (MLF; natjam, section 4), where the cluster may take containers back sooner than a task ends, or where YARN kills a
    large container for a small lack, after which its queue is the first to be served again."""
    scheduler = settings.scheduler
    if settings.availability is not None or (settings.has_sizes and scheduler.allocation.name == "yarn-capacity"):
        return True
    return any(Reads.PROGRESS in policy.reads for policy in (scheduler.job_selection, scheduler.job_eviction))


@dataclass(slots=True)
class _Walk:
    """What the container of a reduce has walked: keys ``start`` to ``end``, after those of ``past``."""

    job: str
    task: int
    past: tuple[str, ...]
    start: int
    end: int
    succeeded: bool = False
    saved: int | None = None
    """The end of what it has saved, if it does not succeed."""


class Invariants:
    """The invariants of one run; see the module's theory of operation.  All methods raise Violation."""

    def __init__(self, settings: Settings, jobs: Mapping[str, JobSpec]) -> None:
        self.finished: dict[str, JobFinished] = {}
        """Jobs that have ended, as reported by the ResourceManager."""
        self._settings = settings
        self._jobs = jobs
        self._gangs = {name for name, job in jobs.items() if job.facts.gang is not None}
        self._walks: dict[str, _Walk] = {}
        self._containers: set[str] = set()
        """All containers that were launched."""
        self._given_up: set[str] = set()
        """Nodes that have not resynced since."""
        self._registrations: dict[str, int] = {}
        self._launched: list[Launch] = []
        """Launches since the last check."""
        self._placed: dict[str, bool] = {}
        """Whether a task of a gang has a container, by the machine that knows the gang, and the gang."""
        self._judged: dict[str, int] = {}
        """Revision of each machine when its state was last checked."""

    def note(self, record: Record) -> None:
        """A machine has handled a message; its effects are not carried out yet."""
        message = record.message
        if type(message) is NodeLost and record.actor == RESOURCE_MANAGER:
            self._given_up.add(message.node)
        elif type(message) is NodeHeartbeat and message.registration > self._registrations.get(message.node, 0):
            self._registrations[message.node] = message.registration
            self._given_up.discard(message.node)
        elif type(message) is Exited and message.container in self._walks:
            walk = self._walks[message.container]
            walk.end, walk.succeeded = message.keys_done, message.code == 0
            if walk.saved is not None and not walk.succeeded:
                walk.end = walk.saved
        elif isinstance(message, Checkpointed | SavedByItself) and message.container in self._walks:
            self._walks[message.container].saved = self._walks[message.container].end = message.saved.keys_done
        for effect in record.effects:
            if type(effect) is Launch:
                self._launched.append(effect)
            elif type(effect) is Send and type(effect.message) is JobFinished:
                self._note_end(effect.message)

    def _note_end(self, finished: JobFinished) -> None:
        before = self.finished.setdefault(finished.job, finished)
        require(before.state is finished.state, f"{finished.job} has ended {before.state}, then {finished.state}")
        require(finished.state is JobState.SUCCEEDED or bool(finished.reason), f"{finished.job} fails without a reason")

    def look(self, cluster: SimulatedCluster, address: str) -> None:
        """Check after the effects of a message have been carried out."""
        machine = cluster.machines.get(address)
        if machine is None or self._judged.get(address) == machine.revision:
            return
        self._judged[address] = machine.revision
        try:
            machine.validate_state()
        except AssertionError as error:
            raise Violation(f"{address}: {error or 'its state does not agree with itself'}") from error
        for launch in self._launched:
            self._look_at_launch(cluster, launch)
        self._launched.clear()
        if isinstance(machine, NodeManager):
            self._look_at_node(cluster, machine)
        elif isinstance(machine, ResourceManager):
            for name in self._gangs & machine.state.applications.keys():
                self._look_at_gang(machine.state.applications[name])
        elif isinstance(machine, ApplicationMaster) and machine.tasks.gang is not None:
            tasks, gang = machine.tasks, machine.tasks.gang
            placed = {attempt.task for attempt in tasks.live.values() if attempt.state is not AttemptState.SUSPENDED}
            self._look_at_start(address, len(placed), 0 if gang.disbands else tasks.needed)

    def _look_at_gang(self, application: Application) -> None:
        count, pending = application.members + application.reclaimed, application.requests.pending
        needed = min(application.facts.gang or 0, count + pending)
        self._look_at_start(f"rm: {application.name}", count, needed)

    def _look_at_start(self, where: str, count: int, needed: int) -> None:
        """Where the tasks of a gang have ``count`` containers, which it must have at least when it starts."""
        if count and not self._placed.get(where):
            require(count >= needed, f"{where}: a gang of {needed} starts with {count} containers")
        self._placed[where] = count > 0

    def _look_at_launch(self, cluster: SimulatedCluster, launch: Launch) -> None:
        require(launch.container not in self._containers, f"{launch.container} is launched twice")
        self._containers.add(launch.container)
        task = cluster.processes.tasks.get(launch.container)
        if task is None:
            return
        if launch.work is Work.KEYS:
            past = task.launch.saved.past_containers if task.launch.saved else ()
            self._walks[launch.container] = _Walk(launch.job, task.index, past, task.keys_before, task.keys_before)
        if launch.job in self.finished:
            return
        others = [
            container
            for container, other in cluster.processes.tasks.items()
            if other is not task and _same_task(other, task) and other.node not in self._given_up
        ]
        allowed = int(self._settings.protocol.speculation is not None and launch.work is Work.KEYS)
        if task.node not in self._given_up and len(others) > allowed:
            raise Violation(
                f"{launch.attempt} runs in {launch.container} while {', '.join(others)} is at the same task"
            )

    def _look_at_node(self, cluster: SimulatedCluster, machine: NodeManager) -> None:
        node, running, stopped, stopped_bytes = machine.node, 0, 0, 0
        held: Resources = (0,) * len(node.resources)
        for container, task in cluster.processes.tasks.items():
            is_outside = task.launch.work is Work.MASTER and node.unmanaged_masters
            if task.node == node.name and not is_outside:
                # A process about to resume, or killed before its stop was known, still has its container.
                in_container = machine.ledger.in_container(container) or not task.stopped
                running += in_container
                request = self._request_of(task.launch)
                held = plus(held, request if in_container else node.held_when_stopped(request))
                stopped += not in_container
                if not in_container:
                    known_bytes = task.launch.memory_bytes
                    stopped_bytes += node.requested_bytes(request) if known_bytes is None else known_bytes
        if not node.resources:
            require(running <= node.containers, f"{node.name} runs {running} processes in {node.containers} containers")
        require(fits(held, node.resources), f"{node.name} has {node.resources}, and its processes hold {held}")
        most, room_bytes = node.max_suspended, node.capacity_bytes
        require(stopped <= most, f"{node.name} holds {stopped} stopped processes, and may hold {most}")
        require(stopped_bytes <= room_bytes, f"{node.name} has {room_bytes} bytes for stopped ones: {stopped_bytes}")

    def _request_of(self, launch: Launch) -> Resources:
        facts = self._jobs[launch.job].facts
        if launch.work is Work.MASTER:
            return facts.master_request or self._settings.master_request
        return facts.group(launch.group).request

    # ---- the end ----

    def look_at_end(self, cluster: SimulatedCluster) -> None:
        """Check after all jobs have ended and the cluster has had time to come to rest."""
        self.look_at_jobs()
        left = self.what_is_left(cluster)
        require(not left, f"left after the end: {', '.join(left[:5])}")

    def look_at_jobs(self) -> None:
        """Check that all jobs have ended, and the output of those that have succeeded."""
        for job in self._jobs:
            require(job in self.finished, f"{job} has not ended")
        for job, finished in self.finished.items():
            if finished.state is JobState.SUCCEEDED:
                self._look_at_output(self._jobs[job])

    def _look_at_output(self, job: JobSpec) -> None:
        done: Counter[int] = Counter()
        for container, walk in self._walks.items():
            if walk.job != job.name or not walk.succeeded:
                continue
            done[walk.task] += 1
            at = 0
            for part in (*walk.past, container):
                found = self._walks[part]
                where = f"{job.name}, task {walk.task}: {part}"
                require(found.start == at <= found.end, f"{where} has walked from key {found.start}, not {at}")
                at = found.end
            wanted = job.reduce_keys[walk.task]
            require(at == wanted, f"{job.name}, task {walk.task}: {at} keys of {wanted} are in its output")
        for task in range(len(job.reduce_keys)):
            require(done[task] >= 1, f"{job.name} has succeeded without its task {task}")

    def what_is_left(self, cluster: SimulatedCluster) -> list[str]:
        """Processes, containers, jobs and ApplicationMasters that should be gone once all jobs have ended, and nodes
        of which containers should be free."""
        manager = cluster.machines[RESOURCE_MANAGER]
        assert isinstance(manager, ResourceManager)
        masters = [address for address, machine in cluster.machines.items() if isinstance(machine, ApplicationMaster)]
        left = [*cluster.processes.tasks, *manager.state.containers, *manager.state.applications, *masters]
        for node in manager.state.nodes.values():
            free, total = node.free_count, node.settings.containers
            if free != total and node.name not in self._given_up:
                left.append(f"{node.name} with {free} of {total} containers free")
        return left


def _same_task(one: VirtualTask, other: VirtualTask) -> bool:
    a, b = one.launch, other.launch
    return (a.job, a.group, a.task) == (b.job, b.group, b.task)
