"""How long each operation takes: what the live engine gets from the machine, the simulation gets from here."""

from __future__ import annotations

from dataclasses import dataclass, field

from emulator.core.messages import Message
from emulator.sim.memory import NO_MEMORY_TIMES, MemoryTimes
from emulator.vocabulary import Frozen


class DataSize(Frozen):
    """What a task reads or writes: records, and bytes if the workload gives them."""

    records: int
    size_bytes: int
    remote_bytes: int = 0
    """How many of the bytes read are on other nodes."""
    remote_nodes: int = 0
    """Number of other nodes that hold some of the bytes read."""


class LaunchTimes(Frozen):
    """The times of the steps of a launch, counted from its order, in emulated nanoseconds."""

    running_ns: int
    """The process of the task runs, and its node knows."""
    input_ready_ns: int | None
    """A map begins its work, or a reduce has its input; None: the input was not yet available at the order."""
    written_ns: int = 0
    """A map has written its output."""


@dataclass(frozen=True)
class CostModel:
    """Fixed durations, zero by default: with a published profile, only the profile counts.  Base of all cost models.

    Times and durations are emulated nanoseconds; all durations returned are at least 0.
    """

    message_ns: int = 0
    """Message from one machine to another."""
    launch_ns: int = 0
    """Time from the order to the running process."""
    input_ns: int = 0
    """Fetching and merging a reduce's input, once all map outputs are known."""
    suspend_ns: int = 0
    resume_ns: int = 0
    checkpoint_ns: int = 0
    """Time of a checkpoint without the key in progress."""
    kill_ns: int = 0
    commit_ns: int = 0
    network_bytes_s: int = 0
    """Speed of a node's network, in bytes per emulated second; 0: no limit."""
    memory: MemoryTimes = field(default=NO_MEMORY_TIMES, kw_only=True)
    """Speeds of a node's RAM and swap; by default they take no time."""

    def real_ns(self, emulated_ns: int) -> int:
        """The real duration that the journal records for a duration; here they are equal."""
        return emulated_ns

    @property
    def longest_timer_lag_ns(self) -> int:
        """The largest lag of any timer."""
        return 0

    @property
    def longest_message_ns(self) -> int:
        """The longest travel time of any message."""
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
        """Launch of a map on ``node``."""
        return LaunchTimes(self.launch_ns, self.launch_ns)

    def launch_reduce(self, node: str, container: str, fetched: DataSize | None, now_ns: int) -> LaunchTimes:
        """Launch of a reduce on ``node``; ``fetched`` is None if its merged input is on the node's disk."""
        input_ns = self.input_ns if fetched is None else self.fetch_input(node, container, fetched, now_ns)
        return LaunchTimes(self.launch_ns, self.launch_ns + input_ns)

    def launch_waiting(self, node: str, container: str, now_ns: int) -> LaunchTimes:
        """Launch of a reduce on ``node`` before the maps of its job have ended."""
        return LaunchTimes(self.launch_ns, None)

    def fetch_input(self, node: str, container: str, fetched: DataSize, now_ns: int) -> int:
        """From the time when a reduce runs and all map outputs are known, to the time when its input is ready."""
        if not self.network_bytes_s:
            return self.input_ns
        return self.input_ns + fetched.remote_bytes * 10**9 // self.network_bytes_s

    def map_end(self, node: str, container: str, now_ns: int) -> int:
        """From the end of a map's time, with its output written, to the exit of its process."""
        return self.commit_ns

    def commit(self, node: str, container: str, resumed: bool, size_bytes: int, now_ns: int) -> int:
        """From a reduce's last key to the exit of its process; ``resumed``: outputs of several attempts are joined."""
        return self.commit_ns

    def suspend(self, node: str, container: str, now_ns: int) -> int:
        """From the order to suspend until the node is notified that the process has stopped."""
        return self.suspend_ns

    def resume(self, node: str, container: str, now_ns: int) -> int:
        """From the order to resume until the node is notified that the process continues."""
        return self.resume_ns

    def checkpoint(self, node: str, container: str, now_ns: int) -> int:
        """From the end of the key in progress to the exit of the process."""
        return self.checkpoint_ns

    def kill(self, node: str, container: str, now_ns: int) -> int:
        """From the order to kill to the exit of the process."""
        return self.kill_ns


class Network:
    """How messages travel: each arrives once, after the cost model's latency."""

    def __init__(self, costs: CostModel) -> None:
        self._costs = costs

    @property
    def longest_ns(self) -> int:
        """The longest time between sending and arrival of a message."""
        return self._costs.longest_message_ns

    def deliveries(self, sender: str, to: str, message: Message, now_ns: int) -> tuple[int, ...]:
        """The delays after which a message arrives, one for each arrival; empty: it is lost."""
        return (self._costs.message(sender, to, message, now_ns),)
