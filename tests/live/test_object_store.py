"""Runs whose output is in S3 or HDFS: the same bytes as in a directory, and none that are half a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hdfs_server import STORES
from tests.live_runs import TWO_QUEUES, NatjamRun, RayCluster
from tests.object_server import BUSY, FORBIDDEN, ObjectServer
from tests.run_results import job_of

FIG4 = (
    TWO_QUEUES
    + """\
name: fig4-small
protocol: {kill_timeout_s: 300}
cluster: {nodes: 2, containers_per_node: 5}
workload:
  jobs:
    - {name: research-XL, queue: research, submit_s: 0, maps: 2, map_s: 1, reduces: 9,
       reduce_s: {uniform: [0.5, 1.0], longest: 40}, key_s: 1}
    - {name: production-S, queue: production, submit_s: 15, maps: 2, map_s: 1, reduces: 3,
       reduce_s: {uniform: [0.5, 1.0], longest: 15}, key_s: 1}
    - {name: copy, queue: research, submit_s: 0, maps: 2, map_s: 1, reduces: 0}
"""
)
"""A checkpoint takes as long as the store does; nobody is killed for that."""
_LONG_BOUND_S = 150
"""Of a run with images, or with a store that does not answer until it is asked no more."""


IN_HDFS = pytest.param(*STORES[1].values, id="hdfs", marks=[*STORES[1].marks, pytest.mark.slow])


@pytest.fixture(params=[STORES[0], IN_HDFS])
def server(request: pytest.FixtureRequest) -> Iterator[ObjectServer]:
    with request.param() as running:
        yield running


def in_store(server: ObjectServer) -> tuple[str, str]:
    """The option."""
    return "--set", f"storage.url={server.url}/runs"


@pytest.fixture(scope="module")
def expected(ray_cluster: RayCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The output of the experiment in a directory."""
    with NatjamRun(tmp_path_factory.mktemp("directory"), experiment=FIG4, cluster=ray_cluster) as run:
        run.check_verified()
        output = run.out / "output"
        return {str(path.relative_to(output)): path.read_bytes() for path in output.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_fig4_runs_with_a_store_that_is_busy_now_and_then(server: ObjectServer, tmp_path: Path) -> None:
    asked: Counter[tuple[str, str]] = Counter()

    def busy_at_first(method: str, path: str) -> str | None:
        asked[method, path] += 1
        return BUSY if asked[method, path] == 1 and "part-" in path else None

    server.answer = busy_at_first
    with NatjamRun(tmp_path, *in_store(server), experiment=FIG4, variables=server.variables) as run:
        summary = run.check_verified()
        attempts = run.table("attempts")
    server.answer = lambda method, path: None
    assert job_of(summary, "research-XL")["suspensions"] > 0
    # On a busy machine production may come back for a reduce that has just resumed: it is killed, for it is all saved.
    assert {row["outcome"] for row in attempts} - {"killed"} == {"succeeded", "checkpointed"}
    assert summary["work"]["lost_s"] == 0
    output = server.objects("runs/out")
    assert len(output) == 9 + 3 + 2, "one for each task with output, and nothing else"
    assert not (run.out / "output").exists()
    retried = [path for (method, path), count in asked.items() if method == "PUT" and "part-" in path and count > 1]
    assert len(retried) >= len(output)


@pytest.mark.slow
def test_a_store_that_refuses_commits_fails_the_run_and_keeps_what_was_committed(
    server: ObjectServer, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    """Those of reduces of production, all attempts of them; research and its checkpoints get through."""
    server.answer = lambda method, path: FORBIDDEN if method == "PUT" and "/production-S/part-" in path else None
    options = (*in_store(server), "--set", "protocol.task_attempts_max=2")
    with NatjamRun(tmp_path, *options, experiment=FIG4, variables=server.variables) as run:
        run.check_failed("production-S")
        attempts = run.table("attempts")
        reasons = {row["reason"] for row in attempts if row["outcome"] == "crashed"}
    assert any("cannot be written" in reason for reason in reasons), reasons
    committed = {name: data for name, data in server.objects("runs/out").items() if not name.startswith("_partial/")}
    assert committed
    assert committed.items() <= expected.items()
    assert not [name for name in committed if name.startswith("production-S/")]


@pytest.mark.slow
def test_a_store_that_dies_fails_the_run_and_leaves_whole_files_only(
    server: ObjectServer, tmp_path: Path, expected: dict[str, bytes]
) -> None:
    options = (*in_store(server), "--set", "protocol.task_attempts_max=1")
    with NatjamRun(tmp_path, *options, experiment=FIG4, variables=server.variables) as run:
        run.until(lambda: any(m == "PUT" and "_partial" in p for m, p in server.requests), "a checkpoint")
        server.die()
        run.process.wait(_LONG_BOUND_S)
        run.check_failed(f"{server.url}/runs/out", server.unreachable)
    server.start()
    committed = {name: data for name, data in server.objects("runs/out").items() if "/part-" in f"/{name}"}
    committed = {name: data for name, data in committed.items() if not name.startswith("_partial/")}
    assert committed.items() <= expected.items()


@pytest.mark.slow
def test_images_are_kept_in_the_store(server: ObjectServer, tmp_path: Path, expected: dict[str, bytes]) -> None:
    tier = ("--set", "storage.tier={write_mb_s: 50, read_mb_s: 100}")
    dumper = ("--set", "scheduler.mechanism={name: image, dumper: pages}")
    with NatjamRun(tmp_path, *in_store(server), *tier, *dumper, experiment=FIG4, variables=server.variables) as run:
        run.process.wait(_LONG_BOUND_S)
        summary = run.check_verified()
    assert job_of(summary, "research-XL")["suspensions"] > 0
    manifests = [p for m, p in server.requests if m == "PUT" and p.endswith("manifest.json")]
    assert manifests
    assert server.objects("runs/out") == expected, "the same as in a directory, and no image is left"
