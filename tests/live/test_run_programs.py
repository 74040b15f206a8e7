"""A live run of programs: k-means, saved by criu for an urgent job, has the centroids of an undisturbed one."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

from tests.live_runs import NatjamRun
from tests.programs import criu_or_skip, kmeans_command
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


def test_k_means_that_was_saved_and_made_again_is_the_same_to_the_bit(tmp_path: Path) -> None:
    criu_or_skip()
    subprocess.run(kmeans_command(*KMEANS, "--out", str(tmp_path / "c.npy")), stdout=subprocess.DEVNULL, check=True)
    with NatjamRun(tmp_path, experiment=PROGRAMS) as run:
        assert run.wait() == 0, run.log
        summary, attempts = run.summary, run.table("attempts")
    assert job_of(summary, "low")["suspensions"] == 1
    assert sorted(row["outcome"] for row in attempts if row["job"] == "low" and row["kind"] == "reduce") == [
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
