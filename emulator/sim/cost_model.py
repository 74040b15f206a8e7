"""What the live engine gets from the machine, the simulation gets from here: how long each operation takes."""

from __future__ import annotations

from dataclasses import dataclass

from emulator.core.messages import Message


@dataclass(frozen=True, slots=True)
class FetchedInput:
    """The input of a reduce as it is fetched."""

    size_bytes: int
    """Of its partitions of all maps."""
    remote_bytes: int
    """Of those that lie on other nodes."""
    waited: bool
    """Whether the process was there before all map outputs were known."""


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

    def real_ns(self, emulated_ns: int) -> int:
        """What the journal says a duration took in real time: here they are the same."""
        return emulated_ns

    def timer_lag(self, address: str, due_ns: int) -> int:
        """How late a timer of the machine of ``address`` fires."""
        return 0

    def message(self, sender: str, to: str, message: Message, now_ns: int) -> int:
        """How long a message travels."""
        return self.message_ns

    def application_start(self, container: str, now_ns: int) -> int:
        """From the order to launch an ApplicationMaster until it runs."""
        return self.launch_ns

    def launch_map(self, node: str, container: str, now_ns: int) -> int:
        """From the order to launch a map until its process runs."""
        return self.launch_ns

    def launch_reduce(self, node: str, container: str, input_is_local: bool, now_ns: int) -> int:
        """From the order to launch a reduce until its process runs."""
        return self.launch_ns

    def make_input(self, node: str, container: str, now_ns: int) -> int:
        """Making the input of a reduce whose job has no maps, before it is launched."""
        return 0

    def map_begin(self, container: str, now_ns: int) -> int:
        """From a map's process running to its work begun."""
        return 0

    def local_input(self, container: str, now_ns: int) -> int:
        """From a reduce's process running to its first key, its input being on its node's disk."""
        return self.input_ns

    def fetch_input(self, node: str, container: str, fetched: FetchedInput, now_ns: int) -> int:
        """From a reduce's process running and all map outputs known to its first key."""
        if not self.network_bytes_s:
            return self.input_ns
        return self.input_ns + fetched.remote_bytes * 10**9 // self.network_bytes_s

    def map_end(self, container: str, now_ns: int) -> int:
        """From the end of a map's time to the exit of its process."""
        return self.commit_ns

    def commit(self, container: str, resumed: bool, size_bytes: int, now_ns: int) -> int:
        """From a reduce's last key to the exit of its process; ``resumed``: output of several attempts is joined."""
        return self.commit_ns

    def suspend(self, container: str, now_ns: int) -> int:
        """From the order to suspend to the node told that the process has stopped."""
        return self.suspend_ns

    def resume(self, container: str, now_ns: int) -> int:
        """From the order to resume to the node told that the process goes on."""
        return self.resume_ns

    def checkpoint(self, container: str, now_ns: int) -> int:
        """From the key in progress done to the exit of the process."""
        return self.checkpoint_ns

    def kill(self, container: str, now_ns: int) -> int:
        """From the order to kill to the exit of the process."""
        return self.kill_ns


class Network:
    """How messages travel: each once, after the cost model's latency."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs

    def deliveries(self, sender: str, to: str, message: Message, now_ns: int) -> tuple[int, ...]:
        """Delays after which a message arrives, one for each time it does; empty: it is lost."""
        return (self._costs.message(sender, to, message, now_ns),)
