"""SIGKILL of the hosts of the ResourceManager and of ApplicationMasters: the run goes on, and nothing is done twice."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

import pytest

from analysis.verify_run import verify_runs
from emulator.core.messages import Start
from emulator.records.journal import JournalError, read_journal
from tests.live_runs import ENDLESS, SMALL, NatjamRun, RayCluster, command_line
from tests.run_results import job_of

ALONE = ("--set", "workload.only={jobs: [research]}")
"""Nobody asks for containers meanwhile, which the ResourceManager would take by killing if none answers."""
LONGER = SMALL.replace("reduce_s: [30]", "reduce_s: [60]")


def starts(run: NatjamRun, actor: str) -> int:
    """How often a machine has started, as far as the journal on the disk says."""
    found = 0
    with contextlib.suppress(JournalError):  # where what has been written so far ends
        for record in read_journal(run.out / "journal.jsonl.zst.unfinished")[1]:
            found += record.actor == actor and isinstance(record.message, Start)
    return found


def kill(run: NatjamRun, host: str) -> None:
    """End a host, and wait for the one that takes its place; it has not taken over yet, as a rule."""
    before = run.host(host)
    os.kill(before, signal.SIGKILL)
    run.until(lambda: run.host(host) != before and "Actor" in command_line(run.host(host)), f"another {host}")


def test_killed_hosts_are_replaced_and_what_runs_goes_on(ray_cluster: RayCluster, tmp_path: Path) -> None:
    """The ResourceManager's second host is killed before it has taken over."""
    with NatjamRun(tmp_path, *ALONE, experiment=LONGER, cluster=ray_cluster) as run:
        run.walking("research")
        os.kill(run.janitor(), signal.SIGKILL)  # it is not needed as long as all goes well
        for host in ("applications-1", "rm", "rm"):
            kill(run, host)
        summary = run.check_verified()
        attempts = run.table("attempts")
        assert [checked.findings for checked in verify_runs(run.out)] == [[]]
    assert job_of(summary, "research")["lost_work_s"] == 0
    tasks = [(row["attempt"], row["outcome"]) for row in attempts if "/am" not in row["attempt"]]
    assert {outcome for _, outcome in tasks} == {"succeeded"}, "processes go on"
    assert len(tasks) == 2 + 7, "none was launched again"
    masters = [row["outcome"] for row in attempts if row["attempt"].startswith("research/am")]
    assert (len(masters), masters[0]) == (2, "crashed"), "the run may be over before the end of the second is known"


@pytest.mark.slow
def test_a_host_that_dies_again_and_again_is_given_up(ray_node: RayCluster, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, *ALONE, experiment=ENDLESS, cluster=ray_node) as run:
        run.walking("research")
        for number in range(1, 11):
            kill(run, "rm")
            run.until(lambda number=number: starts(run, "rm") > number, f"ResourceManager {number + 1}")
        os.kill(run.host("rm"), signal.SIGKILL)
        run.check_failed("rm has died 11 times (code of yours, such as a policy, may have ended it)")


@pytest.mark.slow
def test_a_job_fails_when_its_application_master_has_died_too_often(ray_node: RayCluster, tmp_path: Path) -> None:
    with NatjamRun(tmp_path, experiment=ENDLESS, cluster=ray_node) as run:
        run.walking("research")
        kill(run, "applications-1")
        run.until(lambda: starts(run, "am:research") == 2, "the second attempt")
        os.kill(run.host("applications-1"), signal.SIGKILL)
        assert run.wait() == 1, run.log
    assert "its ApplicationMaster ended, for the 2. time: its host applications-1 has died" in run.log
