"""Live runs of programs: suspended with all that they have started, verified, and nothing of them left; and k-means,
saved by criu for an urgent job, has the centroids of an undisturbed one."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from emulator.live.program_members import group_parent
from tests.commands import run_natjam
from tests.hosts_here import HostsHere
from tests.live_runs import NatjamRun, RayCluster, until
from tests.programs import criu_or_skip, hidden, kmeans_command, of_place
from tests.run_results import job_of

KMEANS = ("--memory-mb", "8", "--iterations", "25", "--iteration-s", "0.2")
ARGUMENTS = ", ".join(f'"{part}"' for part in KMEANS)
HELLO = hashlib.sha256(b"hello 0\n").hexdigest()
PROGRAMS = f"""\
name: programs
time_scale: 10
protocol: {{kill_timeout_s: 3600}}
cluster: {{nodes: 2, containers_per_node: 1, application_masters: outside}}
storage: {{tier: {{write_mb_s: 1000, read_mb_s: 1000}}}}
live: {{memory_scale: 0.1}}
scheduler:
  allocation: {{name: two-queue, queues: {{high: {{capacity: 0.5}}, low: {{capacity: 0.5}}}}}}
  mechanism: {{name: image, dumper: criu}}
workload:
  jobs:
    - name: low
      queue: low
      tasks:
        command: ["{{python}}", -m, workloads.programs.kmeans, {ARGUMENTS}, --out, c.npy]
        count: 2
        length_s: 50
    - name: high
      queue: high
      submit_s: 25
      tasks: {{command: [sh, -c, "echo hello $NATJAM_TASK; sleep 2 & wait"], length_s: 20, sha256: {{stdout: {HELLO}}}}}
"""


@pytest.mark.slow
def test_k_means_that_was_saved_and_made_again_is_the_same_to_the_bit(tmp_path: Path) -> None:
    criu_or_skip()
    subprocess.run(kmeans_command(*KMEANS, "--out", str(tmp_path / "c.npy")), stdout=subprocess.DEVNULL, check=True)
    with HostsHere(tmp_path, experiment=PROGRAMS) as run:
        assert run.wait() == 0, run.log
        summary, attempts = run.summary, run.table("attempts")
    assert job_of(summary, "low")["suspensions"] == 1
    assert sorted(row["outcome"] for row in attempts if row["job"] == "low" and row["kind"] == "tasks") == [
        "checkpointed",
        "succeeded",
        "succeeded",
    ]
    for task in range(2):
        left = run.out / "output" / "low" / f"part-c-{task:05d}"
        assert (left / "c.npy").read_bytes() == (tmp_path / "c.npy").read_bytes()
        assert len((left / "stdout").read_text().splitlines()) == 26, "nothing printed twice, nothing lost"
    assert (run.out / "output" / "high" / "part-c-00000" / "stdout").read_text() == "hello 0\n"
    assert summary["output"]["verified"] is True


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["suspend", "kill", "image"])
def test_the_training_that_init_writes_is_preempted_and_its_model_is_the_same(tmp_path: Path, mechanism: str) -> None:
    if mechanism == "image":
        criu_or_skip()
    run_natjam("init", tmp_path / "mine", "--program")
    (tmp_path / "mine" / "train.py").rename(tmp_path / "train.py")
    text = (tmp_path / "mine" / "experiment.yaml").read_text()
    with HostsHere(tmp_path, experiment=text.replace("mechanism: suspend", f"mechanism: {mechanism}")) as run:
        assert run.wait() == 0, run.log
    trained, urgent = (run.out / "output" / job / "part-c-00000" for job in ("train", "urgent"))
    assert (trained / "model.txt").read_text() == (urgent / "model.txt").read_text() == "2.999974\n"
    lines = (trained / "stdout").read_text().splitlines()
    assert [line.split(":")[0] for line in lines] == [f"step {number}" for number in range(1, 101)]
    kept = job_of(run.summary, "train")
    assert (kept["suspensions"], kept["kills"]) == ((0, 1) if mechanism == "kill" else (1, 0))
    assert kept["completion_s"] > job_of(run.summary, "urgent")["completion_s"] > 10


SUSPENDED = """\
name: suspended
time_scale: 10
cluster: {nodes: 1, containers_per_node: 2, application_masters: outside}
scheduler:
  allocation: {name: two-queue, queues: {high: {capacity: 0.5}, low: {capacity: 0.5}}}
  mechanism: suspend
workload:
  jobs:
    - {name: low, queue: low, tasks: {command: [sh, low.sh], count: 2, length_s: 60}}
    - name: high
      queue: high
      submit_s: 20
      tasks: {command: [cat], input: said.txt, length_s: 10}
"""


def write_low(directory: Path) -> Path:
    """The program of the job ``low``, beside the experiment; returns the directory that its hidden processes name."""
    place = directory / "place"
    place.mkdir()
    # Seldom: processes that fork as fast as they can leave no core to the run itself, whose time is scaled.
    (directory / "low.sh").write_text(hidden(place, between_s=0.05) + "sleep 6 & wait\n")
    (directory / "said.txt").write_text("hello\n")
    return place


def test_programs_are_suspended_and_verified_and_what_they_have_started_is_gone(tmp_path: Path) -> None:
    place = write_low(tmp_path)
    with HostsHere(tmp_path, experiment=SUSPENDED) as run:
        assert run.wait() == 0, run.log
        assert of_place(place) == []
    assert job_of(run.summary, "low")["suspensions"] == 1
    output = run.summary["output"]
    assert (output["verified"], output["programs"], output["programs_compared"]) == (True, 3, 3)
    stdout = run.out / "output" / "high" / "part-c-00000" / "stdout"
    assert stdout.read_text() == "hello\n"
    assert "what 3 programs wrote, unchanged since the commit" in " ".join(run_natjam("verify", run.out).stdout.split())
    stdout.write_text("hallo\n")
    found = run_natjam("verify", run.out, status=1)
    assert "part-c-00000: is not as it was when it was committed" in found.stderr


def test_nothing_of_a_program_is_left_when_the_driver_is_killed(ray_node: RayCluster, tmp_path: Path) -> None:
    if group_parent() is None:
        pytest.skip("needs a cgroup")
    place = write_low(tmp_path)
    with NatjamRun(tmp_path, experiment=SUSPENDED, cluster=ray_node) as run:
        run.until(lambda: len(of_place(place)) > 10, "hidden processes")
        assert run.run_id
        run.process.kill()
        run.process.wait()
        run.check_nothing_left()
        until(lambda: of_place(place) == [], "nothing left that hides")
