"""One live run, from nothing started to nothing left: Ray, the hosts, the clock, the watch, the end.

Theory of operation
-------------------
First a janitor is started: if this process dies, the janitor ends every process with the run's id and removes the run's
directories.  Then comes Ray (``emulator.live.session.ray_runtime``).  Each Ray node gets a node host.  Emulated time 0
is set a moment after all hosts are ready.  During the run every host is asked a few times a second for its status; its
journal comes with the answer and is written to disk.  If a node host dies, the ResourceManager is told.  If the
ResourceManager's host or an application host dies, it is replaced by a new one, which continues from the journal of the
old one.  Any other death or exception ends the run.  However it ends, hosts are closed, and the janitor checks that
nothing is left.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from emulator.engine import OnStatus, RecordSink
from emulator.errors import RunError
from emulator.files.whole_files import new_held_directory
from emulator.interruption import check_interrupted, deferred, interruptible
from emulator.live.clock import ScaledClock
from emulator.live.hosts.host_reports import HostReports
from emulator.live.hosts.plan import RESOURCE_MANAGER_HOST, RunPlan, make_plan
from emulator.live.janitor import HOST_VARIABLE, RUN_VARIABLE, end_left_over_runs, run_directory, start_janitor
from emulator.live.own_beat import watched
from emulator.live.session.gauges import RunGauges
from emulator.live.session.journal_stream import JournalStream
from emulator.live.session.orders import publish_endpoint, withdraw_endpoint
from emulator.live.session.ray_runtime import RayRuntime, leave_nothing, ray_of_a_run
from emulator.live.session.web import WebService
from emulator.records.gaps import Gap, LongestGaps
from emulator.records.journal import JournalError
from emulator.records.lag import LagRecorder
from emulator.resolved import Resolved
from emulator.storage.local import PARTIAL_DIRECTORY
from emulator.storage.objects import is_object_url
from emulator.storage.places import place_at

STATUS_PERIOD_REAL_S = 0.3
STARTER = "starter"
"""This process, among those that may stand still."""
_START_PATIENCE_REAL_S = 60.0
_ANSWER_PATIENCE_REAL_S = 30.0
_BEFORE_BEGIN_REAL_NS = 150_000_000
"""From the time when all hosts are ready to emulated time 0; the hosts must know it by then."""
_SUCCESSORS = 3
"""So many are tried for a host that has died: a new one may die before it has taken over."""
_MOST_DEATHS = 10
"""A host that dies more often is not replaced any more: what kills it, such as a policy, may do so without end."""
_SUCCESSOR_PATIENCE_REAL_S = 20.0
"""A successor has started by then: Ray tells nobody of a process that dies while it is being made an actor."""


class _HostGone(RunError):
    """A host died while it was asked for something, or does not answer."""


@dataclass(frozen=True, slots=True)
class LiveResult:
    """Measurements around a live run."""

    machines: list[dict[str, Any]]
    """name, clock_offset_ns, hosts."""
    lag: LagRecorder
    gaps: list[Gap]
    """The longest times for which processes of the run have stood still."""
    shuffle_bytes: int
    """Bytes served over HTTP; without what a reduce reads on its own node's disk."""
    web: dict[str, Any]
    """What the users of the web service measured; empty without one (``emulator.live.session.web``)."""
    startup_real_s: float
    """From the command to emulated time 0."""


