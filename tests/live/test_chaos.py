"""Live runs over two node hosts in which things go wrong, drawn by seed as ``natjam chaos`` draws them.

``NATJAM_CHAOS=30 pytest -s -m slow tests/live/test_chaos.py -k seeds`` tries as many seeds, from
``NATJAM_CHAOS_FROM`` on.  ``NATJAM_DEATHS=5 pytest -s -m slow tests/live/test_chaos.py -k deaths`` kills each kind of
process as often, and prints what that costs, live and simulated; ``NATJAM_DEATHS_SIMULATED=1000`` and ``-k simulated``
are for simulations alone.  Without them, some.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import pytest

from analysis.verify_run import verify_runs
from emulator.chaos.faulty_cluster import FaultyCluster
from emulator.chaos.runner import undisturbed_ns
from emulator.chaos.schedule import DESTRUCTIVE, Fault, FaultKind, draw_faults
from emulator.core.completions import Exited
from emulator.core.messages import RESOURCE_MANAGER, Start, job_address
from emulator.errors import NatjamError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.records.history import History
from emulator.records.journal import Record
from emulator.records.summary import makespan_of
from emulator.resolved import resolve
from emulator.sim.session import simulate
from tests.histories import fold
from tests.live_runs import LEFT_BOUND_S, NatjamRun, RayCluster, ray_nodes, until
from tests.run_results import matching
from tests.simulated_runs import CATALOGUE, FIG4

COUNT = int(os.environ.get("NATJAM_CHAOS", "3"))
FIRST = int(os.environ.get("NATJAM_CHAOS_FROM", "0"))
DEATHS = int(os.environ.get("NATJAM_DEATHS", "1"))
SIMULATED_DEATHS = int(os.environ.get("NATJAM_DEATHS_SIMULATED", "3"))
FILES = [FIG4, CATALOGUE / "facebook-50.yaml"]
TIME_SCALE = 20
TIMES_AS_LONG = 10
AND_S = 60.0
MECHANISMS = ("checkpoint", "suspend", "kill")


# ---- faults, done to processes and files of a live run ----


class LiveFaults:
    """The faults of one run; emulated time begins, for them, with the run's first task."""

    def __init__(self, run: NatjamRun, time_scale: float, strikes: Mapping[FaultKind, Strike]) -> None:
        """``strikes``: what is done for each kind; as a rule ``STRIKES``."""
        self._run = run
        self._time_scale = time_scale
        self._strikes = strikes
        self.happened: list[FaultKind] = []
        """Of each fault that has met somebody, what kind it was."""
        self._after: list[tuple[float, Callable[[], None]]] = []
        """What ends faults that last, by the instant at which it is due."""

    def do(self, faults: Sequence[Fault], bound_s: float) -> None:
        """Do each at its time; returns when the run has ended, or ``bound_s`` after its beginning."""
        run, waiting = self._run, list(faults)
        run.until(run.tasks, "a task")
        began_s = time.monotonic()
        while run.process.poll() is None and time.monotonic() < began_s + bound_s:
            now_s = time.monotonic()
            while waiting and began_s + self._real_s(waiting[0].at_ns) <= now_s:
                self._strike(waiting.pop(0))
            for ending in [ending for ending in self._after if ending[0] <= now_s]:
                self._after.remove(ending)
                ending[1]()
            time.sleep(0.01)

    def _real_s(self, duration_ns: int) -> float:
        return duration_ns / 1e9 / self._time_scale

    def _strike(self, fault: Fault) -> None:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):  # it has just ended by itself
            if self._strikes[fault.kind](self, fault):
                self.happened.append(fault.kind)

    # ---- whom they meet ----

    def _hosts(self, beginning: str) -> dict[str, int]:
        found = self._run.hosts()
        return {name: found[name] for name in sorted(found) if name.startswith(beginning)}

    def _kill(self, fault: Fault, pids: Sequence[int]) -> bool:
        pid = fault.target(pids)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        return pid is not None

    def _kill_task(self, fault: Fault) -> bool:
        return self._kill(fault, sorted(task.pid for task in self._run.tasks()))

    def _kill_masters(self, fault: Fault) -> bool:
        hosts = [*self._hosts("applications-").values()]
        for pid in hosts:
            os.kill(pid, signal.SIGKILL)
        return bool(hosts)

    def _kill_manager(self, fault: Fault) -> bool:
        return self._kill(fault, [*self._hosts("rm").values()])

    def _kill_node_host(self, fault: Fault) -> bool:
        hosts = [*self._hosts("nodes-").values()]
        return len(hosts) > 1 and self._kill(fault, hosts)

    def _kill_supervisor(self, fault: Fault) -> bool:
        return self._kill(fault, self._run.modules("tasks.supervisor"))

    def _kill_shuffle_service(self, fault: Fault) -> bool:
        return self._kill(fault, self._run.modules("services.shuffle_service"))

    def _pause(self, fault: Fault) -> bool:
        pid = fault.target([*self._hosts("").values()])
        if pid is None:
            return False
        os.kill(pid, signal.SIGSTOP)
        self._after.append((time.monotonic() + self._real_s(fault.for_ns), lambda: _recover(pid)))
        return True

    def _lose_output(self, fault: Fault) -> bool:
        outputs = [path for at in self._run.work_directories() for path in matching(at, "node-*/map/*")]
        output = fault.target(sorted(outputs))
        if output is not None:
            shutil.rmtree(output)
        return output is not None

    def _damage_checkpoint(self, fault: Fault) -> bool:
        """One bit of what a checkpoint counts."""
        partials = sorted(matching(self._run.out / "output" / "_partial", "*/*"))
        path = fault.target([path for path in partials if b"\nseal " in path.read_bytes()])
        if path is not None:
            with path.open("r+b") as file:
                file.seek(fault.pick % path.stat().st_size)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 1 << fault.pick % 8]))
        return path is not None

    # ---- afterwards ----

    def what_is_wrong(self) -> str:
        """In words, what must hold after any faults and does not."""
        run = self._run
        if run.process.poll() is None:
            return "it has not ended in time"
        wrong, status = [], run.process.returncode
        if "Traceback" in run.log:
            wrong.append(run.log[-1500:])
        if status not in (0, 1) or (status == 1 and DESTRUCTIVE.isdisjoint(self.happened)):
            wrong.append(f"status {status}: {run.log[-1500:]}")
        try:
            found = [finding for checked in verify_runs(run.out) for finding in checked.findings]
            failed = [job["name"] for job in run.summary["jobs"] if job["state"] != "succeeded"]
            # What a job that has failed has not written is missing, and what it had not committed is left, of course.
            for finding in found:
                is_of_failed = any(f"/{name}/" in finding for name in failed)
                if not (is_of_failed and finding.endswith(("is missing", "is unexpected"))):
                    wrong.append(finding)
        except (NatjamError, OSError) as error:
            return "; ".join([*wrong, str(error)])
        if bool(failed) != bool(status):
            wrong.append(f"status {status}, and these jobs have failed: {failed}")
        wrong += [f"{job} has failed, and nobody is told why" for job in failed if job not in run.log]
        try:
            until(lambda: not run.left(), "nothing left", LEFT_BOUND_S)
        except AssertionError:
            wrong.append(f"left: {run.left()}")
        return "; ".join(wrong)


