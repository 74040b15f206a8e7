"""What the live engine gets from the machine, the simulation gets from here: how long each operation takes."""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.core.messages import Message
from emulator.sim.memory import NO_MEMORY_TIMES, MemoryTimes
from emulator.vocabulary import Frozen


class DataSize(Frozen):
    """What a task reads or writes: records, and bytes where the workload says how many."""

    records: int
    size_bytes: int
    remote_bytes: int = 0
    """Of those read, bytes that lie on other nodes."""
    remote_nodes: int = 0
    """Nodes that those lie on."""


class LaunchTimes(Frozen):
    """What follows from the order to launch a task: how long after it, in emulated nanoseconds."""

    running_ns: int
    """Its process runs, and its node is told."""
    input_ready_ns: int | None
    """A map begins its work; a reduce has its input, None where that was not known to be there at the order."""
    written_ns: int = 0
    """A map has written its output."""


@dataclass(frozen=True)
class CostModel:
    """Fixed durations, zero unless told otherwise: the published system alone.  Also what every cost model answers.

    Instants and durations are emulated nanoseconds; all durations returned are at least 0.
    """

    message_ns: int = 0
    """From one machine to another."""
    launch_ns: int = 0
    """Order to process running."""
    input_ns: int = 0
    """Fetch and merge of a reduce's input, once all map outputs are known."""
    suspend_ns: int = 0
    resume_ns: int = 0
    checkpoint_ns: int = 0
    """Beyond the key in progress."""
    kill_ns: int = 0
    commit_ns: int = 0
    network_bytes_s: int = 0
    """Speed of a node's network, in bytes an emulated second; 0: no limit."""
    memory: MemoryTimes = field(default=NO_MEMORY_TIMES, kw_only=True)
    """Of a node's RAM and swap; no time unless told otherwise."""

    def real_ns(self, emulated_ns: int) -> int:
        """What the journal says a duration took in real time: here they are the same."""
        return emulated_ns

    @property
    def longest_timer_lag_ns(self) -> int:
        """No timer is later than this."""
        return 0

    @property
    def longest_message_ns(self) -> int:
        """No message travels for longer."""
        return self.message_ns

    def timer_lag(self, address: str, due_ns: int) -> int:
        """How late a timer of the machine of ``address`` fires."""
        return 0

    def message(self, sender: str, to: str, message: Message, now_ns: int) -> int:
        """How long a message travels."""
        return self.message_ns

    def application_start(self, container: str, now_ns: int) -> int:
        """From the order to launch an ApplicationMaster until it runs."""
        return self.launch_ns

    def launch_map(self, node: str, container: str, output: DataSize, now_ns: int) -> LaunchTimes:
        """A map ordered on ``node``."""
        return LaunchTimes(self.launch_ns, self.launch_ns)

    def launch_reduce(self, node: str, container: str, fetched: DataSize | None, now_ns: int) -> LaunchTimes:
        """A reduce ordered on ``node``; ``fetched`` is None where its merged input is on the node's disk."""
        input_ns = self.input_ns if fetched is None else self.fetch_input(node, container, fetched, now_ns)
        return LaunchTimes(self.launch_ns, self.launch_ns + input_ns)

    def launch_waiting(self, node: str, container: str, now_ns: int) -> LaunchTimes:
        """A reduce ordered on ``node`` before the maps of its job have ended."""
        return LaunchTimes(self.launch_ns, None)

    def fetch_input(self, node: str, container: str, fetched: DataSize, now_ns: int) -> int:
        """From a reduce's process running and all map outputs known to its input ready."""
        if not self.network_bytes_s:
            return self.input_ns
        return self.input_ns + fetched.remote_bytes * 10**9 // self.network_bytes_s

    def map_end(self, node: str, container: str, now_ns: int) -> int:
        """From a map's time over and its output written to the exit of its process."""
        return self.commit_ns

    def commit(self, node: str, container: str, resumed: bool, size_bytes: int, now_ns: int) -> int:
        """From a reduce's last key to the exit of its process; ``resumed``: output of several attempts is joined."""
        return self.commit_ns

    def suspend(self, node: str, container: str, now_ns: int) -> int:
        """From the order to suspend to the node told that the process has stopped."""
        return self.suspend_ns

    def resume(self, node: str, container: str, now_ns: int) -> int:
        """From the order to resume to the node told that the process goes on."""
        return self.resume_ns

    def checkpoint(self, node: str, container: str, now_ns: int) -> int:
        """From the key in progress done to the exit of the process."""
        return self.checkpoint_ns

    def kill(self, node: str, container: str, now_ns: int) -> int:
        """From the order to kill to the exit of the process."""
        return self.kill_ns


class Network:
    """How messages travel: each once, after the cost model's latency."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs

    @property
    def longest_ns(self) -> int:
        """No message arrives later than this after it was sent."""
        return self._costs.longest_message_ns

    def deliveries(self, sender: str, to: str, message: Message, now_ns: int) -> tuple[int, ...]:
        """Delays after which a message arrives, one for each time it does; empty: it is lost."""
        return (self._costs.message(sender, to, message, now_ns),)
