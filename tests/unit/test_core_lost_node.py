"""A node that was given up and speaks again must end what it still runs: its work has been replaced elsewhere."""

from __future__ import annotations

from simulated import make_settings

from emulator.core.completions import Launched, RealCost
from emulator.core.effects import Kill, Launch, Send
from emulator.core.machine import Machine
from emulator.core.messages import NodeHeartbeat, NodeHeartbeatResponse, NodeLost, Start, StartContainer
from emulator.core.node_manager import NodeManager
from emulator.core.resource_manager import ResourceManager
from emulator.vocabulary import Kind


def _responses(machine: Machine, heartbeat: NodeHeartbeat, now_ns: int) -> list[NodeHeartbeatResponse]:
    effects = machine.handle(heartbeat, now_ns)
    messages = [effect.message for effect in effects if isinstance(effect, Send)]
    return [message for message in messages if isinstance(message, NodeHeartbeatResponse)]


def test_lost_node_is_told_to_shut_down_and_never_registers_again() -> None:
    settings = make_settings(nodes=2, containers=2)
    manager = ResourceManager(settings)
    manager.handle(Start(), 0)
    name = settings.nodes[0].name
    assert not _responses(manager, NodeHeartbeat(name, 1), 1)[0].shut_down
    manager.handle(NodeLost(name, "unplugged"), 2)
    assert _responses(manager, NodeHeartbeat(name, 3), 3)[0].shut_down
    assert not manager.state.nodes[name].free
    manager.validate_state()


def test_node_manager_kills_everything_when_shut_down() -> None:
    settings = make_settings(nodes=1, containers=2)
    manager = NodeManager(settings.nodes[0], settings)
    manager.handle(Start(), 0)
    effects = manager.handle(StartContainer("container-000001", "job", Kind.REDUCE, 0, "job/r000.0", 0), 1)
    assert any(isinstance(effect, Launch) for effect in effects)
    manager.handle(Launched("container-000001", RealCost(1)), 2)
    assert manager.handle(NodeHeartbeatResponse(0, shut_down=True), 3) == [Kill("container-000001")]
    assert manager.handle(NodeHeartbeatResponse(0, shut_down=True), 4) == []