def _recover(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


Strike: TypeAlias = Callable[[LiveFaults, Fault], bool]
"""Does something; whether it has met anybody."""
STRIKES: dict[FaultKind, Strike] = {
    FaultKind.CRASH: LiveFaults._kill_task,
    FaultKind.MASTERS_DEATH: LiveFaults._kill_masters,
    FaultKind.MANAGER_DEATH: LiveFaults._kill_manager,
    FaultKind.SUPERVISOR_DEATH: LiveFaults._kill_supervisor,
    FaultKind.NODE_DEATH: LiveFaults._kill_node_host,
    FaultKind.PAUSE: LiveFaults._pause,
    FaultKind.LOST_OUTPUT: LiveFaults._lose_output,
    FaultKind.SHUFFLE_DEATH: LiveFaults._kill_shuffle_service,
    FaultKind.BAD_CHECKPOINT: LiveFaults._damage_checkpoint,
}


# ---- seeds ----


def bound_s(span_ns: int) -> float:
    """A run must have ended by then, whatever goes wrong."""
    return TIMES_AS_LONG * span_ns / 1e9 / TIME_SCALE + AND_S


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_seeds(tmp_path: Path, ray_cluster: RayCluster) -> None:
    found = []
    for seed in range(FIRST, FIRST + COUNT):
        options = ("--seed", str(seed), "--set", f"scheduler.mechanism={MECHANISMS[seed % len(MECHANISMS)]}")
        span_ns = undisturbed_ns(load_experiment(FIG4, ["engine=sim", f"seed={seed}", options[-1]]))
        faults = draw_faults(seed, span_ns, list(STRIKES))
        folder = tmp_path / str(seed)
        folder.mkdir()
        run = NatjamRun(folder, *options, experiment=text_of(FIG4), cluster=ray_cluster)
        happened, wrong = run_with(run, faults, span_ns)
        print(f"seed {seed}: {', '.join(kind.value for kind in happened) or 'nothing'}: {wrong or 'well'}", flush=True)
        if wrong:
            found.append("\n".join([f"seed {seed}: {wrong}", *map(str, faults)]))
    assert not found, "\n\n".join(found)


def text_of(file: Path) -> str:
    return file.read_text().replace("path: ..", f"path: {CATALOGUE.parent}")


def run_with(
    run: NatjamRun, faults: Sequence[Fault], span_ns: int, strikes: Mapping[FaultKind, Strike] = STRIKES
) -> tuple[list[FaultKind], str]:
    """Run it while these faults happen: what has happened, and what is wrong with its end."""
    with run:
        struck = LiveFaults(run, TIME_SCALE, strikes)
        with contextlib.suppress(AssertionError):  # it has ended already: the log says why
            struck.do(faults, bound_s(span_ns))
        return struck.happened, struck.what_is_wrong()


# ---- what deaths cost ----

DEATHS_OF = {
    "ResourceManager": FaultKind.MANAGER_DEATH,
    "ApplicationMasters": FaultKind.MASTERS_DEATH,
    "node host": FaultKind.NODE_DEATH,
    "shuffle service": FaultKind.SHUFFLE_DEATH,
    "raylet": FaultKind.NODE_DEATH,
}
OUTAGES_REAL_S = {FaultKind.MANAGER_DEATH: 1.5, FaultKind.MASTERS_DEATH: 1.5, FaultKind.SHUFFLE_DEATH: 1.0}
"""About how long it takes live until another is there; of the first two it is measured in each run."""
NODE_HOSTS = 2
UNDISTURBED = 5
"""At most so many runs to compare with: they are all alike."""


@dataclass(frozen=True)
class Totals:
    """Of one run."""

    makespan_s: float
    lost_s: float

    def __sub__(self, other: Totals) -> Totals:
        return Totals(self.makespan_s - other.makespan_s, self.lost_s - other.lost_s)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_deaths(tmp_path: Path, ray_cluster: RayCluster, file: Path) -> None:
    simulation, wrong = Simulation(file), list[str]()

    def live(name: str, faults: Sequence[Fault], cluster: RayCluster) -> tuple[Totals, list[Fault]] | None:
        folder = tmp_path / name
        folder.mkdir()
        run = NatjamRun(folder, "--time-scale", str(TIME_SCALE), experiment=text_of(file), cluster=cluster)
        strikes = {**STRIKES, FaultKind.NODE_DEATH: partial(kill_raylet, cluster)} if "raylet" in name else STRIKES
        happened, said = run_with(run, faults, simulation.span_ns, strikes)
        if said or len(happened) < len(faults):
            wrong.append(f"{name}: {said or 'nobody was met'}")
            print(f"{file.stem} {faults and faults[0]}: {wrong[-1]}", flush=True)
            return None
        totals = Totals(run.summary["makespan_s"], run.summary["work"]["lost_s"])
        as_happened = [measured(fault, run) for fault in faults]
        print(f"{file.stem} {name} {[str(fault) for fault in as_happened]}: well, {totals}", flush=True)
        return totals, as_happened

    alone = [found[0] for n in range(min(DEATHS, UNDISTURBED)) if (found := live(f"undisturbed-{n}", (), ray_cluster))]
    calm = Totals(fmean(one.makespan_s for one in alone), fmean(one.lost_s for one in alone))
    print(f"{file.stem} undisturbed, live {calm}, simulated {simulation.alone}", flush=True)
    for name in DEATHS_OF:
        found = []
        for number in range(DEATHS):
            fault = death(name, number, simulation.span_ns)
            # A raylet that is killed takes its node with it.
            with ray_nodes(2) if name == "raylet" else contextlib.nullcontext(ray_cluster) as cluster:
                ended = live(f"{name}-{number}", [fault], cluster)
            if ended is not None:
                totals, as_happened = ended
                found.append((totals - calm, simulation.cost(as_happened[0])))
        print(_row(name, found), flush=True)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_simulated(file: Path) -> None:
    simulation = Simulation(file)
    for name in list(DEATHS_OF)[:-1]:  # a raylet's is that of its node host
        drawn = (death(name, number, simulation.span_ns) for number in range(SIMULATED_DEATHS))
        print(file.stem, _row(name, [(simulation.cost(fault),) for fault in drawn]), flush=True)


def death(name: str, number: int, span_ns: int) -> Fault:
    """At a moment drawn; of the raylets it is the second node's, since the first one's is the driver's own."""
    draw, kind = random.Random(f"{name}-{number}"), DEATHS_OF[name]
    for_ns = round(OUTAGES_REAL_S.get(kind, 1.0) * TIME_SCALE * 1e9)
    at_ns, pick = draw.randrange(span_ns // 20, span_ns * 19 // 20), draw.randrange(NODE_HOSTS)
    return Fault(kind, at_ns, for_ns, 1 if name == "raylet" else pick)


def measured(fault: Fault, run: NatjamRun) -> Fault:
    """When it happened in this run, and how long it took until another host was there, if the journal shows it.

    Under load a process is killed later than it should be.  Its machines' last record is no later than its death.
    """
    began_ns, records = round(min(row["start_s"] for row in run.table("tasks")) * 1e9), run.records()
    at_ns = began_ns + fault.at_ns
    back_ns = next((record.t_ns for record in records if record.t_ns > at_ns and _is_back(fault.kind, record)), None)
    if back_ns is None:
        return fault
    died = RESOURCE_MANAGER if fault.kind is FaultKind.MANAGER_DEATH else job_address("")
    before_ns = [record.t_ns for record in records if record.t_ns < back_ns and record.actor.startswith(died)]
    at_ns = max(at_ns, *before_ns)
    return Fault(fault.kind, at_ns - began_ns, back_ns - at_ns, fault.pick)


def _is_back(kind: FaultKind, record: Record) -> bool:
    message = record.message
    if kind is FaultKind.MANAGER_DEATH:
        return record.actor == RESOURCE_MANAGER and isinstance(message, Start)
    return kind is FaultKind.MASTERS_DEATH and isinstance(message, Exited) and "its host" in message.reason


class Simulation:
    """An experiment simulated, alone and with faults."""

    def __init__(self, file: Path) -> None:
        self._experiment = load_experiment(file, ["engine=sim", f"time_scale={TIME_SCALE}"])
        alone = self._history(())
        self.span_ns = undisturbed_ns(self._experiment)
        self.alone = _totals(alone)
        self._first_ns = min(task.start_ns or 0 for task in alone.tasks)

    def cost(self, fault: Fault) -> Totals:
        """What the run has more with this fault, as long after the first task as live.

        A node host has several nodes, which go one after the other: of those left it is each time the next but one.
        """
        nodes = range(fault.pick, self._experiment.cluster.nodes, NODE_HOSTS)
        count = len(nodes) if fault.kind is FaultKind.NODE_DEATH else 1
        at_ns = fault.at_ns + self._first_ns
        faults = [Fault(fault.kind, at_ns, fault.for_ns, fault.pick + number) for number in range(count)]
        return _totals(self._history(faults)) - self.alone

    def _history(self, faults: Sequence[Fault]) -> History:
        jobs = expand(self._experiment, self._experiment.seed)
        records: list[Record] = []
        make_cluster = partial(FaultyCluster, faults=faults, limit_ns=10**15)
        simulate(resolve(self._experiment, jobs), records.extend, make_cluster=make_cluster)
        return fold(records, jobs)


def _totals(history: History) -> Totals:
    return Totals((makespan_of(history.jobs) or 0) / 1e9, sum(row.lost_work_ns for row in history.jobs) / 1e9)


def kill_raylet(cluster: RayCluster, struck: LiveFaults, fault: Fault) -> bool:
    os.kill(cluster.raylet("127.0.0.2"), signal.SIGKILL)
    return True


def _row(name: str, found: Sequence[tuple[Totals, ...]]) -> str:
    cells = [name, str(len(found))]
    for costs in zip(*found, strict=True):
        added_s, lost_s = [cost.makespan_s for cost in costs], [cost.lost_s for cost in costs]
        cells.append(f"{fmean(added_s):.0f} s ({min(added_s):.0f} to {max(added_s):.0f}), {fmean(lost_s):.0f} s lost")
    return f"| {' | '.join(cells)} |"
