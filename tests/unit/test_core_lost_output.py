"""A map's output that reduces cannot have is made again; they wait for it and do not fail."""

from __future__ import annotations

from functools import partial

from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.application_master.task import TaskState
from emulator.core.messages import FetchFailed, JobState, MapOutputs, Outcome
from emulator.vocabulary import MAP
from tests.histories import fold


def lose(cluster: CheckedCluster, map_index: int) -> None:
    master = cluster.machines["am:j"]
    assert isinstance(master, ApplicationMaster)
    node = master.tasks.maps[map_index].output_node
    assert node is not None
    cluster.processes.disks.lose_output("j", map_index, node)


def test_the_map_runs_again_and_the_reduces_of_the_second_wave_go_on() -> None:
    job = make_job("j", "research", 0.0, (1.0, 1.0), (20.0,) * 12, 1.0)
    settings = make_settings(nodes=2, containers=4)

    def disturb(cluster: CheckedCluster) -> None:
        cluster.kernel.at(12 * SECOND_NS, partial(lose, cluster, 1))

    cluster = run_checked(settings, (job,), disturb=disturb)
    assert cluster.finished_jobs == {"j": JobState.SUCCEEDED}
    failed = [record.message for record in cluster.records if isinstance(record.message, FetchFailed)]
    assert {(message.map, message.version) for message in failed} == {(1, 1)}
    told = {record.message.version for record in cluster.records if isinstance(record.message, MapOutputs)}
    assert told == {1, 2}
    attempts = fold(cluster.records, [job]).attempts
    assert [row.attempt for row in attempts if row.kind == MAP] == ["j/m000.0", "j/m001.0", "j/m001.1"]
    assert not [row for row in attempts if row.outcome is Outcome.CRASHED]


def test_a_report_on_outputs_that_have_been_replaced_changes_nothing() -> None:
    job = make_job("j", "research", 0.0, (1.0,), (20.0,) * 3, 1.0)
    looked = []

    def late(cluster: CheckedCluster) -> None:
        master = cluster.machines["am:j"]
        assert isinstance(master, ApplicationMaster)
        assert master.handle(FetchFailed("container-000003", 0, 0, "of old"), cluster.kernel.now_ns) == []
        looked.append(master.tasks.maps[0].state)

    def disturb(cluster: CheckedCluster) -> None:
        cluster.kernel.at(10 * SECOND_NS, partial(late, cluster))

    cluster = run_checked(make_settings(nodes=1, containers=4), (job,), disturb=disturb)
    assert looked == [TaskState.SUCCEEDED]
    assert cluster.finished_jobs == {"j": JobState.SUCCEEDED}
