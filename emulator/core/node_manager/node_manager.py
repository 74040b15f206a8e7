"""The NodeManager: carries out what is ordered for the containers of one node; it decides nothing else.

Theory of operation
-------------------
A NodeManager carries out the commands of ApplicationMasters, and those of the ResourceManager: kills, and commands
about ApplicationMasters' own containers.  It does so by emitting effects on containers; no other machine does.  Each
container has a state from the table below.  Commands are idempotent.  A repeated command is answered with the
container's current report; a kill that overtakes its start leaves a tombstone, which refuses the start.

Every change is reported to the job's ApplicationMaster at once (natjam, Fig. 1, steps 8 and 9).  Containers that have
ended or stopped are reported to the ResourceManager in heartbeats (``emulator.core.node_manager.status_updater``),
which pass an end on to the ApplicationMaster if that has not acknowledged it.  Under an overhead profile a suspended
container is held back until the profile's total has passed since the ApplicationMaster asked; then a heartbeat of its
own carries it, so that the total deviates as little as the published one.  Protocols may want one at every end
(``settings.News``).

A stopped process frees its container but not its memory, which is charged to ``memory + swap``.  A suspend is refused
if it would exceed that or ``max_suspended`` (os-assisted-preemption, section III).
"""

from __future__ import annotations

from typing import get_args

