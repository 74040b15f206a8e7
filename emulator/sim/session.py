"""The simulated engine for ``natjam run``: one run in virtual time, in this process."""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.client import Client
from emulator.core.decisions import PolicyError
from emulator.core.messages import CLIENT, RESOURCE_MANAGER, JobState
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.costs.calibration_file import chosen_path, load_calibration
from emulator.display.status import (
    JobStatus,
    RunStatus,
    cluster_status,
    job_status,
    standstill,
    stuck_attempts,
    unstarted_job_status,
)
from emulator.engine import EngineResult, OnStatus, OpenRecords
from emulator.errors import EndlessPreemptionError, RunError
from emulator.experiment.model import Experiment
from emulator.records.history import History, HistoryBuilder
from emulator.records.journal import Record
from emulator.records.run_directory import RunDirectory
from emulator.resolved import Resolved
from emulator.sim.cluster import SimulatedCluster
from emulator.sim.cost_model import CostModel

STATUS_PERIOD_REAL_S = 0.25
_TIMEOUT_HEARTBEATS = 1000
"""A run is given up only after at least this long without a move, because retries and time-outs take time."""
_TIMES_SHOWING = 40
"""Wait before the next display, in multiples of the time that the last display took: large states are shown less
often."""


def run_simulation(
    run: Resolved,
    directory: RunDirectory,
    on_status: OnStatus,
    open_records: OpenRecords,
) -> EngineResult:
    """Simulate ``run`` for ``natjam run``; see ``emulator.engine.Engine``."""
    started_real_s = time.monotonic()
    shown = _Shown(run, on_status, started_real_s)
    with open_records() as records:
        cluster = simulate(run, records.write, shown.now_and_then)
    shown.show(cluster, "writing the tables")
    facts = {"events": cluster.kernel.events, **_calibration_facts(run)}
    cluster.free()
    return EngineResult(machines=[], real_s=time.monotonic() - started_real_s, lag=None, output=None, facts=facts)


def simulate(
    run: Resolved,
    write: Callable[[Sequence[Record]], object],
    each_slice: Callable[[SimulatedCluster], None] = lambda cluster: None,
    draw: int = 0,
    make_cluster: Callable[..., SimulatedCluster] = SimulatedCluster,
) -> SimulatedCluster:
    """Simulate ``run`` from the start to the end of all jobs; returns the cluster at the end.

    Args:
        run: what to simulate.
        write: takes the records, in the order of a journal.
        each_slice: called every few thousand events.
        draw: another number gives other durations of operations, with the same workload and the same random decisions;
            no effect if costs are not drawn.
        make_cluster: makes the cluster, of what ``SimulatedCluster`` is made of; for example one with faults.

    Raises:
        ConfigError: see ``make_costs``.
        RunError: the run does not end, or a user's policy raised or returned something it must not.
    """
    in_order, settings, every_heartbeat = _InOrder(write), run.settings, run.experiment.sim.every_heartbeat
    costs = make_costs(run, draw)
    cluster = make_cluster(settings, run.jobs_by_name, in_order.held.append, costs, every_heartbeat=every_heartbeat)
    last_submit_ns = max(job.submit_ns for job in run.jobs)
    timeout_ns = max(run.task_timeout_ns, _TIMEOUT_HEARTBEATS * settings.protocol.heartbeat_ns)

    def look() -> None:
        in_order.pass_on(is_over=False)
        each_slice(cluster)
        moved_ns = max(cluster.processes.moved_ns, last_submit_ns)
        if settings.availability is not None:
            moved_ns = max(moved_ns, settings.availability.settled_ns(moved_ns))
        if cluster.kernel.now_ns - moved_ns > timeout_ns:
            _check_not_stuck(cluster, moved_ns)

    try:
        cluster.run(each_slice=look)
    except PolicyError as error:
        with contextlib.suppress(EndlessPreemptionError):  # this error says more
            in_order.pass_on(is_over=True)
        raise RunError(str(error)) from error
    except RuntimeError as error:
        _check_not_stuck(cluster, cluster.processes.moved_ns)
        raise RunError(f"the simulation cannot go on: {error}") from error
    finally:
        cluster.close()
        in_order.pass_on(is_over=True)
    return cluster


def simulated_history(run: Resolved, draw: int = 0) -> History:
    """The history of a simulation of ``run``; see ``simulate``.  Also raises EndlessPreemptionError."""
    history = HistoryBuilder(run.jobs, bounded=not run.detects_endless_preemption)
    simulate(run, history.follow, draw=draw)
    return history.finish()


def make_costs(run: Resolved, draw: int = 0) -> CostModel:
    """How long operations take in a simulation of ``run``; ``draw`` as in ``simulate``.

    Raises:
        ConfigError: this machine's calibration is needed and missing, or a calibration file is invalid.
    """
    path = chosen_path(run.experiment.overheads, run.experiment.calibration)
    if path is None:
        return CostModel(network_bytes_s=int(run.network_bytes_s))
    from emulator.sim.calibrated_costs import CalibratedCosts, keyed_number  # here, because few simulations need these

    nodes = {node.name: node.containers for node in run.settings.nodes}
    names = tuple(job.name for job in run.jobs)
    seed = keyed_number(run.experiment.seed, draw)
    return CalibratedCosts(
        load_calibration(path), run.experiment.time_scale, seed, nodes, names, run.experiment.live.memory_scale
    )


