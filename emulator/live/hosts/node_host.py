"""A node host: the NodeManagers of one Ray node, and the processes in their containers.

Theory of operation
-------------------
NodeManagers order what is done with containers.  This host lets its supervisor do it, and turns the supervisor's events
into completion messages.  For an ApplicationMaster, a container is a place in an application host instead of a process.
The shuffle service is a process of its own.  Once per task heartbeat period the progress page is read, and the changes
go to the application hosts: one message for each host, however many reduces there are.

If the supervisor dies, all its processes die too; each is reported as a crash, and a new supervisor is started.
"""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from emulator.core import effects as fx
from emulator.core.application_master.task import task_name
from emulator.core.completions import (
    CheckpointFailed,
    Exited,
    KillFailed,
    Launched,
    LaunchFailed,
    RealCost,
    ResumeFailed,
    SuspendFailed,
    TerminateFailed,
)
from emulator.core.machine import StateMachine
from emulator.core.messages import FetchFailed, Message, Start, job_address, node_address
from emulator.core.node_manager.node_manager import NodeManager
from emulator.live.beat import gap
from emulator.live.hosts.host import MachineHost
from emulator.live.hosts.node_events import ContainerProcess, NodeEvents
from emulator.live.hosts.node_images import NodeImages
from emulator.live.hosts.plan import (
    HOST,
    ApplicationExited,
    ApplicationLaunched,
    HostStatus,
    LaunchApplication,
    Note,
    ProgressReadings,
    RunPlan,
    StopApplication,
)
from emulator.live.memory.nodes import NodeMemories, largest_task_bytes
from emulator.live.program_members import group_name, group_parent, remove_program_groups
from emulator.live.services.service_process import ShuffleProcess, StoreProcess
from emulator.live.tasks import records
from emulator.live.tasks.checkpoint import CheckpointFile
from emulator.live.tasks.launch_parameters import Place, Site, map_parameters, program_parameters, reduce_parameters
from emulator.live.tasks.progress_page import ProgressPage, WorkState
from emulator.live.tasks.supervisor_client import SupervisorClient
from emulator.policies.mechanism import makes_images
from emulator.storage.local import job_directory_name
from emulator.storage.objects import is_object_url
from emulator.vocabulary import KeyCheckpoint, Resources, Work

_AT_WORK = {WorkState.EMPTY, WorkState.WAITING_INPUT, WorkState.WAITING_FIRST_KEY, WorkState.RUNNING}
"""A task gives signs of life in these states; a map has no other.  All other work of a task has its own time limit."""

_PROCESSES = {Work.SHUFFLE: "map", Work.KEYS: "reduce"}
"""The kind of process that does each work (``emulator.live.tasks.children``)."""
_OPERATIONS: dict[type[fx.Effect], tuple[str, Callable[[str, str], Message]]] = {
    fx.Suspend: ("suspend", SuspendFailed),
    fx.Resume: ("resume", ResumeFailed),
    fx.Checkpoint: ("checkpoint", CheckpointFailed),
    fx.Dump: ("dump", CheckpointFailed),
    fx.Terminate: ("terminate", TerminateFailed),
}
"""The supervisor's operation for each effect, and the completion where there is no process any more."""


