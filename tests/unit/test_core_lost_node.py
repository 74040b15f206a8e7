"""A node that was given up and speaks again must end what it still runs, and then registers anew; so does one that is
started again."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace
from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.completions import Exited, Launched, RealCost
from emulator.core.effects import Effect, Kill, Launch, Send
from emulator.core.machine import StateMachine
from emulator.core.messages import (
    JobState,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    NodeLost,
    Outcome,
    Start,
    StartContainer,
)
from emulator.core.node_manager.node_manager import NodeManager
from emulator.core.node_manager.status_updater import RESTARTED
from emulator.core.resource_manager.resource_manager import ResourceManager
from emulator.records.journal import merge
from emulator.vocabulary import REDUCE, Work
from tests.histories import fold


def _responses(machine: StateMachine, heartbeat: NodeHeartbeat, now_ns: int) -> list[NodeHeartbeatResponse]:
    effects = machine.handle(heartbeat, now_ns)
    messages = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in messages if isinstance(message, NodeHeartbeatResponse)]


def _heartbeats(effects: list[Effect]) -> list[NodeHeartbeat]:
    messages = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in messages if isinstance(message, NodeHeartbeat)]


def test_a_lost_node_is_told_to_shut_down_until_it_registers_anew() -> None:
    settings = make_settings(nodes=2, containers=2)
    manager = ResourceManager(settings)
    manager.handle(Start(), 0)
    name = settings.nodes[0].name
    assert not _responses(manager, NodeHeartbeat(name, 1), 1)[0].shut_down
    manager.handle(NodeLost(name, "unplugged"), 2)
    assert _responses(manager, NodeHeartbeat(name, 3), 3)[0].shut_down
    assert not manager.state.nodes[name].is_free
    assert manager.state.containers_left == 2
    assert not _responses(manager, NodeHeartbeat(name, 4, registration=4), 4)[0].shut_down
    assert manager.state.nodes[name].free_count == 2
    assert manager.state.containers_left == 4
    assert _responses(manager, NodeHeartbeat(name, 3), 5) == [], "late: of before"
    manager.validate_state()


def test_a_node_manager_that_is_shut_down_kills_everything_and_registers_anew() -> None:
    settings = make_settings(nodes=1, containers=2)
    manager = NodeManager(settings.nodes[0], settings)
    manager.handle(Start(), 0)
    start = StartContainer("container-000001", "job", REDUCE, 0, "job/r000.0", 0)
    assert any(isinstance(effect, Launch) for effect in manager.handle(start, 1))
    manager.handle(Launched("container-000001", RealCost(1)), 2)
    assert manager.handle(NodeHeartbeatResponse(0, shut_down=True), 3) == [Kill("container-000001")]
    assert manager.handle(NodeHeartbeatResponse(0, shut_down=True), 4) == []
    manager.handle(Exited("container-000001", None, 9, 0), 5)
    (anew,) = _heartbeats(manager.handle(NodeHeartbeatResponse(0, shut_down=True), 6))
    assert anew.registration > 0
    assert anew.freed == ()
    assert manager.handle(NodeHeartbeatResponse(0, shut_down=True), 7) == [], "late: to what it was before"
    assert manager.handle(start, 8) == [], "late: the job has been told that it is lost"
    effects = manager.handle(replace(start, container="container-000002", registration=anew.registration), 9)
    assert any(isinstance(effect, Launch) for effect in effects)
    manager.validate_state()


def lose_and_return(cluster: CheckedCluster, after_s: float, silent: bool) -> None:
    """The node of the ApplicationMaster, with two of three reduces."""
    node = next(t.node for t in cluster.processes.tasks.values() if t.launch.work is Work.MASTER)
    (cluster.silence_node if silent else cluster.lose_node)(node)
    cluster.kernel.at(cluster.kernel.now_ns + round(after_s * SECOND_NS), partial(cluster.return_node, node))


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("after_s", [0.1, 30.0])
def test_a_job_goes_on_where_its_node_has_returned(silent: bool, after_s: float) -> None:
    settings = make_settings(nodes=2, containers=3)
    job = make_job("research", maps_s=(2.0,), reduces_s=(20.0,) * 8)

    def disturb(cluster: CheckedCluster) -> None:
        cluster.kernel.at(12 * SECOND_NS, partial(lose_and_return, cluster, after_s, silent))

    ends = []
    for every_heartbeat in (False, True):
        cluster = run_checked(settings, (job,), disturb=disturb, every_heartbeat=every_heartbeat)
        assert cluster.finished_jobs == {"research": JobState.SUCCEEDED}
        assert cluster.machine_of_rm().state.containers_left == 6
        ends.append(merge(cluster.records))
    assert ends[0] == ends[1]
    attempts = fold(ends[0], (job,)).attempts
    lost = [row for row in attempts if row.outcome is Outcome.LOST]
    (node,) = {row.node for row in lost}
    assert len(lost) >= 3
    assert {row.reason for row in lost} == {RESTARTED if silent else "test"}
    (lost_ns,) = {row.ended_ns for row in lost}
    again = [row for row in attempts if row.node == node and (row.launched_ns or 0) > (lost_ns or 0)]
    assert again
    assert Outcome.SUCCEEDED in {row.outcome for row in again}


@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_a_request_gets_its_container_elsewhere_if_the_free_node_whose_turn_it_is_falls_silent(node: str) -> None:
    def disturb(cluster: CheckedCluster) -> None:
        cluster.kernel.at(SECOND_NS // 1000, partial(cluster.silence_node, node))

    settings, jobs = make_settings(nodes=2, containers=2), (make_job("research", reduces_s=(5.0,)),)
    thrifty, full = [
        run_checked(settings, jobs, disturb=disturb, every_heartbeat=every).records for every in (False, True)
    ]
    assert merge(thrifty) == merge(full)


def test_a_master_outside_containers_waits_for_a_node_to_return() -> None:
    settings = make_settings(nodes=1, containers=2, unmanaged_masters=True)
    job = make_job("research", reduces_s=(20.0, 20.0))

    def disturb(cluster: CheckedCluster) -> None:
        cluster.kernel.at(12 * SECOND_NS, partial(lose_and_return, cluster, 5.0, True))

    cluster = run_checked(settings, (job,), disturb=disturb)
    assert cluster.finished_jobs == {"research": JobState.SUCCEEDED}
