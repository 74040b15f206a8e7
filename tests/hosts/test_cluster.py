"""Fig. 4 over four hosts that ``ray up`` has brought up over SSH."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.conftest import HEAD, WORKERS, Cluster
from tests.hosts.host_init import HOME
from tests.live_runs import TWO_QUEUES
from tests.run_results import RunResults

HOSTS = [HEAD, *WORKERS]
CROWDED = (
    TWO_QUEUES
    + """\
name: crowded
cluster: {nodes: 4, containers_per_node: 1}
workload:
  jobs:
    - {name: research, queue: research, submit_s: 0, maps: 3, map_s: 1, reduces: 3, reduce_s: [30], key_s: 1}
    - {name: production, queue: production, submit_s: 15, maps: 1, map_s: 1, reduces: 1, reduce_s: [90], key_s: 1}
"""
)
"""Production takes two of the three containers in which research has reduces, and keeps them until research has ended:
both stopped reduces go on in the third."""


def test_its_output_is_right(fig4: RunResults) -> None:
    output = fig4.summary["output"]
    assert output["verified"] is True
    assert output["keys_written"] == output["keys_expected"] > 0
    assert {job["state"] for job in fig4.summary["jobs"]} == {"succeeded"}


def test_every_host_is_one_of_its_machines(fig4: RunResults) -> None:
    machines = {machine["name"]: machine for machine in fig4.summary["machines"]}
    assert sorted(machines) == HOSTS
    for number, name in enumerate(HOSTS):
        # Each host's clock is 1,000 s ahead of that of the one before it.
        assert machines[name]["clock_offset_ns"] == pytest.approx(number * 1000e9, abs=1e9)


def test_no_clock_of_another_host_is_in_its_tables(fig4: RunResults) -> None:
    summary = fig4.summary
    for row in fig4.table("attempts"):
        for name in ("launched_s", "first_key_s", "ended_s"):
            assert row[name] is None or 0 <= row[name] <= 2 * summary["makespan_s"], row
    costs_ms = [row["mechanism_real_ms"] for row in fig4.table("operations")]
    assert len([cost_ms for cost_ms in costs_ms if cost_ms]) > 50
    assert all(cost_ms is None or 0 <= cost_ms < 1000 * summary["real_s"] for cost_ms in costs_ms)


def test_keys_are_for_their_owner_and_only_the_head_makes_certificates(cluster: Cluster) -> None:
    for name in HOSTS:
        said = cluster.network.hosts[name].run("bash", "-c", "cd ~/.ray && stat -c '%n %a' auth_token *.key")
        expected = {"auth_token 600", "machine.key 600"} | ({"authority.key 600"} if name == HEAD else set())
        assert set(said.splitlines()) == expected


def test_reduces_resume_on_another_host_and_one_machine_gives_the_same_bytes(cluster: Cluster) -> None:
    for host in (cluster.network.hosts[HEAD], cluster.laptop):
        host.write(f"{HOME}/crowded.yaml", CROWDED)
    said = cluster.on_head("RAY_ADDRESS=auto natjam run crowded.yaml --out out --set storage.url=/srv/crowded")
    assert "(raylet)" not in said, "what Ray has to say of its workers' end is not for the user"
    cluster.on_head("cp -r out /srv/crowded-run")
    run = RunResults(cluster.network.shared / "crowded-run")
    assert run.summary["output"]["verified"] is True
    attempts = {row["attempt"]: row for row in run.table("attempts")}
    resumed = [row for row in attempts.values() if row["resumed_from"]]
    assert len(resumed) >= 2
    for row in resumed:
        assert row["keys_start"] == attempts[row["resumed_from"]]["keys_done"] > 0
    # Each node is on a host of its own.
    assert any(row["node"] != attempts[row["resumed_from"]]["node"] for row in resumed)
    cluster.laptop.run("natjam", "run", "crowded.yaml", "--out", "/srv/alone", bound_s=120)
    alone, over_four = (_files(cluster.network.shared / folder) for folder in ("alone/output", "crowded/out"))
    assert len(alone) == 4
    assert alone == over_four


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
