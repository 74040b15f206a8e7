"""``natjam suspend``, ``resume`` and ``kill``: by hand, while a live run is on."""

from __future__ import annotations

import stat
from pathlib import Path

from emulator.core.messages import OrderTask
from tests.commands import invoked, run_natjam
from tests.hosts_here import HostsHere
from tests.live_runs import LiveRun

ONE_TASK = """\
name: by-hand
time_scale: 20
overheads: native
cluster: {nodes: 1, containers_per_node: 1, application_masters: outside}
scheduler:
  allocation:
    name: two-queue
    queues: {production: {capacity: 0.5, maximum: 1.0}, research: {capacity: 0.5, maximum: 1.0}}
  mechanism: wait
workload:
  jobs:
    - {name: low, queue: research, reduces: 1, reduce_s: 200, key_s: 2}
"""


def test_a_task_is_suspended_resumed_and_killed_by_hand_and_the_run_replays(tmp_path: Path) -> None:
    with HostsHere(tmp_path, experiment=ONE_TASK) as run:
        run.walking("low")
        door = run.out / "live"
        assert stat.S_IMODE(door.stat().st_mode) == 0o600
        assert stat.S_IMODE(door.resolve().parent.stat().st_mode) == 0o700

        _refused(2, "'low' has 1 reduces, counted from 0", "suspend", run.out, "low/r1")
        _refused(2, "no job 'lo' has been submitted; did you mean 'low'?", "suspend", run.out, "lo/r0")
        _refused(2, "'low' is no task; write JOB/m0", "suspend", run.out, "low")
        _refused(1, "low/r000: is not suspended: it is running", "resume", run.out, "low/r0")

        assert "low/r000: suspended at " in _done("suspend", run.out, "low/r0")
        assert len(run.stopped()) == 1
        _refused(1, "low/r000: is not running: it is suspended", "suspend", run.out, "low/r0")

        assert "low/r000: goes on as soon as" in _done("resume", run.out, "low/r0")
        run.until(lambda: _at_work(run) and not run.stopped(), "the task at work again")

        (first,) = _at_work(run)
        assert "low/r000: " in _done("kill", run.out, "low/r0")
        run.until(lambda: _at_work(run) - {first}, "another attempt")

        (job,) = run.check_verified()["jobs"]
        assert (job["suspensions"], job["kills"]) == (1, 1)
        assert sum(type(record.message) is OrderTask for record in run.records()) == 3
        assert "every effect the same" in _done("replay", run.out)
        assert not door.is_symlink()
        _refused(1, "the run is over", "suspend", run.out, "low/r0")


def test_a_task_that_its_node_has_no_room_to_stop_is_refused_with_the_reason(tmp_path: Path) -> None:
    with HostsHere(tmp_path, "cluster.max_suspended_per_node=0", experiment=ONE_TASK) as run:
        run.walking("low")
        _refused(1, "low/r000: refused at ", "suspend", run.out, "low/r0")
        assert "low/r000: goes on" in _done("resume", run.out, "low/r0")  # it is no longer asked


def test_orders_to_what_is_no_run_are_refused(tmp_path: Path) -> None:
    _refused(2, "nowhere: no such run", "suspend", tmp_path / "nowhere", "low/r0")
    (tmp_path / "experiment.yaml").touch()
    _refused(1, "no live run is at work there", "kill", tmp_path, "low/r0")


def _at_work(run: LiveRun) -> set[int]:
    """The processes of the task; one that was made ahead of any task writes nothing yet."""
    return {task.pid for task in run.tasks() if task.writes == "low"}


def _done(*arguments: str | Path) -> str:
    done = run_natjam(*arguments)
    return done.stdout


def _refused(status: int, words: str, *arguments: str | Path) -> None:
    done = invoked(*arguments)
    assert (done.exit_code, words in done.stderr) == (status, True), done.output
