"""Limits of QOS, associations, partitions and arrays: the worked example of Slurm's documentation, and records."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from emulator.policies.slurm.limits import LimitUsage
from emulator.policies.slurm.scheduler import jobs_player
from emulator.sites.slurm import (
    MINUTE_NS,
    SECOND_NS,
    Association,
    Cluster,
    Job,
    Limits,
    Mode,
    Node,
    Partition,
    Qos,
    Settings,
    Slurm,
)
from tests.commands import run_natjam
from workloads.saved import write_saved

ENFORCED = Settings(enforces_limits=True, qos_preempt=False)
NODES = {f"n{number}": Node(8, 4000, {"gpu": 2}) for number in range(4)}
ROOT, ACCOUNT, USER = Association("root"), Association("a", parent="root"), Association("a", "u")


def site(*associations: Association, qos: tuple[Qos, ...] = (), **partition: Any) -> Cluster:
    return Cluster(NODES, (Partition("p", tuple(NODES), **partition),), ENFORCED, qos, associations)


def job(name: str = "j", nodes: int = 1, cpus: int = 8, **more: Any) -> Job:
    given: dict[str, Any] = {"limit_ns": MINUTE_NS, "account": "a", "user": "u"} | more
    return Job(name, "p", nodes, cpus, 60 * SECOND_NS, **given)


def test_the_example_of_resource_limits_html_where_a_limit_is_given_first_it_holds() -> None:
    """``MaxJobs=20`` in the partition's QOS, none in the job's, ``MaxJobs=4`` of the user: 20 hold."""
    qos = Qos("of-partition", limits=Limits(user_jobs=20)), Qos("of-job")
    user = replace(USER, limits=Limits(user_jobs=4))
    limits = LimitUsage(Cluster(NODES, (Partition("p", (), qos="of-partition"),), ENFORCED, qos, (user,)))
    for number in range(20):
        assert not limits.why_waits(job(f"j{number}", qos="of-job"))
        limits.start(job(f"j{number}", qos="of-job"))
    assert limits.why_waits(job(qos="of-job")) == "QOSMaxJobsPerUserLimit"
    limits.end(job("j0", qos="of-job"))
    assert not limits.why_waits(job(qos="of-job"))


@pytest.mark.parametrize(
    ("limits", "reason_of_qos", "reason_of_user"),
    [
        (Limits(group_tres={"cpu": 24}), "QOSGrpCpuLimit", "AssocGrpCpuLimit"),
        (Limits(group_tres={"mem": 6000}), "QOSGrpMemLimit", "AssocGrpMemLimit"),
        (Limits(group_tres={"gpu": 3}), "QOSGrpGRES", "AssocGrpGRES"),
        (Limits(group_tres={"node": 3}), "QOSGrpNodeLimit", "AssocGrpNodeLimit"),
        (Limits(group_jobs=1), "QOSGrpJobsLimit", "AssocGrpJobsLimit"),
        (Limits(user_tres={"cpu": 24}), "QOSMaxCpuPerUserLimit", ""),
        (Limits(user_tres={"mem": 6000}), "QOSMaxMemoryPerUser", ""),
        (Limits(user_tres={"gpu": 3}), "QOSMaxGRESPerUser", ""),
        (Limits(user_jobs=1), "QOSMaxJobsPerUserLimit", "AssocMaxJobsLimit"),
        (Limits(account_tres={"node": 3}), "QOSMaxNodePerAccountLimit", ""),
        (Limits(account_jobs=1), "QOSMaxJobsPerAccountLimit", ""),
        (Limits(job_tres={"cpu": 15}), "QOSMaxCpuPerJobLimit", "AssocMaxCpuPerJobLimit"),
        (Limits(wall_ns=MINUTE_NS - 1), "QOSMaxWallDurationPerJobLimit", "AssocMaxWallDurationPerJobLimit"),
    ],
)
def test_a_job_over_a_limit_waits_with_the_reason_that_squeue_shows(
    limits: Limits, reason_of_qos: str, reason_of_user: str
) -> None:
    of_two = job(nodes=2, memory_mb=2000, gres={"gpu": 1}, qos="q")
    for cluster, reason in (
        (site(qos=(Qos("q", limits=limits),)), reason_of_qos),
        (site(ROOT, ACCOUNT, replace(USER, limits=limits)), reason_of_user),
    ):
        if not reason:
            continue
        usage = LimitUsage(cluster)
        usage.start(of_two)
        assert usage.why_waits(of_two) == reason
        unenforced = replace(cluster, settings=replace(ENFORCED, enforces_limits=False))
        assert not LimitUsage(unenforced).why_waits(of_two)


def test_run_minutes_of_a_group_are_freed_as_its_jobs_run_and_end() -> None:
    """resource_limits.html, GrpTRESRunMins: it consumes what is left of the time limits of running jobs."""
    limits = Limits(group_run_minutes={"cpu": 8 * 15})
    cluster = site(ROOT, replace(ACCOUNT, limits=limits), USER)
    usage, ten, six = LimitUsage(cluster), job("ten", limit_ns=10 * MINUTE_NS), job("six", limit_ns=6 * MINUTE_NS)
    assert not usage.why_waits(ten)
    usage.start(ten)
    assert usage.why_waits(six) == "AssocGrpCPURunMinutesLimit", "16 minutes of eight CPUs"
    usage.now_ns = MINUTE_NS
    assert not usage.why_waits(six)
    usage.now_ns = 0
    usage.end(ten)
    assert not usage.why_waits(six)
    assert usage.why_waits(job("unlimited", limit_ns=None)) == "AssocGrpCPURunMinutesLimit"
    jobs = [replace(each, length_ns=5 * MINUTE_NS) for each in (ten, six)]
    starts = [each[0].start_ns // SECOND_NS for each in jobs_player(cluster, jobs).finish().values()]
    assert starts[0] < 10
    assert 60 <= starts[1] <= 120


def test_limits_of_a_user_are_of_one_user_and_those_of_a_group_of_all_below_an_account() -> None:
    of_qos = LimitUsage(site(qos=(Qos("q", limits=Limits(user_tres={"cpu": 8})),)))
    of_qos.start(job(qos="q"))
    assert of_qos.why_waits(job("mine", qos="q"))
    assert not of_qos.why_waits(job("other", qos="q", user="v"))
    of_account = LimitUsage(site(ROOT, replace(ACCOUNT, limits=Limits(group_tres={"cpu": 8})), USER))
    of_account.start(job())
    assert of_account.why_waits(job("other", user="v")) == "AssocGrpCpuLimit"
    assert not of_account.why_waits(job("elsewhere", account="b"))


def test_a_limit_of_the_account_holds_beside_a_larger_one_of_the_user() -> None:
    """resource_limits.html: of groups the more restrictive limit of the account holds, too."""
    user, account = (replace(of, limits=Limits(group_jobs=jobs)) for of, jobs in ((USER, 5), (ACCOUNT, 1)))
    usage = LimitUsage(site(ROOT, account, user))
    usage.start(job())
    assert usage.why_waits(job("more")) == "AssocGrpJobsLimit"


def test_limits_of_partitions_hold_without_accounting() -> None:
    cluster = replace(site(max_nodes=2, max_ns=MINUTE_NS), settings=Settings())
    assert LimitUsage(cluster).why_waits(job(nodes=3)) == "PartitionNodeLimit"
    assert LimitUsage(cluster).why_waits(job(limit_ns=2 * MINUTE_NS)) == "PartitionTimeLimit"
    executions = jobs_player(cluster, [job("large", 3), job("fits", 2)]).finish()
    assert (executions["large"], len(executions["fits"])) == ([], 1), "Slurm would never start it"


def test_jobs_over_a_limit_block_nobody_and_start_when_others_have_ended() -> None:
    """As in the recorded ``qos`` runs, where a user may have 24 CPUs of a QOS."""
    qos = Qos("normal", limits=Limits(user_tres={"cpu": 24})), Qos("high")
    jobs = [job(f"normal{number}", qos="normal") for number in range(4)] + [job("high", qos="high")]
    executions = jobs_player(site(qos=qos), jobs).finish()
    assert {name: each[0].start_ns // SECOND_NS for name, each in executions.items()} == {
        **dict.fromkeys(("normal0", "normal1", "normal2", "high"), 0),
        "normal3": 60,
    }


def test_so_many_tasks_of_an_array_run_at_once_as_its_throttle_says() -> None:
    tasks = [job(f"7_{number}", array="7", array_limit=2) for number in range(3)] + [job("8")]
    executions = jobs_player(replace(site(), settings=Settings()), tasks).finish()
    starts = {name: each[0].start_ns // SECOND_NS for name, each in executions.items()}
    assert starts["7_0"] == starts["7_1"] == starts["8"] < 60 <= starts["7_2"]


def test_each_job_that_waited_is_explained_by_the_reasons_that_squeue_would_show(tmp_path: Path) -> None:
    limited = Qos("normal", limits=Limits(user_tres={"cpu": 24})), Qos("high")
    jobs = [job(f"normal{number}", qos="normal") for number in range(4)] + [job("whole", nodes=4, qos="high")]
    write_saved(tmp_path / "site.yaml", Slurm(site(qos=limited), tuple(jobs)), ())
    run_natjam("run", tmp_path / "site.yaml", "--set", "overheads=none", "--out", tmp_path / "run")
    said = run_natjam("explain", tmp_path / "run", "--job", "normal3").output
    assert "at 0.000 s, backfill: QOSMaxCpuPerUserLimit" in said
    said = run_natjam("explain", tmp_path / "run", "--job", "whole").output
    assert "starts whole on n0, n1, n2, n3" in said
    assert "Resources: 1 of 4 nodes have 8 free CPUs, it needs 4" in said
    assert said.count("found no room") == 1, "one line for all tasks of a gang"
    assert "3 tasks from whole/task-000.0 to whole/task-002.0 (8 cpu each) found no room: " in said.replace("\n", " ")


def test_who_went_for_a_job_is_explained(tmp_path: Path) -> None:
    low, high = Partition("low", tuple(NODES), 1, Mode.REQUEUE), Partition("high", tuple(NODES), 10)
    cluster = Cluster(NODES, (low, high), Settings(preempts=True))
    jobs = [Job("a", "low", 4, 8, 600 * SECOND_NS), Job("b", "high", 1, 8, 60 * SECOND_NS, 20 * SECOND_NS)]
    write_saved(tmp_path / "site.yaml", Slurm(cluster, tuple(jobs)), ())
    run_natjam("run", tmp_path / "site.yaml", "--out", tmp_path / "run")
    said = run_natjam("explain", tmp_path / "run", "--job", "b").output
    assert re.search(r"at 2\d\.\d+ s, (backfill|the main scheduler): preempts a\n", said)
