"""A campaign's simulations on two Ray nodes: the same table as on this machine's own cores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaigns import CAMPAIGN, NatjamProcess, table, write_campaign
from tests.live_runs import RayCluster
from tests.run_results import RunResults


@pytest.mark.slow
def test_a_campaign_over_two_ray_nodes_leaves_the_same_as_here(
    ray_cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))  # records are made again with the policy
    text = CAMPAIGN.replace("[srt, lrt]", "[srt, 'mine:as_they_come']").replace("20", "5")
    campaign = write_campaign(tmp_path, text)
    policy = "def as_they_come(view, tasks, random):\n    return tuple(task.container for task in tasks)\n"
    (tmp_path / "mine.py").write_text(policy)
    environment = {"RAY_ADDRESS": ray_cluster.address, "RAY_AUTH_TOKEN": ray_cluster.token}
    before = ray_cluster.processes()
    with NatjamProcess("campaign", campaign, "--out", tmp_path / "ray", **environment) as there:
        assert "10 runs\n" in there.output()
        assert there.process.returncode == 0
        there.leaves_nothing()
    assert ray_cluster.processes() >= before, "the cluster is somebody else's"
    with NatjamProcess("campaign", campaign, "--out", tmp_path / "here") as here:
        assert "10 runs\n" in here.output()
    assert table(tmp_path / "ray").equals(table(tmp_path / "here"))
    for run in ("task_eviction=srt/seed-1", "task_eviction=mine_as_they_come/seed-5"):
        there_run, here_run = (RunResults(tmp_path / where / "runs" / run) for where in ("ray", "here"))
        assert there_run.records() == here_run.records()
        assert {path.name for path in there_run.out.iterdir()} == {path.name for path in here_run.out.iterdir()}
