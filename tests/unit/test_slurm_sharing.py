"""Jobs that share CPUs (``OverSubscribe=FORCE:n``, ``CR_Memory``): the examples of gang_scheduling.html and the rules
of cons_tres_share.html, named as such.  No record has them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from analysis.advise.sites import slurm_question
from emulator.policies.schedulers.play import Execution
from emulator.policies.slurm.scheduler import jobs_player
from emulator.sites.slurm import SECOND_NS, Cluster, Job, Node, Partition, Settings, Slurm
from tests.peers.slurm import differences, in_machines, played
from tests.refusals import changed
from workloads.setting_effects import Effect
from workloads.slurm.conf import read_conf

GANG = Settings(gang=True, backfills=False)
LENGTH_S = 300


def site(settings: Settings, sharing: int = 4, nodes: int = 5) -> Cluster:
    """The nodes of gang_scheduling.html, n12 to n16, in a partition with ``OverSubscribe=FORCE``."""
    has = {f"n{12 + number}": Node(8, sharing=sharing) for number in range(nodes)}
    return Cluster(has, (Partition("active", tuple(has)),), settings)


def job(name: str, nodes: int, cpus: int = 8, **more: bool) -> Job:
    """A job of five minutes, submitted so many seconds after the beginning as its name says."""
    return Job(name, "active", nodes, cpus, LENGTH_S * SECOND_NS, int(name) * SECOND_NS, **more)  # type: ignore[arg-type]


def whole(name: str, nodes: int) -> Job:
    """One under ``select/linear``, which has its nodes for itself, but for those that share them."""
    return job(name, nodes, exclusive=True)


def execution_of(cluster: Cluster, *jobs: Job) -> dict[str, Execution]:
    finished = jobs_player(cluster, jobs).finish()
    assert all(len(each) == 1 for each in finished.values()), "each starts once"
    return {name: each[0] for name, each in finished.items()}


def spans(execution: Execution) -> list[tuple[int, int]]:
    """When it runs, in whole seconds."""
    ends = [execution.start_ns, *(at_ns for pair in execution.stopped for at_ns in pair), execution.end_ns or 0]
    return [(begin // SECOND_NS, end // SECOND_NS) for begin, end in pairwise(ends)][::2]


def test_the_simple_example_of_gang_scheduling_html_two_jobs_on_all_nodes_take_turns() -> None:
    found = execution_of(site(GANG), whole("3", 5), whole("4", 5))
    in_order = sorted(spans(found["3"]) + spans(found["4"]))
    assert in_order[:4] == [(3, 60), (60, 90), (90, 120), (120, 150)], "the first slice only marks, as recorded"
    assert all(begin >= end for (_, end), (begin, _) in pairwise(in_order)), "never both"
    assert spans(found["4"])[0] == (60, 90), "the new job is suspended until its turn"


def test_the_second_example_of_gang_scheduling_html_a_job_that_shares_no_node_runs_on() -> None:
    found = execution_of(site(GANG), whole("9", 3), whole("10", 2), whole("11", 3))
    assert found["10"].nodes == ("n15", "n16"), "idle nodes go first"
    assert found["10"].stopped == []
    assert found["9"].nodes == found["11"].nodes
    assert spans(found["11"])[0] == (60, 90)


def test_the_example_of_local_backfilling_in_gang_scheduling_html() -> None:
    found = execution_of(site(GANG), whole("12", 3), whole("13", 5), whole("14", 2))
    assert (spans(found["12"])[0], spans(found["14"])[0]) == ((12, 60), (15, 60))
    assert spans(found["13"])[0] == (60, 90)
    without = execution_of(site(GANG, sharing=1), whole("12", 3), whole("13", 5), whole("14", 2))
    assert without["14"].start_ns >= (without["13"].end_ns or 0), "it has to wait for job 13"


def test_the_example_of_cr_cpu_in_gang_scheduling_html_all_six_jobs_have_about_the_same_time() -> None:
    found = execution_of(site(GANG), *(job(str(51 + number), 5, 2) for number in range(6)))
    stopped = {name for name, each in found.items() if each.stopped}
    assert stopped == found.keys() - {"55", "56"} or stopped == found.keys()
    ran_s = {
        name: sum(min(end, 231) - begin for begin, end in spans(each) if begin < 231) for name, each in found.items()
    }
    assert max(ran_s.values()) - min(ran_s.values()) <= 60, ran_s


def test_cons_tres_share_html_so_many_jobs_have_a_cpu_as_force_says_and_without_gang_they_run_at_once() -> None:
    settings = Settings(backfills=False)
    starts = {
        sharing: [
            each.start_ns // SECOND_NS
            for each in execution_of(site(settings, sharing, 1), *(job(str(n), 1) for n in (1, 2, 3))).values()
        ]
        for sharing in (1, 2, 3)
    }
    assert starts[3][2] < 60
    assert starts[2][1] < 60 < LENGTH_S <= starts[2][2]
    assert LENGTH_S <= starts[1][1] < 2 * LENGTH_S <= starts[1][2]


def test_cons_tres_share_html_cpus_are_not_shared_until_those_of_other_nodes_are_had() -> None:
    found = execution_of(site(Settings(backfills=False), 2, 2), job("1", 1, 4), job("2", 1, 6), job("3", 1, 4))
    assert [found[name].nodes for name in ("1", "2", "3")] == [("n12",), ("n13",), ("n12",)]


@pytest.mark.parametrize("settings", [GANG, Settings()], ids=["gang", "at once"])
def test_jobs_that_share_go_through_the_machines_as_they_are_played(settings: Settings, tmp_path: Path) -> None:
    cluster, jobs = site(settings, 2), [job("1", 3), job("2", 5), job("4", 2, 4), job("7", 5, 6), job("9", 2)]
    ours = in_machines(cluster, jobs, tmp_path, overheads="none")
    theirs = played(jobs_player(cluster, jobs).finish())
    assert [*differences(ours, theirs)] == []


CONF = """\
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=n[1-2] CPUs=8 RealMemory=1000
NodeName=n3 CPUs=4 RealMemory=1000
PartitionName=p Nodes=n[1-2] OverSubscribe=FORCE:3
PartitionName=q Nodes=n3
"""


@pytest.mark.parametrize(
    ("old", "new", "sharing", "why"),
    [
        ("", "", [3, 3, 1], ""),
        ("FORCE:3", "FORCE", [4, 4, 1], ""),
        ("FORCE:3", "FORCE:1", [1, 1, 1], ""),
        ("OverSubscribe", "Shared", [3, 3, 1], ""),
        ("FORCE:3", "YES:2", [1, 1, 1], "--oversubscribe"),
        ("q Nodes=n3", "q Nodes=ALL", [1, 1, 1], "only on nodes of one partition"),
        ("q Nodes=n3", "q Nodes=n3 OverSubscribe=FORCE:2", [3, 3, 2], ""),
        ("Nodes=n3", "Nodes=\nPartitionName=r Nodes=n3 OverSubscribe=NO", [3, 3, 1], ""),
        ("p Nodes=n[1-2]", "p Nodes=n[1-3]", [1, 1, 1], "only on nodes of one partition"),
        ("PartitionName=q Nodes=n3", "", [3, 3, 1], ""),
        ("CR_CPU", "CR_Memory", [1000, 1000, 1000], ""),
        (
            "SelectType=",
            "PreemptMode=REQUEUE,GANG\nPreemptType=preempt/partition_prio\nSelectType=",
            [3, 3, 1],
            "",
        ),
    ],
)
def test_what_of_sharing_is_modelled_and_what_is_said(
    old: str, new: str, sharing: list[int], why: str, tmp_path: Path
) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(changed(CONF, old, new))
    found = read_conf(path)
    assert [node.sharing for node in found.cluster.nodes.values()] == sharing
    said = [each.why for each in found.losses if each.effect is Effect.DECIDES and "CPUs of their own" in each.why]
    assert [why in each for each in said] == [True] * bool(why)


def test_under_cr_memory_any_number_of_jobs_has_a_cpu_and_memory_is_what_they_wait_for(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(CONF.replace("CR_CPU", "CR_Memory").replace(" OverSubscribe=FORCE:3", ""))
    cluster = read_conf(path).cluster
    jobs = [Job(f"j{n}", "q", 1, 4, LENGTH_S * SECOND_NS, 0, memory_mb=300) for n in range(4)]
    starts = [each.start_ns // SECOND_NS for each in execution_of(cluster, *jobs).values()]
    assert [start >= LENGTH_S for start in starts] == [False, False, False, True]


def test_who_can_be_ended_for_others_takes_no_turns_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_Memory\nPreemptType=preempt/partition_prio\n"
        "PreemptMode=REQUEUE,GANG\nNodeName=n CPUs=8 RealMemory=1000\nPartitionName=low\n"
        "PartitionName=high PriorityTier=10\n"
    )
    found = read_conf(path)
    assert found.cluster.sharing == {"n": 1}
    assert "PreemptMode of partition low" in {each.what for each in found.losses if each.effect is Effect.DECIDES}
    path.write_text(path.read_text().replace(",GANG", ""))
    found = read_conf(path)
    assert found.cluster.sharing == {"n": 1000}
    assert [each for each in found.losses if each.effect is Effect.DECIDES] == []
    jobs = tuple(Job(str(n), of, 1, 8, 60 * SECOND_NS, memory_mb=100) for n, of in enumerate(("low", "low", "high")))
    heads = slurm_question(path, Slurm(found.cluster, jobs)).heads
    assert not any("take turns" in head for head in heads), "they run at once"
    gang = replace(found.cluster, settings=replace(found.cluster.settings, gang=True))
    assert any(
        "REQUEUE, CANCEL: jobs that take turns" in head for head in slurm_question(path, Slurm(gang, jobs)).heads
    )
