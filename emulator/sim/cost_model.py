"""What the live engine gets from the machine, the simulation gets from here: how long each operation takes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class CostModel:
    """Fixed durations in emulated nanoseconds (real ones times the time scale)."""

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


class Network:
    """How messages travel: each once, after the cost model's latency."""

    def __init__(self, costs: CostModel) -> None:
        self._message_ns = costs.message_ns

    def deliveries(self, sender: str, to: str, random: Random) -> tuple[int, ...]:
        """Delays after which a message arrives, one for each time it does; empty: it is lost."""
        return (self._message_ns,)