def calibration_warning(experiment: Experiment) -> str | None:
    """A warning about the calibration that a simulation of ``experiment`` uses; None: no warning.

    Raises ConfigError like ``make_costs``, so that the error comes before anything starts.
    """
    path = chosen_path(experiment.overheads, experiment.calibration)
    return None if path is None else load_calibration(path).warning(path)


def _calibration_facts(run: Resolved) -> dict[str, Any]:
    path = chosen_path(run.experiment.overheads, run.experiment.calibration)
    return {} if path is None else {"calibration": load_calibration(path).described(path)}


def _check_not_stuck(cluster: SimulatedCluster, since_ns: int) -> None:
    """Raise RunError if no process makes progress, so nothing can free the containers that jobs wait for."""
    if not cluster.processes.are_stuck:
        return
    client = cluster.machines[CLIENT]
    assert isinstance(client, Client)
    masters = [machine for machine in cluster.machines.values() if isinstance(machine, ApplicationMaster)]
    stuck = [attempt for master in masters for attempt in stuck_attempts(master)]
    waiting = [job for job in cluster.jobs if job not in client.states]
    raise RunError(standstill(since_ns, cluster.kernel.now_ns, stuck, waiting))


_TIME, _ORDER = attrgetter("t_ns"), attrgetter("t_ns", "actor", "seq")


class _InOrder:
    """Passes records on in the order of a journal: by time, then actor, then number."""

    def __init__(self, write: Callable[[Sequence[Record]], object]) -> None:
        self._write = write
        self.held: list[Record] = []
        """The records that are not passed on yet."""

    def pass_on(self, *, is_over: bool) -> None:
        """Pass on the records held.  Until the run is over, those of the last time stay: there may be more of them."""
        self.held.sort(key=_ORDER)
        count = len(self.held)
        if self.held and not is_over:
            count = bisect_left(self.held, self.held[-1].t_ns, key=_TIME)
        ready, kept = self.held[:count], self.held[count:]
        self.held.clear()  # writing may raise where the run is to end: then nothing is written after it
        self._write(ready)
        self.held += kept


class _Shown:
    """What the user sees of a simulation during the run."""

    def __init__(self, run: Resolved, on_status: OnStatus, started_real_s: float) -> None:
        self._run = run
        self._queues = {job.name: job.queue for job in run.jobs}
        self._on_status = on_status
        self._started_real_s = started_real_s
        self._next_real_s = started_real_s
        self._revisions: dict[str, int] = {}
        """Revision of each ApplicationMaster at its status in ``_jobs``."""
        self._jobs: dict[str, JobStatus] = {job.name: unstarted_job_status(job, None) for job in run.jobs}

    def now_and_then(self, cluster: SimulatedCluster) -> None:
        """Show the state of the run, unless it was shown a short time ago."""
        begin_real_s = time.monotonic()
        if begin_real_s >= self._next_real_s:
            self.show(cluster, "simulating")
            end_real_s = time.monotonic()
            self._next_real_s = end_real_s + max(STATUS_PERIOD_REAL_S, _TIMES_SHOWING * (end_real_s - begin_real_s))

    def show(self, simulated: SimulatedCluster, phase: str) -> None:
        """Show the state of the run."""
        machines = simulated.machines
        manager, client = machines[RESOURCE_MANAGER], machines[CLIENT]
        assert isinstance(manager, ResourceManager)
        assert isinstance(client, Client)
        cluster = cluster_status(manager, client, simulated.kernel.now_ns)
        for machine in machines.values():
            if isinstance(machine, ApplicationMaster) and self._revisions.get(machine.job) != machine.revision:
                self._revisions[machine.job] = machine.revision
                self._jobs[machine.job] = job_status(machine, self._queues[machine.job])
        for job, state in client.states.items():
            if not self._jobs[job].ended:
                self._jobs[job] = _ended(self._jobs[job], state)
        self._on_status(
            RunStatus(
                emulated_ns=cluster.emulated_ns,
                real_s=time.monotonic() - self._started_real_s,
                time_scale=self._run.experiment.time_scale,
                phase=phase,
                jobs=tuple(self._jobs.values()),
                containers_total=0 if self._run.settings.has_sizes else self._run.containers,
                containers_used_by_queue=cluster.used_by_queue,
                containers_suspended=cluster.suspended,
                lag_p99_real_ms=None,
            )
        )


def _ended(last: JobStatus, state: JobState) -> JobStatus:
    """The status of a job whose ApplicationMaster exited before its status was read again."""
    done = last.total if state is JobState.SUCCEEDED else last.done
    return JobStatus(last.name, last.queue, state.value, done, 0, 0, last.total - done, last.total)
