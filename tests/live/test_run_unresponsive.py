"""What does not answer for a while, and then does: an ApplicationMaster, of which the ResourceManager takes what it
asked for (natjam, section 3.2), and a node that has been given up meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from analysis.verify_run import verify_runs
from emulator.core.effects import Send
from emulator.core.messages import KillContainer, Tick
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.records.journal import Record
from emulator.vocabulary import SECOND_NS
from tests.live_runs import SMALL, NatjamRun, RayCluster
from tests.run_results import job_of

REASON = "asked back and not given in time"


def test_an_unresponsive_application_master_loses_containers(ray_node: RayCluster, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, "--set", "workload.jobs.0.reduce_s=[40]", cluster=ray_node) as run:
        run.walking("research")
        # Jobs go round the two application hosts: research is on the first, production on the other.
        host = run.host("applications-1")
        os.kill(host, signal.SIGSTOP)
        try:
            run.until(lambda: run.committed("production") == 3, "production's end")
        finally:
            os.kill(host, signal.SIGCONT)
        summary = run.check_verified()
        records = [record for record in run.records() if record.actor == "rm"]
        attempts = run.table("attempts")
        manager = run.machine("rm")
    research, production = job_of(summary, "research"), job_of(summary, "production")
    assert research["kills"] >= 2
    assert research["suspensions"] == 0
    assert research["lost_work_s"] > 0
    killed = [row for row in attempts if row["outcome"] == "killed"]
    assert [row["job"] for row in killed] == ["research"] * research["kills"]
    assert all(row["kind"] == "reduce" and row["reason"] == REASON for row in killed)
    assert production["start_s"] - production["submit_s"] >= 12
    assert research["finish_s"] > production["finish_s"]

    assert isinstance(manager, ResourceManager)
    kills: list[str] = []
    for record in records:
        reclaims = [entry for entries in manager.preemptor.reclaims.values() for entry in entries]
        assert tuple(manager.handle(record.message, record.t_ns)) == record.effects
        expired = manager.preemptor.expired
        if isinstance(record.message, Tick):
            assert all(until_ns > record.t_ns for until_ns, _ in expired)
        new = [entry for until_ns, entry in expired if until_ns == record.t_ns + 2 * SECOND_NS]
        killed_now = _kills_of(record)
        assert len(new) == len(killed_now)
        kills += killed_now
        for entry in new:
            assert entry in reclaims
            assert (entry.requester, entry.victim) == ("production", "research")
            # The ResourceManager looks once a second.
            assert 12 * SECOND_NS <= record.t_ns - entry.since_ns < 14 * SECOND_NS
    assert sorted(kills) == sorted(row["container"] for row in killed)


def test_a_node_that_is_silent_for_too_long_is_given_up_and_then_registers_anew(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    roomy = SMALL.replace("containers_per_node: 4", "containers_per_node: 6").replace("submit_s: 12", "submit_s: 200")
    roomy = roomy.replace("reduces: 7, reduce_s: [30]", "reduces: 5, reduce_s: [120]")
    roomy = roomy.replace("reduces: 3,", "reduces: 9,")  # more than one node has room for
    options = ("--set", "protocol.node_expiry_s=40")
    with NatjamRun(tmp_path, *options, experiment=roomy, cluster=ray_cluster) as run:
        run.walking("research")
        silent = next(name for name in ("nodes-1", "nodes-2") if run.tasks(name))
        (other,) = {"nodes-1", "nodes-2"} - {silent}
        before, host = len(run.tasks(other)), run.host(silent)
        os.kill(host, signal.SIGSTOP)
        try:
            run.until(lambda: len(run.tasks(other)) > before, "reduces that are tried again elsewhere")
        finally:
            os.kill(host, signal.SIGCONT)
        run.check_verified()
        attempts = run.table("attempts")
        assert [checked.findings for checked in verify_runs(run.out)] == [[]]
    lost = [row for row in attempts if row["outcome"] == "lost"]
    (node,) = {row["node"] for row in lost}
    assert {row["reason"] for row in lost} == {f"{node} has not been heard of for 40 s"}
    later = [row for row in attempts if row["node"] == node and row["job"] == "production"]
    assert {row["outcome"] for row in later} == {"succeeded"}, "it is used again"


def _kills_of(record: Record) -> list[str]:
    sent = [effect.message for effect in record.effects if isinstance(effect, Send)]
    return [message.container for message in sent if isinstance(message, KillContainer) and message.why == REASON]