from emulator.core import effects as fx
from emulator.core.completions import (
    FirstKey,
    Killed,
    KillFailed,
    LaunchFailed,
    Paged,
    SavedByItself,
    Terminated,
    TerminateFailed,
)
from emulator.core.machine import IllegalTransition, Phase, StateMachine, Timers
from emulator.core.messages import (
    PREEMPTED,
    RESOURCE_MANAGER,
    ContainerReported,
    ContainerState,
    EndReceived,
    KillContainer,
    MapOutputs,
    MapOutputsReceived,
    Message,
    NodeHeartbeatResponse,
    Outcome,
    ResumeContainer,
    Start,
    StartContainer,
    SuspendContainer,
    Tick,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.node_ledger import InsufficientResourcesError, NodeLedger
from emulator.core.node_manager.container import Container, StateCompletion, first_key_at_ns
from emulator.core.node_manager.status_updater import NodeStatusUpdater
from emulator.core.settings import NodeSettings, Settings, UpdateMode
from emulator.policies.mechanism import TRAITS
from emulator.vocabulary import ProcessImage, Work


class NodeManager(StateMachine):
    """The machine of one node; see the module's theory of operation."""

    def __init__(self, node: NodeSettings, settings: Settings) -> None:
        super().__init__(node_address(node.name))
        self.node = node
        self.containers: dict[str, Container] = {}
        self.ledger = NodeLedger(node)
        self._map_outputs: dict[str, int] = {}
        self._finished_jobs: set[str] = set()
        self._forgotten: set[str] = set()
        """Ended containers of ended jobs, whose end the ResourceManager knows."""
        self._updates = NodeStatusUpdater(node.name)
        self._overheads = settings.overheads
        self._updates_immediately = settings.protocol.news is not UpdateMode.HEARTBEAT
        self._timers = Timers()
        self.heartbeat = Phase(settings.seed, self.address, "heartbeat", settings.protocol.heartbeat_ns)

    # ---- messages ----

    def _start(self, message: Start, now_ns: int) -> list[fx.Effect]:
        if self.revision:  # restarted: its processes have gone with the machine
            self.ledger = NodeLedger(self.node)
            self._map_outputs.clear()
            self._finished_jobs.clear()
            self._resync(now_ns)
        return self._heartbeat(now_ns)

    def _resync(self, now_ns: int) -> None:
        """Nothing is left of what was here."""
        self._forgotten.update(self.containers)
        self.containers.clear()
        self._updates.resync(now_ns)

    def _tick(self, message: Tick, now_ns: int) -> list[fx.Effect]:
        heartbeat = self._updates.heartbeat(now_ns)
        if heartbeat.is_empty:
            self.skip_journal()
        return [fx.Send(RESOURCE_MANAGER, heartbeat)]

    def _timer(self, message: TimerFired, now_ns: int) -> list[fx.Effect]:
        if not self._timers.take(message):
            return []
        verb, _, container_id = message.name.partition(" ")
        if verb == "release":
            return self._heartbeat(now_ns)
        container = self.containers.get(container_id)
        if container is not None and verb == "grace":
            return container.handle(KillContainer(container.id, container.job, ""), now_ns)
        if container is not None and container.state is ContainerState.RESUMING:
            return [fx.Resume(container.id)]
        return []

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        """When a freed container may be reported; see ``emulator.core.machine.StateMachine``."""
        return self._updates.due_ns(now_ns)

    def _start_container(self, message: StartContainer, now_ns: int) -> list[fx.Effect]:
        known = self.containers.get(message.container)
        if known is not None:
            return self._report(known)
        if message.job in self._finished_jobs or message.registration != self._updates.registration:
            return []  # late or repeated: its container may have ended and been forgotten, or been lost
        container = Container(
            message.container, message.job, message.group, message.ready_ns, message.memory_bytes, message.work
        )
        self.containers[container.id] = container
        try:
            self.ledger.take(container.id, container.work, message.memory_bytes, message.request)
        except InsufficientResourcesError as refusal:
            return self._apply(container, LaunchFailed(container.id, str(refusal)), now_ns)
        return [
            fx.Launch(
                container=message.container,
                job=message.job,
                group=message.group,
                task=message.task,
                attempt=message.attempt,
                first_key_at_ns=first_key_at_ns(message, self._overheads, now_ns),
                saved=message.saved,
                memory_bytes=message.memory_bytes,
                work=message.work,
            )
        ]

    def _suspend_container(self, message: SuspendContainer, now_ns: int) -> list[fx.Effect]:
        container = self.containers.get(message.container)
        if container is None or not container.is_stop_requested(message.asked_ns):
            return self._report(container) if container else []
        traits = TRAITS[message.mechanism]
        if traits.ends_process:
            order = fx.Dump(container.id) if traits.saves is ProcessImage else fx.Checkpoint(container.id)
            return self._apply(container, order, now_ns)
        try:
            self.ledger.set_aside(container.id)
        except InsufficientResourcesError as refusal:
            container.refused(str(refusal))
            return self._report_change(container)
        return self._apply(container, fx.Suspend(container.id), now_ns)

    def _resume_container(self, message: ResumeContainer, now_ns: int) -> list[fx.Effect]:
        container = self.containers.get(message.container)
        if container is None or container.state is not ContainerState.SUSPENDED:
            return self._report(container) if container else []
        if message.ready_ns <= container.ready_ns:
            return self._report(container)  # from an earlier resume: no container was given for this stop yet
        try:
            self.ledger.resume(container.id)
        except InsufficientResourcesError:
            return self._report(container)  # it will be repeated
        effects = self._apply(container, message, now_ns)
        self._updates.withdraw(container)
        at_ns = message.ready_ns + self._overheads.resume_ns
        if self._overheads.resume_ns and at_ns > now_ns:
            return [self._timers.set(f"resume {container.id}", at_ns)]
        return effects

    def _kill_container(self, message: KillContainer, now_ns: int) -> list[fx.Effect]:
        container = self.containers.get(message.container)
        if message.container in self._forgotten:
            return []  # the kill crossed the report of its end
        if container is None:  # the kill has overtaken the start: record it, so that the start is refused
            container = Container.killed_before_start(message, now_ns)
            self.containers[container.id] = container
            return self._free(container, now_ns)
        before = container.state
        effects = self._apply(container, message, now_ns)
        if container.state is before:
            return [*effects, *self._report(container)]
        return (
            [*effects, self._timers.set(f"grace {container.id}", now_ns + message.grace_ns)]
            if container.in_grace
            else effects
        )

    def _map_outputs_known(self, message: MapOutputs, now_ns: int) -> list[fx.Effect]:
        receipt = MapOutputsReceived(self.node.name, message.version, self._updates.registration)
        received = fx.Send(job_address(message.job), receipt)
        if self._map_outputs.get(message.job, 0) >= message.version or message.job in self._finished_jobs:
            return [received]
        self._map_outputs[message.job] = message.version
        return [fx.ProvideInput(message.job, message.version, message.nodes), received]

    def _end_received(self, message: EndReceived, now_ns: int) -> list[fx.Effect]:
        container = self.containers.get(message.container)
        if container is not None:
            container.job_knows = True
        return []

    def _response(self, message: NodeHeartbeatResponse, now_ns: int) -> list[fx.Effect]:
        told = self._updates.apply_response(message)
        if told is None:
            self.skip_journal()
            return []
        for container in told:
            if container.job in self._finished_jobs:
                self._forget(container)
        effects: list[fx.Effect] = []
        for job in message.finished_jobs:
            if job not in self._finished_jobs:
                effects += self._clean_up(job)
        return effects + self._shut_down(now_ns) if message.shut_down else effects

    def _shut_down(self, now_ns: int) -> list[fx.Effect]:
        """The ResourceManager has given this node up: kill everything, because it is replaced on other nodes."""
        effects: list[fx.Effect] = []
        for container in self.containers.values():
            effects += self._apply(
                container, KillContainer(container.id, container.job, "the node was given up"), now_ns
            )
        if all(container.state is ContainerState.DONE for container in self.containers.values()):
            self._resync(now_ns)
            return self._heartbeat(now_ns)
        return effects

    # ---- completions ----

    def _completed(self, message: StateCompletion, now_ns: int) -> list[fx.Effect]:
        return self._apply(self._named(message.container), message, now_ns)

    def _first_key(self, message: FirstKey, now_ns: int) -> list[fx.Effect]:
        self._named(message.container).begins_keys(message)
        return []

    def _saved_by_itself(self, message: SavedByItself, now_ns: int) -> list[fx.Effect]:
        container = self._named(message.container)
        container.saved_by_itself = message.saved
        return self._report_change(container)

    def _ignore(self, message: Message, now_ns: int) -> list[fx.Effect]:
        return []  # for the journal: the exit that follows reports everything

    # ---- parts ----

    def _named(self, container_id: str) -> Container:
        container = self.containers.get(container_id)
        if container is None:
            raise IllegalTransition(f"{self.address}: there is no container {container_id}")
        return container

    def _apply(
        self, container: Container, event: StateCompletion | KillContainer | ResumeContainer | fx.Effect, now_ns: int
    ) -> list[fx.Effect]:
        """Hand a container an event; what is told of it follows from the state that it comes to."""
        before = container.state
        effects = container.handle(event, now_ns)
        after = container.state
        if after is before:
            return effects
        if after is ContainerState.SUSPENDED or after is ContainerState.DONE:
            return self._free(container, now_ns)
        if before is ContainerState.SUSPENDING:
            self.ledger.keep(container.id)
        # A saved process ends at once, and that is reported.
        if after is ContainerState.RUNNING or after is ContainerState.COMMITTING:
            return self._report(container)
        return effects

    def _free(self, container: Container, now_ns: int) -> list[fx.Effect]:
        """A slot is free: tell the job now, and the ResourceManager at the next heartbeat or when the profile says."""
        self._updates.freed(container)
        if container.state is ContainerState.SUSPENDED:
            self.ledger.stop(container.id)
        elif container.id in self.ledger:  # a refused start was never charged
            self.ledger.end(container.id)
        was_taken = container.slot_free_ns is None
        container.slot_free_ns = now_ns
        effects = self._report(container)
        suspended = container.state is ContainerState.SUSPENDED or container.outcome is Outcome.CHECKPOINTED
        stays_ns = container.release_delay_after_kill_ns(self._overheads)
        if suspended and self._overheads.suspend_ns and container.suspend_asked_ns is not None:
            container.slot_free_ns = max(now_ns, container.suspend_asked_ns + self._overheads.suspend_ns)
        elif container.outcome is Outcome.KILLED and was_taken and stays_ns:
            container.slot_free_ns = now_ns + stays_ns
        else:
            return [*effects, *self._heartbeat(now_ns)] if self._updates_immediately else effects
        return [*effects, self._timers.set(f"release {container.id}", container.slot_free_ns)]

    def _report_change(self, container: Container) -> list[fx.Effect]:
        container.revision += 1
        return self._report(container)

    def _report(self, container: Container) -> list[fx.Effect]:
        if container.work is Work.MASTER:
            return []  # an ApplicationMaster knows its own state
        by_itself = container.outcome in (Outcome.SUCCEEDED, Outcome.CRASHED)
        preempted = container.outcome is Outcome.KILLED and container.reason == PREEMPTED
        if self._overheads.amrm_client and (by_itself or preempted):
            return []  # the ResourceManager reports it
        return [fx.Send(job_address(container.job), ContainerReported(container.report(self.node.name)))]

    def _heartbeat(self, now_ns: int) -> list[fx.Effect]:
        return [fx.Send(RESOURCE_MANAGER, self._updates.heartbeat(now_ns))]

    def _clean_up(self, job: str) -> list[fx.Effect]:
        self._finished_jobs.add(job)
        for container in [c for c in self.containers.values() if c.job == job]:
            self._forget(container)
        self._map_outputs.pop(job, None)
        return [fx.CleanUp(job)]

    def _forget(self, container: Container) -> None:
        """Drop an ended container whose end the ResourceManager knows."""
        if container.state is ContainerState.DONE and self._updates.is_acknowledged(container):
            del self.containers[container.id]
            self._forgotten.add(container.id)

    def validate_state(self) -> None:
        """Slots and memory are never over-committed; every freed container is reported until acknowledged."""
        self.ledger.validate()
        assert self.ledger.stopped <= self.node.max_suspended, f"{self.address}: {self.ledger.stopped} stopped"
        assert self.ledger.stopped_bytes <= self.node.capacity_bytes, (
            f"{self.address}: {self.ledger.stopped_bytes} bytes"
        )
        for container in self.containers.values():
            assert (container.id in self.ledger) == (container.state is not ContainerState.DONE), container.id
            assert self._updates.is_acknowledged(container) or not self.ledger.in_container(container.id), container.id

    handlers = {  # noqa: RUF012
        Start: _start,
        Tick: _tick,
        TimerFired: _timer,
        StartContainer: _start_container,
        SuspendContainer: _suspend_container,
        ResumeContainer: _resume_container,
        KillContainer: _kill_container,
        MapOutputs: _map_outputs_known,
        EndReceived: _end_received,
        NodeHeartbeatResponse: _response,
        FirstKey: _first_key,
        SavedByItself: _saved_by_itself,
        **dict.fromkeys(get_args(StateCompletion), _completed),
        **dict.fromkeys((Paged, Terminated, TerminateFailed, Killed, KillFailed), _ignore),
    }
