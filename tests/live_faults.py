"""Faults as ``natjam chaos`` draws them (``emulator.chaos.schedule``), done to processes and files of a live run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from analysis.verify_run import verify_runs
from emulator.chaos.schedule import DESTRUCTIVE, Fault, FaultKind
from emulator.errors import NatjamError
from tests.live_runs import LEFT_BOUND_S, NatjamRun, until
from tests.run_results import matching


class LiveFaults:
    """The faults of one run; emulated time begins, for them, with the run's first task."""

    def __init__(self, run: NatjamRun, time_scale: float, strikes: Mapping[FaultKind, Strike] | None = None) -> None:
        """``strikes``: what is done for each kind; as a rule ``STRIKES``."""
        self._run = run
        self._time_scale = time_scale
        self._strikes = STRIKES if strikes is None else strikes
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
        self._after.append((time.monotonic() + self._real_s(fault.for_ns), lambda: _go_on(pid)))
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


def _go_on(pid: int) -> None:
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
