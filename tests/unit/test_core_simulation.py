"""The virtual-time driver keeps the executor's contract: one completion for each effect, and the exit always last."""

from __future__ import annotations

import pytest
from simulated import SECOND_NS, CheckedCluster, make_job, make_settings

from emulator.core import completions, messages
from emulator.core import effects as fx
from emulator.core.messages import ApplicationHeartbeat, ContainerReported, ContainerState, Message, ProgressSamples
from emulator.records.journal import is_empty_heartbeat
from emulator.sim.cost_model import CostModel
from emulator.vocabulary import Work

COMPLETIONS = {
    fx.Launch: ("Launched", "LaunchFailed"),
    fx.Suspend: ("Suspended", "SuspendFailed"),
    fx.Resume: ("Resumed", "ResumeFailed"),
    fx.Checkpoint: ("Checkpointed", "CheckpointFailed"),
    fx.Kill: ("Killed", "KillFailed"),
}
_KINDS = {*dir(messages), *dir(completions)}
SLOW = CostModel(
    launch_ns=10**8, suspend_ns=10**9, resume_ns=10**9, checkpoint_ns=10**9, kill_ns=10**9, commit_ns=10**8
)


def run_with_crash(mechanism: str, crash_at_ms: int) -> CheckedCluster:
    """A research job preempted by a production job; the process of its reduce 0 crashes at some moment."""
    settings = make_settings(containers=3, mechanism=mechanism)
    jobs = (make_job("research", reduces_s=(20.0, 20.0)), make_job("production", "production", 5.0, reduces_s=(3.0,)))
    cluster = CheckedCluster(settings, {job.name: job for job in jobs}, SLOW)

    def crash() -> None:
        for container, task in list(cluster.processes.tasks.items()):
            if task.launch.job == "research" and task.launch.work is Work.KEYS and task.launch.task == 0:
                cluster.processes.crash(container, 11, "segmentation fault")

    cluster.kernel.at(crash_at_ms * 1_000_000, crash)
    cluster.run_to_end(500)
    cluster.check_end()
    return cluster


def container_messages(cluster: CheckedCluster) -> dict[str, list[Message]]:
    found: dict[str, list[Message]] = {}
    for record in cluster.records:
        container = getattr(record.message, "container", None)
        if record.actor.startswith("nm:") and type(record.message).__name__ in _KINDS and container:
            found.setdefault(container, []).append(record.message)
    return found


@pytest.mark.parametrize("mechanism", ["kill", "suspend", "checkpoint"])
@pytest.mark.parametrize("crash_at_ms", range(1_500, 14_000, 731))
def test_every_effect_is_answered_once_and_the_exit_comes_last(mechanism: str, crash_at_ms: int) -> None:
    cluster = run_with_crash(mechanism, crash_at_ms)
    of_machines = ("StartContainer", "SuspendContainer", "ResumeContainer", "KillContainer", "EndReceived")
    for container, heard in container_messages(cluster).items():
        names = [type(message).__name__ for message in heard if type(message).__name__ not in of_machines]
        assert names.count("Exited") == 1
        assert names[-1] == "Exited"
        wishes = [e for r in cluster.records for e in r.effects if getattr(e, "container", None) == container]
        for kind, answers in COMPLETIONS.items():
            asked = sum(isinstance(effect, kind) for effect in wishes)
            assert sum(name in answers for name in names) == asked, (container, kind.__name__, names)


@pytest.mark.parametrize(("costs", "says_so"), [(CostModel(), False), (CostModel(message_ns=1), True), (SLOW, True)])
def test_a_reduce_that_commits_in_no_time_tells_only_of_its_end(costs: CostModel, says_so: bool) -> None:
    cluster = CheckedCluster(make_settings(), {"a": make_job("a", reduces_s=(3.0, 3.0))}, costs)
    cluster.run_to_end(500)
    names = [type(record.message).__name__ for record in cluster.records]
    assert names.count("Committing") == (2 if says_so else 0)
    reports = [record.message.report for record in cluster.records if isinstance(record.message, ContainerReported)]
    states = [report.state for report in reports]
    assert states.count(ContainerState.COMMITTING) == names.count("Committing")
    assert states.count(ContainerState.DONE) == 2


def test_a_lost_node_takes_its_processes_along() -> None:
    settings = make_settings(nodes=2, containers=2)
    cluster = CheckedCluster(settings, {"a": make_job("a", reduces_s=(30.0, 30.0))})
    lost = []

    def lose() -> None:
        master = next(task.node for task in cluster.processes.tasks.values() if task.launch.work is Work.MASTER)
        lost.append(next(node.name for node in settings.nodes if node.name != master))
        cluster.lose_node(lost[0])
        assert all(task.node == master for task in cluster.processes.tasks.values())

    cluster.kernel.at(10 * SECOND_NS, lose)
    cluster.run_to_end(500)
    cluster.check_end()
    assert f"nm:{lost[0]}" not in cluster.machines


def test_messages_of_one_instant_are_handled_first_in_first_out() -> None:
    """What a ReadProgress is answered with comes after the heartbeat that was sent before it."""
    settings = make_settings(containers=4, job_eviction="mlf")
    cluster = CheckedCluster(settings, {"a": make_job("a", reduces_s=(20.0, 20.0), deadline_s=100.0)})
    cluster.run_to_end(500)
    told = [type(record.message) for record in cluster.records]
    asked = [
        place
        for place, record in enumerate(cluster.records)
        if {fx.Send, fx.ReadProgress} <= {type(effect) for effect in record.effects}
        and not is_empty_heartbeat(record.message, record.effects[:1], 0, 0)  # the heartbeat is not recorded then
    ]
    assert len(asked) > 10
    assert all(told[place + 1 : place + 3] == [ApplicationHeartbeat, ProgressSamples] for place in asked)