class NodeHost(MachineHost):
    """A NodeManager's host (see the module's theory of operation).  ``work_dir``: its own, removed at the end."""

    def __init__(self, name: str, plan: RunPlan, work_dir: Path) -> None:
        super().__init__(name, plan)
        self.work_dir = work_dir
        self.nodes = plan.node_hosts[name]
        self.shuffle = ShuffleProcess(plan.run_id, plan.secret, work_dir, self.nodes, plan.addresses[name])
        self.shuffle_urls: dict[str, str] = {}
        """The URLs of the shuffle services of all nodes of the run."""
        self._processes: dict[str, ContainerProcess] = {}
        self._applications: dict[str, tuple[str, str, int]] = {}
        """Containers of ApplicationMasters: node, job, when ordered (real)."""
        self._outputs: dict[tuple[str, str], list[dict[str, Any]]] = {}
        """(node, job): where the outputs of the job's maps are, once all are known."""
        self._settings_of = {node.name: node for node in self.settings.nodes}
        is_held = plan.limits_containers or largest_task_bytes(plan.jobs.values())
        mine = [self._settings_of[name] for name in self.nodes] if is_held else []
        self._mark = f"{plan.run_id}-{name}"
        self._memories = NodeMemories(self._mark, work_dir, plan.memory_scale, mine, plan.limits_containers)
        held = sum(self._settings_of[n].containers + self._settings_of[n].max_suspended for n in self.nodes)
        slots = 2 * held + 16  # as many again for inputs being made and processes about to end
        self.moves = 0
        """Grows whenever a process starts, ends, resumes or is seen working."""
        self._free_slots = list(range(slots - 1, -1, -1))
        self._supervisor: SupervisorClient | None = None
        self._closing = False
        self._held_back: list[dict[str, Any]] = []
        """Commands that wait until there is a supervisor again."""
        self._early: list[tuple[str, Message]] = []
        """Messages for NodeManagers that have not started yet.  The ResourceManager starts first, and may order
        ApplicationMasters outside containers on nodes that it has not heard of."""
        self._output = Path(plan.output)
        """What tasks write to."""
        self._store: StoreProcess | None = None
        """The service that brings it to the place of the output, if that is an object store."""
        if is_object_url(plan.output):
            self._output = work_dir / "output"
            self._store = StoreProcess(plan.run_id, plan.output, self._output)
        saves = makes_images(self.settings.scheduler.mechanism.among) and self.settings.tier is not None
        self._images = NodeImages(name, plan, work_dir, self._output) if saves else None
        self._new_supervisor: Callable[[], SupervisorClient] = lambda: SupervisorClient(
            plan.run_id,
            work_dir,
            slots,
            self._on_event,
            self._on_supervisor_lost,
            None if self._images is None else self._images.first_pid(),
            lambda late, at: self.gaps.add(gap(f"supervisor of {name}", late, at, self.clock)),
            sum(self._settings_of[node].containers for node in self.nodes),
        )

    # ---- life ----

    async def open(self) -> dict[str, str]:
        """Make the nodes' directories, start supervisor and services; returns the nodes' shuffle URLs."""
        self.work_dir.mkdir(mode=0o700)
        for node in self.nodes:
            (self.work_dir / node).mkdir(mode=0o700)
        self._output.mkdir(parents=True, exist_ok=True)
        if self._images is not None:
            await asyncio.to_thread(self._images.choose_dumper)
        await asyncio.to_thread(self._memories.open)
        self._supervisor = self._new_supervisor()
        others = [service.start() for service in (self._supervisor, self._store) if service is not None]
        urls, _ = await asyncio.gather(self.shuffle.urls(), asyncio.gather(*others))
        self.spawn(self.shuffle.keep())
        if self._store is not None:
            self.spawn(self._store.keep())
        return urls

    async def sees(self, marker: str) -> bool:
        """Whether a file in the place of the output is seen from here.  Raises OutputError."""
        if self._store is None:
            return (self._output / marker).exists()
        return await asyncio.to_thread(self._store.sees, marker)

    def begin(self, origin_real_ns: int) -> None:
        """Start the NodeManagers at emulated time 0."""
        super().begin(origin_real_ns)
        plan, scale = self.plan, self.plan.time_scale
        network_bytes_real_s = math.ceil(plan.network_bytes_s * scale)
        self._site = Site(
            origin_real_ns,
            scale,
            self.work_dir,
            str(self._output),
            None if self._store is None else self._store.socket_path,
            self.settings.seed,
            plan.secret,
            network_bytes_real_s,
        )
        self._events = NodeEvents(self.clock, self.lag, self._memories, self._images, self._page, self._request)
        for node in self.nodes:
            self.at(0, self._boot_node, node)
        self.at(self.settings.protocol.task_heartbeat_ns, self._pass_on_progress, 1)
        self._look_for_the_silent()

    def make_machine(self, address: str) -> StateMachine:
        """See ``MachineHost``."""
        return NodeManager(self._settings_of[address.partition(":")[2]], self.settings)

    def _boot_node(self, node: str) -> None:
        self.boot(node_address(node), Start())
        early, self._early = self._early, []
        for address, message in early:
            self.tell(address, message)

    def tell(self, address: str, message: Message) -> None:
        """Have a NodeManager handle ``message``, once it has started."""
        if address in self._recorders:
            super().tell(address, message)
        else:
            self._early.append((address, message))

    async def close(self) -> dict[str, int]:
        """End all processes and remove the directory; returns what the shuffle service has served."""
        self._closing = True
        if self._supervisor is not None:
            await self._supervisor.close()
        served = await self.shuffle.served()
        for late_real_ns, real_ns in self.shuffle.late:
            self.gaps.add(gap(f"shuffle service of {self.name}", late_real_ns, real_ns, self.clock))
        if self._store is not None:
            await self._store.close()
        await asyncio.to_thread(remove_program_groups, self._mark)
        await asyncio.to_thread(self._memories.close)
        await asyncio.to_thread(shutil.rmtree, self.work_dir, ignore_errors=True)
        return served

    def status(self) -> HostStatus:
        """The status with the count of moves."""
        return replace(super().status(), moves=self.moves)

    def _page(self) -> ProgressPage:
        assert self._supervisor is not None
        return self._supervisor.page

    def _command(self, op: str, container: str, **fields: Any) -> None:
        command = {"op": op, "id": container, **fields}
        if self._supervisor is None:
            self._held_back.append(command)
        else:
            self._supervisor.send(command)

    def _on_supervisor_lost(self, reason: str) -> None:
        self._supervisor = None
        self._held_back.clear()
        for container, process in list(self._processes.items()):
            self._forget(container, process)
            if not _is_input(container):
                lost = Exited(container, None, 9, 0, f"its supervisor died: {reason}")
                self.tell(node_address(process.node), lost)
        self.spawn(self._restart_supervisor())

    async def _restart_supervisor(self) -> None:
        await asyncio.to_thread(remove_program_groups, self._mark)
        supervisor = self._new_supervisor()
        await supervisor.start()
        self._supervisor = supervisor
        for command in self._held_back:
            supervisor.send(command)
        self._held_back.clear()

    # ---- effects ----

    def execute(self, address: str, effect: fx.Effect) -> None:
        """Carry out effects of NodeManagers."""
        node = address.partition(":")[2]
        if isinstance(effect, fx.Launch):
            self._launch(node, effect)
        elif isinstance(effect, fx.Suspend | fx.Resume | fx.Checkpoint | fx.Dump | fx.Terminate):
            operation, failed = _OPERATIONS[type(effect)]
            if effect.container in self._processes:
                self._command(operation, effect.container)
            else:
                self.tell(address, failed(effect.container, "the process has ended"))
        elif isinstance(effect, fx.Kill):
            self._kill(address, effect.container)
        elif isinstance(effect, fx.ProvideInput):
            self._provide_input(node, effect)
        elif isinstance(effect, fx.CleanUp):
            self.spawn(self._clean_up(node, effect.job))
        else:
            super().execute(address, effect)

    def _launch(self, node: str, launch: fx.Launch) -> None:
        now_real_ns = time.monotonic_ns()
        if launch.work is Work.MASTER:
            self._applications[launch.container] = (node, launch.job, now_real_ns)
            host = self._routes[f"am:{launch.job}"]
            note = LaunchApplication(launch.job, launch.container, self.name, now_real_ns, launch.first_key_at_ns)
            self.post(host, HOST, note)
            return
        process = ContainerProcess(node, launch, self._free_slots.pop(), now_real_ns)
        self._processes[launch.container] = process
        spec = self.plan.jobs[launch.job]
        place = self._place(node, launch)
        index = spec.facts.index_of(launch.group, launch.task)
        if launch.work is Work.SHUFFLE:
            duration_ns = self._settings_of[node].duration_ns(spec.map_ns[index])
            params = map_parameters(self._site, spec, index, place, duration_ns)
            self._launch_task(process, params)
        elif spec.program is not None:
            place = replace(place, program_group=self._program_group(launch.container, place.memory_group))
            self._launch_task(process, program_parameters(self._site, spec, index, place))
        elif not spec.map_ns and not self._has_input(node, launch, index):
            # No map makes its input: make it here first, in a process that may know the seed.
            maker = f"{launch.container}.input"
            self._processes[maker] = ContainerProcess(node, launch, self._free_slots.pop(), now_real_ns)
            params = map_parameters(self._site, spec, index, Place(node, maker), 0, only_partition=index)
            self._command("launch", maker, kind="map", slot=self._processes[maker].slot, params=params)
        else:
            self._launch_reduce(process)

    def _launch_reduce(self, process: ContainerProcess) -> None:
        node, launch = process.node, process.launch
        spec, saved = self.plan.jobs[launch.job], launch.saved
        index = spec.facts.index_of(launch.group, launch.task)
        params = reduce_parameters(
            self._site,
            spec,
            index,
            self._place(node, launch),
            self._settings_of[node].duration_ns(spec.reduce_ns[index]),
            self._outputs.get((node, launch.job), ()),
            CheckpointFile(saved.past_containers, saved.keys_done, saved.location, saved.node).to_dict()
            if isinstance(saved, KeyCheckpoint)
            else None,
        )
        self._launch_task(process, params)

    def _launch_task(self, process: ContainerProcess, params: dict[str, Any]) -> None:
        launch = process.launch
        if self._images is not None:
            params |= self._images.parameters(process.node, launch)
        kind = _PROCESSES[launch.work] if self.plan.jobs[launch.job].program is None else "command"
        self._command("launch", launch.container, kind=kind, slot=process.slot, params=params)

    def _place(self, node: str, launch: fx.Launch) -> Place:
        memory_bytes = self._memories.real_bytes(launch.memory_bytes or 0)
        group = self._memories.processes_file(node)
        of_container = self._memories.container_groups(node, launch.container, self._request(launch))
        return Place(node, launch.container, launch.first_key_at_ns, memory_bytes, group, of_container)

    def _request(self, launch: fx.Launch) -> Resources:
        return self.plan.jobs[launch.job].facts.group(launch.group).request

    def _program_group(self, container: str, memory_group: str | None) -> str | None:
        parent = group_parent(memory_group)
        return None if parent is None else str(parent / group_name(self._mark, container))

    def _has_input(self, node: str, launch: fx.Launch, index: int) -> bool:
        return os.path.exists(records.input_path(str(self.work_dir / node), launch.job, index))

    def _kill(self, address: str, container: str) -> None:
        if container in self._applications:
            _, job, _ = self._applications[container]
            self.post(self._routes[f"am:{job}"], HOST, StopApplication(job, container))
        elif container in self._processes:
            if f"{container}.input" in self._processes:
                self._command("kill", f"{container}.input")
            else:
                self._command("kill", container)
        else:
            self.tell(address, KillFailed(container, "the process has ended"))

    def _provide_input(self, node: str, effect: fx.ProvideInput) -> None:
        urls = [self.shuffle_urls[at] for at in effect.nodes]
        outputs = [{"map": index, "url": url, "version": effect.version} for index, url in enumerate(urls)]
        self._outputs[node, effect.job] = outputs
        for container, process in self._processes.items():
            launch = process.launch
            if process.node == node and launch.job == effect.job and launch.work is Work.KEYS:
                process.input_sent_real_ns = time.monotonic_ns()
                self._command("input", container, outputs=outputs)

    async def _clean_up(self, node: str, job: str) -> None:
        self._outputs.pop((node, job), None)
        if self._images is not None:
            await asyncio.to_thread(self._images.clean_up, node, job)
        for part in ("map", "local"):
            directory = self.work_dir / node / part / job_directory_name(job)
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    # ---- events ----

    def _on_event(self, event: dict[str, Any]) -> None:
        container: str = event["id"]
        self.moves += event["event"] != "fetch_failed"
        process = self._processes.get(container)
        if process is None:
            return
        if _is_input(container):
            self._on_input_event(container, process, event)
            return
        if event["event"] == "fetch_failed":
            failed = FetchFailed(container, event["map"], event["version"], event["reason"])
            address = job_address(process.launch.job)
            self.post(self._routes[address], address, failed)
            return
        if event["event"] == "stood_still":
            name = task_name(process.launch.job, process.launch.group, process.launch.task)
            self.gaps.add(gap(name, event["late_real_ns"], event["real_ns"], self.clock))
            return
        if event["event"] == "killed" and process.timed_out:
            return  # no machine has ordered this kill
        if event["event"] in ("suspended", "resumed"):
            process.stopped = event["event"] == "suspended"
        if event["event"] in ("resumed", "dump_failed"):  # its last sign of life was before it stopped
            process.resumed_real_ns = time.monotonic_ns()
        message = self._events.completion(process, event)
        if message is not None:
            if event["event"] in ("exited", "launch_failed"):
                self._forget(container, process)
            self.tell(node_address(process.node), message)

    def _on_input_event(self, maker: str, process: ContainerProcess, event: dict[str, Any]) -> None:
        if event["event"] not in ("exited", "launch_failed"):
            return
        self._forget(maker, process)
        container = process.launch.container
        reduce = self._processes[container]
        if event.get("code") == 0:
            self._launch_reduce(reduce)
            return
        self._forget(container, reduce)
        reason = f"its input could not be made: {event['reason']}"
        self.tell(node_address(reduce.node), LaunchFailed(container, reason))

    def _forget(self, container: str, process: ContainerProcess) -> None:
        del self._processes[container]
        self._memories.ended(process.node, container)
        if self._supervisor is not None:
            self._supervisor.page.clear(process.slot)  # its next user may have to wait for its launch
        self._free_slots.append(process.slot)

    # ---- ApplicationMasters ----

    def note(self, message: Note) -> None:
        """Handle the notes of application hosts about ApplicationMasters."""
        if not isinstance(message, ApplicationLaunched | ApplicationExited):
            super().note(message)
            return
        found = self._applications.get(message.container)
        if found is None:
            return
        node, _, ordered_real_ns = found
        if isinstance(message, ApplicationLaunched):
            cost = RealCost(time.monotonic_ns() - ordered_real_ns)
            self.tell(node_address(node), Launched(message.container, cost))
            return
        del self._applications[message.container]
        code, signal = (None, 9) if message.killed else (0, None)
        self.tell(node_address(node), Exited(message.container, code, signal, 0))

    def application_host_died(self, host: str) -> None:
        """An application host has died with its ApplicationMasters; another one has taken its name."""
        reason = f"its host {host} has died"
        for container, (node, job, _) in list(self._applications.items()):
            if self._routes[job_address(job)] == host:
                del self._applications[container]
                self.tell(node_address(node), Exited(container, None, 9, 0, reason))

    # ---- progress ----

    def _look_for_the_silent(self) -> None:
        """Kill tasks that give no sign of life although nobody has stopped them; another attempt follows."""
        now_real_ns = time.monotonic_ns()
        next_ns = self.clock.to_emulated_ns(now_real_ns + self.plan.task_timeout_real_ns // 8)
        self.at(next_ns, self._look_for_the_silent)
        if self._supervisor is None or self._closing:
            return
        for container, process in self._processes.items():
            if process.stopped or process.timed_out:
                continue
            progress = self._supervisor.page.read(process.slot)
            self.moves += progress.state is not WorkState.WAITING_INPUT
            if progress.state not in _AT_WORK or not progress.alive_real_ns:
                continue
            silent_since_real_ns = max(progress.alive_real_ns, process.resumed_real_ns)
            if now_real_ns - silent_since_real_ns > self.plan.task_timeout_real_ns:
                process.timed_out = f"no sign of life for {self.plan.task_timeout_real_ns / 1e9:g} real seconds"
                self._command("kill", container)

    def _pass_on_progress(self, beat: int) -> None:
        """Send the task heartbeats of this period, made from the progress page."""
        period_ns = self.settings.protocol.task_heartbeat_ns
        # A host that is late skips heartbeats instead of sending several at once.
        following = max(beat + 1, self.clock.now_ns() // period_ns + 1)
        self.at(following * period_ns, self._pass_on_progress, following)
        if self._supervisor is None or self._closing:
            return
        page = self._supervisor.page
        changed = [reading for reading in self._events.first_readings if reading[0] in self._processes]
        self._events.first_readings.clear()
        for container, process in self._processes.items():
            if process.launch.work is not Work.KEYS or page.keys_done(process.slot) == process.keys_told:
                continue
            progress = page.read(process.slot)
            if progress.state is WorkState.RUNNING and progress.last_key_real_ns:
                process.keys_told = progress.keys_done
                at_ns = self.clock.to_emulated_ns(progress.last_key_real_ns)
                changed.append((container, at_ns, progress.keys_done))
        self._pass_on(changed)

    def _pass_on(self, readings: list[tuple[str, int, int]]) -> None:
        by_host: dict[str, list[tuple[str, int, int]]] = {}
        for reading in readings:
            host = self._routes[f"am:{self._processes[reading[0]].launch.job}"]
            by_host.setdefault(host, []).append(reading)
        for host, those in by_host.items():
            self.post(host, HOST, ProgressReadings(tuple(those)))


def _is_input(container: str) -> bool:
    return container.endswith(".input")
