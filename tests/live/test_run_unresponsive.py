"""An ApplicationMaster that does not answer: the ResourceManager takes what it asked for (natjam, section 3.2)."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from emulator.core.effects import Send
from emulator.core.messages import KillContainer, Tick
from emulator.core.resource_manager import ResourceManager
from emulator.records.journal import Record
from tests.live_runs import NatjamRun, RayCluster
from tests.run_results import job_of

SECOND_NS = 1_000_000_000
REASON = "asked back and not given in time"


def test_an_unresponsive_application_master_loses_containers(ray_cluster: RayCluster, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, "--set", "workload.jobs.0.reduce_s=[40]", cluster=ray_cluster) as run:
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


def _kills_of(record: Record) -> list[str]:
    sent = [effect.message for effect in record.effects if isinstance(effect, Send)]
    return [message.container for message in sent if isinstance(message, KillContainer) and message.why == REASON]
