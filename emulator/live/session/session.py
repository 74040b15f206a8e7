"""One live run, from nothing started to nothing left: Ray, the hosts, the clock, the watch, the end.

Theory of operation
-------------------
First a janitor is started: if this process dies, the janitor ends every process with the run's id and removes the run's
directories.  Then comes Ray (``emulator.live.session.ray_runtime``).  Each Ray node gets a node host.  Emulated time 0
is set a moment after all hosts are ready.  During the run every host is asked a few times a second for its status; its
journal comes with the answer and is written to disk.  If a node host dies, the ResourceManager is notified.  If the
ResourceManager's host or an application host dies, it is replaced by a new one, which continues from the journal of the
old one.  Any other death or exception ends the run.  However it ends, hosts are closed, and the janitor checks that
nothing is left.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from msgspec import structs

from emulator.display.status import RunStatus
from emulator.engine import EngineResult, OnStatus, OpenRecords, Records
from emulator.errors import ConfigError, RunError
from emulator.files.whole_files import new_held_directory
from emulator.interruption import check_interrupted, deferred, interruptible
from emulator.live.beat import watched
from emulator.live.clock import ScaledClock
from emulator.live.hosts.host_reports import HostReports, JournalStream
from emulator.live.hosts.plan import RESOURCE_MANAGER_HOST, RunPlan, make_plan
from emulator.live.janitor import end_left_over_runs, run_directory, start_janitor
from emulator.live.session.orders import publish_endpoint, withdraw_endpoint
from emulator.live.session.ray_runtime import RayRuntime, leave_nothing, ray_of_a_run
from emulator.live.session.run_hosts import ANSWER_TIMEOUT_REAL_S, LOOK_PERIOD_REAL_S, HostGone, RunHosts
from emulator.live.session.web import web_service
from emulator.own_packages import of_the_same_name
from emulator.records.gaps import LongestGaps
from emulator.records.journal import JournalError
from emulator.records.run_directory import RunDirectory
from emulator.resolved import Resolved
from emulator.storage.local import PARTIAL_DIRECTORY
from emulator.storage.objects import is_object_url
from emulator.storage.places import output_at, place_at

TASK_STATES = ("done", "running", "suspended", "waiting")


class RunGauges:
    """The state of a run as Prometheus gauges, which Ray's own endpoint on every node serves.

    It needs ``ray[default]``.  All have the tag ``run``, the name of the experiment; Ray puts ``ray_`` before names.
    """

    def __init__(self, gauge: Callable[..., Any], run: str) -> None:
        """``gauge`` makes a gauge, like ``ray.util.metrics.Gauge``."""

        def make(name: str, description: str, *tags: str) -> Any:
            return gauge(f"natjam_{name}", description=description, tag_keys=("run", *tags))

        self._run = {"run": run}
        self._used = make("containers_used", "Containers in use by the jobs of a queue.", "queue")
        self._total = make("containers", "Containers of the emulated cluster.")
        self._suspended = make("containers_suspended", "Stopped processes, which hold memory but no container.")
        self._tasks = make("tasks", "Maps and reduces of a queue's jobs.", "queue", "state")
        self._ended = make("jobs_ended", "Jobs of a queue that have ended.", "queue")
        self._emulated = make("emulated_seconds", "Emulated time.")
        self._lag = make("timer_lag_p99_seconds", "How late timers fire, in real time.")

    def show(self, status: RunStatus) -> None:
        """Set all gauges from a newer status."""
        self._total.set(status.containers_total, self._run)
        self._suspended.set(status.containers_suspended, self._run)
        self._emulated.set(status.emulated_ns / 1e9, self._run)
        self._lag.set((status.lag_p99_real_ms or 0) / 1e3, self._run)
        for queue, used in status.containers_used_by_queue.items():
            self._used.set(used, self._with(queue=queue))
        for queue, counts in _by_queue(status).items():
            self._ended.set(counts["ended"], self._with(queue=queue))
            for state in TASK_STATES:
                self._tasks.set(counts[state], self._with(queue=queue, state=state))

    def _with(self, **tags: str) -> dict[str, str]:
        return {**self._run, **tags}


def _by_queue(status: RunStatus) -> Mapping[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for job in status.jobs:
        counts = found.setdefault(job.queue, Counter())
        counts.update({state: getattr(job, state) for state in TASK_STATES})
        counts["ended"] += job.ended
    return found


STARTER = "starter"
"""This process, among those that may stand still."""
_BEFORE_BEGIN_REAL_NS = 150_000_000
"""From the time when all hosts are ready to emulated time 0; the hosts must know it by then."""
_SUCCESSORS = 3
"""So many are tried for a host that has died: a new one may die before it has taken over."""
_MAX_DEATHS = 10
"""A host that dies more often is not replaced any more: what kills it, such as a policy, may do so without end."""
_SUCCESSOR_TIMEOUT_REAL_S = 20.0
"""A successor has started by then: Ray tells nobody of a process that dies while it is being made an actor."""


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
        self._hosts = RunHosts(self.run_id)
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

    def run(self, records: Records) -> EngineResult:
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

    def _run(self) -> EngineResult:
        runtime = self._held.enter_context(ray_of_a_run())
        self._held.enter_context(self._nothing_left_at_the_end(runtime))
        self._show("starting Ray")
        self._runtime, self._ray = runtime, runtime.start()
        from ray.util.metrics import Gauge

        self._gauges = RunGauges(Gauge, self._resolved.experiment.name)
        self._show("starting hosts")
        plan, machines = self._start_hosts()
        clock = ScaledClock(self._origin_real_ns, self._resolved.experiment.time_scale)
        period_real_ns = round(LOOK_PERIOD_REAL_S * 1e9)
        with (
            web_service(self.run_id, self._resolved, self._origin_real_ns) as web,
            watched(STARTER, clock, period_real_ns, self._gaps.add),  # hosts wait for this process that long at most
        ):
            self._watch(plan)
        self._show("closing")
        served = self._close_hosts(plan)
        # What a reduce reads on its own node's disk is not served.
        facts = {
            "shuffle_http_bytes": sum(by_one.get("bytes", 0) for by_one in served),
            "startup_real_s": self._startup_real_s,
            **({"web": web} if web else {}),
        }
        gaps = [*self._reports.gaps, *self._gaps.found]
        return EngineResult(machines, None, self._reports.lag, self._output, facts, gaps)

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
            runtime.kill([handle for _, handle in self._hosts.items()])
            leave_nothing(janitor, self.run_id, [self._root])

    # ---- hosts ----

    def _start_hosts(self) -> tuple[RunPlan, list[dict[str, Any]]]:
        head = self._ray.get_runtime_context().get_node_id()
        ray_nodes = [node for node in self._ray.nodes() if node["Alive"]]
        ray_nodes.sort(key=lambda node: (node["NodeID"] != head, node["NodeID"]))
        addresses = [node["NodeManagerAddress"] for node in ray_nodes]
        plan = make_plan(self.run_id, self._resolved, self._output, addresses)
        marker = f".natjam-{self.run_id}"
        with place_at(self._output).marked(marker):
            self._hosts.create(self._ray, plan, [node["NodeID"] for node in ray_nodes], str(self._root))
            openings = {name: self._open(name, plan, marker) for name, _ in self._hosts.items()}
            ready = {name: self._hosts.result(opening, f"starting {name}") for name, opening in openings.items()}
        blind = [name for name in plan.node_hosts if not ready[name].sees_output]
        if blind:
            raise RunError(
                f"{', '.join(blind)} cannot see {self._output}: on several machines storage.url must name a "
                "directory that all of them share, or an object store"
            )
        self._urls = {node: url for name in plan.node_hosts for node, url in ready[name].shuffle_urls.items()}
        machines = self._hosts.machines(ready)
        self._addresses = {name: host.address for name, host in ready.items()}
        self._hosts.ask_all("meeting", lambda handle, _: handle.meet.remote(self._addresses, self._urls))
        self._origin_real_ns = time.monotonic_ns() + _BEFORE_BEGIN_REAL_NS
        self._startup_real_s = self._origin_real_ns / 1e9 - self._started_real_s
        offsets = {name: m["clock_offset_ns"] for m in machines for name in m["hosts"]}
        self._hosts.ask_all("beginning", lambda handle, name: handle.begin.remote(self._origin_real_ns + offsets[name]))
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

    # ---- while it runs ----

    def _watch(self, plan: RunPlan) -> None:
        """Watch the run until every job has ended."""
        while True:
            finished = self._finished
            done, _ = self._ray.wait([finished], timeout=LOOK_PERIOD_REAL_S)
            self._poll(plan)
            check_interrupted()
            self._reports.check(self._lost)
            if self._reports.nothing_moves:
                raise self._reports.standstill(self._stuck_attempts(plan))
            self._show("running")
            if done and finished is self._finished:  # else it belongs to a replaced host
                self._hosts.result(finished, "running")
                return

    def _stuck_attempts(self, plan: RunPlan) -> list[Any]:
        """The attempts of all jobs that make no progress."""
        stuck: list[Any] = []
        for name in plan.application_hosts:
            if name not in self._lost:
                stuck += self._hosts.result(self._hosts[name].stuck_attempts.remote(), f"asking {name}")
        return stuck

    def _poll(self, plan: RunPlan) -> None:
        from ray.exceptions import RayActorError, RayTaskError

        asked = {n: h.status.remote() for n, h in self._hosts.items() if n not in self._lost}
        died: dict[str, Exception] = {}
        for name, reference in asked.items():
            try:
                status = self._hosts.raw_result(reference, ANSWER_TIMEOUT_REAL_S)
            except RayActorError as error:
                died[name] = error
                if name in plan.node_hosts:
                    self._journal.forget(name)
                continue
            except RayTaskError as error:
                raise RunError(f"{name} failed: {error.cause}") from error
            except TimeoutError:
                silent = RunError(f"{name} has not answered for {ANSWER_TIMEOUT_REAL_S:g} s")
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
            if self._deaths[name] > _MAX_DEATHS:
                why = "code of yours, such as a policy, may have ended it"
                raise RunError(f"{name} has died {self._deaths[name]} times ({why}): {_first_line(died[name])}")
        for name in replaceable:  # all at once: the start of a process takes seconds
            self._create_successor(name, plan)
        for name in sorted(replaceable, key=lambda name: (name != RESOURCE_MANAGER_HOST, name)):
            self._replace(name, plan)
        for name in died.keys() & plan.node_hosts.keys():
            self._node_host_died(name, plan, died[name])

    def _create_successor(self, name: str, plan: RunPlan) -> None:
        assert self._runtime is not None
        try:
            self._runtime.answer(lambda: self._hosts.create_successor(name, plan), _SUCCESSOR_TIMEOUT_REAL_S)
        except TimeoutError:
            raise RunError(
                f"{name} has died and cannot be replaced: Ray's own processes have not answered for "
                f"{_SUCCESSOR_TIMEOUT_REAL_S:g} s"
            ) from None

    def _node_host_died(self, name: str, plan: RunPlan, error: Exception) -> None:
        if self._lost.issuperset(plan.node_hosts):
            raise RunError(f"{name} has died and no node is left to go on with: {_first_line(error)}")
        manager = self._hosts[RESOURCE_MANAGER_HOST]
        lost = manager.nodes_lost.remote(plan.node_hosts[name], f"its host {name} has died")
        try:
            self._hosts.result(lost, "telling the ResourceManager")
        except HostGone:
            self._lost.discard(name)  # seen again, and told to the ResourceManager's successor, in the next poll

    def _replace(self, name: str, plan: RunPlan) -> None:
        """Let the new host of that name take over; if it dies before it has, another one."""
        for number in range(1, _SUCCESSORS + 1):
            try:
                self._take_over(name, plan)
                return
            except HostGone:
                if number == _SUCCESSORS:
                    raise
                self._create_successor(name, plan)

    def _take_over(self, name: str, plan: RunPlan) -> None:
        """Let the new host of that name continue where the dead one stopped, and tell the others."""
        host, doing = self._hosts[name], f"replacing {name}, which has died,"
        opened = self._hosts.result(self._open(name, plan), doing, _SUCCESSOR_TIMEOUT_REAL_S)
        self._addresses[name] = opened.address
        living = (n for n in self._addresses if n == name or (n not in self._lost and self._hosts.lives(n)))
        others = {n: self._addresses[n] for n in living}
        self._hosts.result(host.meet.remote(others, self._urls), doing)
        self._hosts.result(host.begin.remote(self._origin_real_ns), doing)
        self._lost.discard(name)
        met = [self._hosts[n].meet_again.remote(name, self._addresses[name]) for n in others if n != name]
        for meeting in met:
            with contextlib.suppress(HostGone):  # it has a successor of its own soon, which meets all
                self._hosts.result(meeting, doing)
        self._reports.replaced(name)
        if name == RESOURCE_MANAGER_HOST:
            self._finished = host.finished.remote()
            self._publish_endpoint(plan)

    def _close_hosts(self, plan: RunPlan) -> list[dict[str, int]]:
        """Close the node hosts, and write the rest of every journal; returns what shuffle services have served."""
        living = [name for name in plan.node_hosts if name not in self._lost]
        closings = [self._hosts[name].close.remote() for name in living]
        served = [self._hosts.result(closing, "closing a node host") for closing in closings]
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


def run_live(
    run: Resolved,
    directory: RunDirectory,
    on_status: OnStatus,
    open_records: OpenRecords,
) -> EngineResult:
    """Do ``run`` on real processes; see ``emulator.engine.Engine``."""
    if why := of_the_same_name([str(Path.cwd())], plain_folders=False):
        raise ConfigError(why)  # Ray's processes look in the working directory first
    started_real_s = time.monotonic()
    output = output_at(run.experiment.storage.url, directory.output_path)
    place = place_at(output)
    place.make()
    session = LiveSession(run, directory.path, output, on_status, started_real_s)
    with contextlib.ExitStack() as ending:
        ending.enter_context(session)
        with open_records() as records:
            result = session.run(records)
        place.tidy()
        return structs.replace(result, real_s=time.monotonic() - started_real_s, end=ending.pop_all().close)