class LiveSession:
    """Does one run: use it as a context manager around ``run``.  After the block nothing is left."""

    def __init__(
        self,
        run: Resolved,
        run_dir: Path,
        output: str,
        on_status: OnStatus,
        started_real_s: float,
    ) -> None:
        self.run_id = secrets.token_hex(4)
        self._resolved = run
        self._run_dir = run_dir
        self._output = output
        self._on_status = on_status
        self._started_real_s = started_real_s
        self._root = run_directory(self.run_id)
        self._held = contextlib.ExitStack()
        self._runtime: RayRuntime | None = None
        self._ray: Any = None
        self._gauges: RunGauges | None = None
        self._hosts: dict[str, Any] = {}
        """Actor handles by host name."""
        self._addresses: dict[str, Any] = {}
        """The address on which each host listens."""
        self._urls: dict[str, str] = {}
        """URL of each node's shuffle service."""
        self._origin_real_ns = 0
        """Emulated time 0, on this machine's clock."""
        self._finished: Any = None
        """Ray's reference that is ready when every job has ended."""
        self._lost: set[str] = set()
        self._deaths: Counter[str] = Counter()
        """How often each host has died that is replaced."""
        self._reports = HostReports(run)
        self._gaps = LongestGaps(min((job.submit_ns for job in run.jobs), default=0))
        self._startup_real_s = 0.0

    # ---- the whole ----

    def __enter__(self) -> LiveSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with interruptible(), deferred():
            self._held.__exit__(kind, error, trace)

    def run(self, records: RecordSink) -> LiveResult:
        """Run to the end of all jobs, with the journal to ``records``.

        Raises:
            RunError: the run could not start, something that cannot be replaced died, or a policy raised.
        """
        self._journal = JournalStream(records)
        try:
            with interruptible(), deferred():
                return self._run()
        except BaseException:
            with contextlib.suppress(JournalError):
                self._journal.write_all()
            raise
        finally:
            withdraw_endpoint(self._run_dir)

    def _run(self) -> LiveResult:
        runtime = self._held.enter_context(ray_of_a_run())
        self._held.enter_context(self._nothing_left_at_the_end(runtime))
        self._show("starting Ray")
        self._runtime, self._ray = runtime, runtime.start()
        self._gauges = self._make_gauges()
        self._show("starting hosts")
        plan, machines = self._start_hosts()
        web = WebService()
        with web.running(self.run_id, self._resolved, self._origin_real_ns), self._own_gaps():
            self._watch(plan)
        self._show("closing")
        served = self._close_hosts(plan)
        return LiveResult(
            machines=machines,
            lag=self._reports.lag,
            gaps=[*self._reports.gaps, *self._gaps.found],
            shuffle_bytes=sum(by_one.get("bytes", 0) for by_one in served),
            web=web.facts,
            startup_real_s=self._startup_real_s,
        )

    @contextlib.contextmanager
    def _nothing_left_at_the_end(self, runtime: RayRuntime) -> Iterator[None]:
        end_left_over_runs()
        partial = [] if is_object_url(self._output) else [Path(self._output, PARTIAL_DIRECTORY)]
        janitor = start_janitor(self.run_id, [self._root], kept=partial)
        try:
            with new_held_directory(self._root):
                yield
        finally:
            self._show("cleaning up")
            runtime.kill(list(self._hosts.values()))
            leave_nothing(janitor, self.run_id)

    def _make_gauges(self) -> RunGauges:
        from ray.util.metrics import Gauge

        return RunGauges(Gauge, self._resolved.name)

    @contextlib.contextmanager
    def _own_gaps(self) -> Iterator[None]:
        """Record the times for which this process stands still.  Hosts wait for it a status period at most."""
        clock = ScaledClock(self._origin_real_ns, self._resolved.time_scale)
        with watched(STARTER, clock, round(STATUS_PERIOD_REAL_S * 1e9), self._gaps.add):
            yield

    # ---- hosts ----

    def _start_hosts(self) -> tuple[RunPlan, list[dict[str, Any]]]:
        from emulator.live.hosts import actors

        head = self._ray.get_runtime_context().get_node_id()
        ray_nodes = [node for node in self._ray.nodes() if node["Alive"]]
        ray_nodes.sort(key=lambda node: (node["NodeID"] != head, node["NodeID"]))
        addresses = [node["NodeManagerAddress"] for node in ray_nodes]
        plan = make_plan(self.run_id, self._resolved, self._output, addresses)
        marker = f".natjam-{self.run_id}"
        with place_at(self._output).marked(marker):
            self._create_actors(actors, plan, [node["NodeID"] for node in ray_nodes])
            openings = {name: self._open(name, plan, marker) for name in self._hosts}
            ready = {name: self._get(opening, f"starting {name}") for name, opening in openings.items()}
        blind = [name for name in plan.node_hosts if not ready[name].sees_output]
        if blind:
            raise RunError(
                f"{', '.join(blind)} cannot see {self._output}: on several machines storage.url must name a "
                "directory that all of them share, or an object store"
            )
        self._urls = {node: url for name in plan.node_hosts for node, url in ready[name].shuffle_urls.items()}
        machines = self._machines()
        self._addresses = {name: host.address for name, host in ready.items()}
        self._all("meeting", lambda handle, _: handle.meet.remote(self._addresses, self._urls))
        self._origin_real_ns = time.monotonic_ns() + _BEFORE_BEGIN_REAL_NS
        self._startup_real_s = self._origin_real_ns / 1e9 - self._started_real_s
        offsets = {name: m["clock_offset_ns"] for m in machines for name in m["hosts"]}
        self._all("beginning", lambda handle, name: handle.begin.remote(self._origin_real_ns + offsets[name]))
        self._finished = self._hosts[RESOURCE_MANAGER_HOST].finished.remote()
        self._publish_endpoint(plan)
        return plan, machines

    def _publish_endpoint(self, plan: RunPlan) -> None:
        publish_endpoint(self._run_dir, self._root, self._addresses[RESOURCE_MANAGER_HOST], plan.secret)

    def _open(self, name: str, plan: RunPlan, marker: str = "") -> Any:
        """Let a host start.  ``marker``: what a host of nodes must see in the place of the output."""
        if name in plan.node_hosts:
            return self._hosts[name].open.remote(plan.for_nodes(), marker)
        return self._hosts[name].open.remote(plan, str(self._root / f"{name}.journal"))

    def _create_actors(self, actors: Any, plan: RunPlan, node_ids: list[str]) -> None:
        head = self._ray.get_runtime_context().get_node_id()
        self._create_on_head(RESOURCE_MANAGER_HOST, plan)
        for name, node_id in zip(plan.node_hosts, node_ids, strict=False):
            root = str(self._root) if node_id == head else None
            actor = actors.NodeHostActor.options(**self._on(node_id, name))
            self._hosts[name] = actor.remote(name, plan.import_paths, plan.run_id, root)
        for name in plan.application_hosts:
            self._create_on_head(name, plan)

    def _create_on_head(self, name: str, plan: RunPlan) -> None:
        """Create the actor of the ResourceManager's host or of an application host."""
        from emulator.live.hosts import actors

        kind: Any = actors.ResourceManagerActor if name == RESOURCE_MANAGER_HOST else actors.ApplicationHostActor
        options = self._on(self._ray.get_runtime_context().get_node_id(), name)
        self._hosts[name] = kind.options(**options).remote(name, plan.import_paths)

    def _on(self, node_id: str, name: str) -> dict[str, Any]:
        """Options for a host's actor on that Ray node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as On

        variables = {RUN_VARIABLE: self.run_id, HOST_VARIABLE: name}
        return {
            "num_cpus": 0,
            "scheduling_strategy": On(node_id, soft=False),
            "max_restarts": 0,
            "runtime_env": {"env_vars": variables},
        }

    def _machines(self) -> list[dict[str, Any]]:
        """The computers, with the offset of each monotonic clock from this one's."""
        own_boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        by_boot_id: dict[str, dict[str, Any]] = {}
        for name, machine in self._all("asking", lambda handle, _: handle.machine.remote()).items():
            entry: dict[str, Any] | None = by_boot_id.get(machine.boot_id)
            if entry is None:
                offset_ns = 0 if machine.boot_id == own_boot_id else self._clock_offset_ns(self._hosts[name])
                entry = {"name": machine.name, "clock_offset_ns": offset_ns, "hosts": []}
                by_boot_id[machine.boot_id] = entry
            entry["hosts"].append(name)
        return list(by_boot_id.values())

    def _clock_offset_ns(self, handle: Any) -> int:
        """The offset by Cristian's method: of several readings, the one with the shortest round trip."""
        best: tuple[int, int] | None = None
        for _ in range(20):
            before_real_ns = time.monotonic_ns()
            there_real_ns = self._get(handle.monotonic_real_ns.remote(), "reading a clock")
            after_real_ns = time.monotonic_ns()
            reading = (after_real_ns - before_real_ns, there_real_ns - (before_real_ns + after_real_ns) // 2)
            best = min(best, reading) if best else reading
        assert best is not None
        return best[1]

    def _all(self, doing: str, call: Callable[[Any, str], Any]) -> dict[str, Any]:
        references = {name: call(handle, name) for name, handle in self._hosts.items()}
        return {name: self._get(reference, f"{doing} {name}") for name, reference in references.items()}

    def _get(self, reference: Any, doing: str, patience_real_s: float = _START_PATIENCE_REAL_S) -> Any:
        from ray.exceptions import RayActorError, RayTaskError

        try:
            return self._result(reference, patience_real_s)
        except RayTaskError as error:
            raise RunError(f"{doing} failed: {error.cause}") from error
        except TimeoutError:
            raise _HostGone(f"{doing} failed: no answer within {patience_real_s:g} s") from None
        except RayActorError as error:
            raise _HostGone(f"{doing} failed: {type(error).__name__}: {error}") from error

    def _result(self, reference: Any, patience_real_s: float) -> Any:
        """The result of a call, unless the run is interrupted.  Raises TimeoutError, and Ray's errors."""
        until_real_s = time.monotonic() + patience_real_s
        while not self._ray.wait([reference], timeout=STATUS_PERIOD_REAL_S)[0]:
            check_interrupted()
            if time.monotonic() > until_real_s:
                raise TimeoutError
        return self._ray.get(reference)

    # ---- while it runs ----

    def _watch(self, plan: RunPlan) -> None:
        """Watch the run until every job has ended."""
        while True:
            finished = self._finished
            done, _ = self._ray.wait([finished], timeout=STATUS_PERIOD_REAL_S)
            self._poll(plan)
            check_interrupted()
            self._reports.check(self._lost)
            if self._reports.nothing_moves:
                hosts = [name for name in plan.application_hosts if name not in self._lost]
                asked = [self._get(self._hosts[name].stuck_attempts.remote(), f"asking {name}") for name in hosts]
                raise self._reports.standstill([attempt for attempts in asked for attempt in attempts])
            self._show("running")
            if done and finished is self._finished:  # else it belongs to a replaced host
                self._get(finished, "running")
                return

    def _poll(self, plan: RunPlan) -> None:
        from ray.exceptions import RayActorError, RayTaskError

        asked = {n: h.status.remote() for n, h in self._hosts.items() if n not in self._lost}
        died: dict[str, Exception] = {}
        for name, reference in asked.items():
            try:
                status = self._result(reference, _ANSWER_PATIENCE_REAL_S)
            except RayActorError as error:
                died[name] = error
                if name in plan.node_hosts:
                    self._journal.forget(name)
                continue
            except RayTaskError as error:
                raise RunError(f"{name} failed: {error.cause}") from error
            except TimeoutError:
                silent = RunError(f"{name} has not answered for {_ANSWER_PATIENCE_REAL_S:g} s")
                if name not in plan.node_hosts:
                    raise silent from None
                assert self._runtime is not None
                self._runtime.kill([self._hosts[name]])  # in case it can be reached again
                died[name] = silent
                self._journal.forget(name)
                continue
            news = self._journal.take(name, status.journal, status.until_ns)
            self._reports.take(name, replace(status, journal=news))
        self._journal.write_settled()
        self._mend(died, plan)

    def _mend(self, died: dict[str, Exception], plan: RunPlan) -> None:
        """Replace the hosts that have died, the ResourceManager's first; then report the lost nodes to it."""
        self._lost.update(died)
        replaceable = died.keys() - plan.node_hosts.keys()
        self._deaths.update(replaceable)
        for name in replaceable:
            if self._deaths[name] > _MOST_DEATHS:
                why = "code of yours, such as a policy, may have ended it"
                raise RunError(f"{name} has died {self._deaths[name]} times ({why}): {_first_line(died[name])}")
        for name in replaceable:  # all at once: the start of a process takes seconds
            self._create_successor(name, plan)
        for name in sorted(replaceable, key=lambda name: (name != RESOURCE_MANAGER_HOST, name)):
            self._replace(name, plan)
        for name in died.keys() & plan.node_hosts.keys():
            self._node_host_died(name, plan, died[name])

    def _create_successor(self, name: str, plan: RunPlan) -> None:
        def create() -> None:
            with contextlib.suppress(Exception):
                self._ray.kill(self._hosts[name])
            self._create_on_head(name, plan)

        assert self._runtime is not None
        try:
            self._runtime.answer(create, _SUCCESSOR_PATIENCE_REAL_S)
        except TimeoutError:
            raise RunError(
                f"{name} has died and cannot be replaced: Ray's own processes have not answered for "
                f"{_SUCCESSOR_PATIENCE_REAL_S:g} s"
            ) from None

    def _node_host_died(self, name: str, plan: RunPlan, error: Exception) -> None:
        if self._lost.issuperset(plan.node_hosts):
            raise RunError(f"{name} has died and no node is left to go on with: {_first_line(error)}")
        manager = self._hosts[RESOURCE_MANAGER_HOST]
        lost = manager.nodes_lost.remote(plan.node_hosts[name], f"its host {name} has died")
        try:
            self._get(lost, "telling the ResourceManager")
        except _HostGone:
            self._lost.discard(name)  # seen again, and told to the ResourceManager's successor, in the next poll

    def _replace(self, name: str, plan: RunPlan) -> None:
        """Let the new host of that name take over; if it dies before it has, another one."""
        for number in range(1, _SUCCESSORS + 1):
            try:
                self._take_over(name, plan)
                return
            except _HostGone:
                if number == _SUCCESSORS:
                    raise
                self._create_successor(name, plan)

    def _take_over(self, name: str, plan: RunPlan) -> None:
        """Let the new host of that name continue where the dead one stopped, and tell the others."""
        host, doing = self._hosts[name], f"replacing {name}, which has died,"
        opened = self._get(self._open(name, plan), doing, _SUCCESSOR_PATIENCE_REAL_S)
        self._addresses[name] = opened.address
        others = {n: at for n, at in self._addresses.items() if n == name or (n not in self._lost and self._lives(n))}
        self._get(host.meet.remote(others, self._urls), doing)
        self._get(host.begin.remote(self._origin_real_ns), doing)
        self._lost.discard(name)
        met = [self._hosts[n].meet_again.remote(name, self._addresses[name]) for n in others if n != name]
        for meeting in met:
            with contextlib.suppress(_HostGone):  # it has a successor of its own soon, which meets all
                self._get(meeting, doing)
        self._reports.replaced(name)
        if name == RESOURCE_MANAGER_HOST:
            self._finished = host.finished.remote()
            self._publish_endpoint(plan)

    def _lives(self, name: str) -> bool:
        """Whether a host answers.  A host that has died meanwhile is replaced later, and then connects to all."""
        from ray.exceptions import RayActorError

        with contextlib.suppress(TimeoutError):
            try:
                self._result(self._hosts[name].monotonic_real_ns.remote(), _ANSWER_PATIENCE_REAL_S)
            except RayActorError:
                return False
        return True

    def _close_hosts(self, plan: RunPlan) -> list[dict[str, int]]:
        """Close the node hosts, and write the rest of every journal; returns what shuffle services have served."""
        living = [name for name in plan.node_hosts if name not in self._lost]
        closings = [self._hosts[name].close.remote() for name in living]
        served = [self._get(closing, "closing a node host") for closing in closings]
        self._poll(plan)
        self._journal.write_all()
        self._reports.check(self._lost)
        return served

    def _show(self, phase: str) -> None:
        status = self._reports.run_status(phase, self._started_real_s)
        self._on_status(status)
        if self._gauges is not None:
            self._gauges.show(status)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
