"""An ApplicationMaster, or the ResourceManager, dies and is there again: what runs and what was committed stays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.effects import Launch, Send
from emulator.core.job import JobSpec
from emulator.core.messages import JobFinished, JobState, KillContainer
from emulator.core.settings import Settings
from emulator.vocabulary import MAP, MASTER, REDUCE, Work

JOB = make_job("research", maps_s=(2.0,), reduces_s=(20.0, 20.0, 20.0))


def crash_master(cluster: CheckedCluster) -> None:
    tasks = cluster.processes.tasks
    masters = [name for name, task in tasks.items() if task.launch.work is Work.MASTER]
    cluster.processes.crash(masters[0], 9, "killed")


def node_of_master(cluster: CheckedCluster) -> str:
    tasks = cluster.processes.tasks.values()
    return next(task.node for task in tasks if task.launch.work is Work.MASTER)


def run_with(
    faults: dict[float, Callable[[CheckedCluster], None]], settings: Settings | None = None, job: JobSpec = JOB
) -> CheckedCluster:
    """Run a job on two nodes of three containers; ``faults`` by their time in seconds."""

    def disturb(cluster: CheckedCluster) -> None:
        for at_s, fault in faults.items():
            cluster.kernel.at(round(at_s * SECOND_NS), partial(fault, cluster))

    return run_checked(settings or make_settings(nodes=2, containers=3), (job,), disturb=disturb)


def launches(cluster: CheckedCluster, group: str) -> list[str]:
    effects = [effect for record in cluster.records for effect in record.effects]
    return [effect.attempt for effect in effects if isinstance(effect, Launch) and effect.group == group]


def end_of(cluster: CheckedCluster) -> JobFinished:
    return next(record.message for record in cluster.records if isinstance(record.message, JobFinished))


def test_a_second_attempt_goes_on_with_what_runs() -> None:
    cluster = run_with({12.0: crash_master})
    assert launches(cluster, MASTER) == ["research/am", "research/am.1"]
    assert len(launches(cluster, REDUCE)) == 3, "none was launched again"
    assert end_of(cluster).state is JobState.SUCCEEDED
    assert end_of(cluster).finish_ns == end_of(run_with({})).finish_ns, "the reduces have not waited for it"


def test_what_was_committed_while_there_was_none_is_not_done_again() -> None:
    """The second attempt has to wait for a container until the reduces have ended."""
    settings = make_settings(nodes=1, containers=4, kill_timeout_s=100.0)
    other = make_job("other", submit_s=5.0, reduces_s=(60.0,))

    def disturb(cluster: CheckedCluster) -> None:
        cluster.kernel.at(12 * SECOND_NS, partial(crash_master, cluster))

    cluster = run_checked(settings, (JOB, other), disturb=disturb)
    assert set(cluster.finished_jobs.values()) == {JobState.SUCCEEDED}
    assert sorted(launches(cluster, REDUCE)) == ["other/r000.0", *(f"research/r00{n}.0" for n in range(3))]


def test_the_job_fails_when_the_attempts_are_used_up() -> None:
    cluster = run_with({8.0: crash_master, 16.0: crash_master})
    assert launches(cluster, MASTER) == ["research/am", "research/am.1"]
    assert end_of(cluster).state is JobState.FAILED
    assert end_of(cluster).reason == "its ApplicationMaster ended, for the 2. time: killed"


def test_those_lost_with_their_node_do_not_count() -> None:
    def lose(cluster: CheckedCluster) -> None:
        cluster.lose_node(node_of_master(cluster))

    cluster = run_with({6.0: lose, 15.0: lose, 24.0: crash_master}, make_settings(nodes=4, containers=3))
    assert len(launches(cluster, MASTER)) == 4
    assert end_of(cluster).state is JobState.SUCCEEDED


def test_reduces_that_wait_for_their_maps_make_room_for_the_application_master() -> None:
    """It is lost with its node and the map's output, and its reduces hold all that is left."""
    settings = make_settings(nodes=2, containers=2, mechanism="wait", slow_start_ppm=0, memory_gb=2)
    job = make_job("research", maps_s=(30.0,), reduces_s=(5.0,) * 3)

    def lose(cluster: CheckedCluster) -> None:
        cluster.lose_node(node_of_master(cluster))

    cluster = run_with({10.0: lose}, settings, job)
    assert end_of(cluster).state is JobState.SUCCEEDED


def test_a_restarted_resource_manager_knows_all_and_kills_nothing() -> None:
    def restart(cluster: CheckedCluster) -> None:
        cluster.restart_manager(5 * SECOND_NS)

    cluster = run_with({3.5: restart, 12.0: restart})
    assert end_of(cluster).state is JobState.SUCCEEDED
    assert len(launches(cluster, REDUCE)) == 3
    assert len(launches(cluster, MAP)) == 1


def test_a_restarted_resource_manager_gives_the_time_anew_in_which_nobody_could_answer_it() -> None:
    """It dies soon after it has asked for containers, and is away for longer than the time to give them."""
    research = make_job("research", reduces_s=(100.0,) * 5)
    jobs = research, make_job("production", "production", submit_s=20.0, reduces_s=(5.0,) * 2)
    for tenths_s in range(200, 260, 4):

        def disturb(cluster: CheckedCluster, at_ns: int = tenths_s * SECOND_NS // 10) -> None:
            cluster.kernel.at(at_ns, partial(cluster.restart_manager, 30 * SECOND_NS))

        cluster = run_checked(make_settings(nodes=2, containers=3), jobs, disturb=disturb)
        sent = [effect.message for record in cluster.records for effect in record.effects if isinstance(effect, Send)]
        whys = [message.why for message in sent if isinstance(message, KillContainer)]
        assert "asked back and not given in time" not in whys, f"away from {tenths_s / 10} s"
