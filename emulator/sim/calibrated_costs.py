"""Costs of one machine: a simulation with these predicts a live run there.

Theory of operation
-------------------
Costs are drawn from the distributions that ``natjam measure`` found: real nanoseconds times the time scale.  The layout
is the live engine's: the ResourceManager and the client on one host, ApplicationMasters on two, the cluster's nodes
spread over as many node hosts as there were computers.

Two things are queues.  A node host launches tasks one after the other, and while it does, the tasks it has launched
share its cores with it: each launch takes a *turn*, measured in bursts, all the work it brings included; one that finds
the host idle has no wait.  Fetching input all at once, when the last map has ended, takes turns too.

Everything else is drawn independently.  A draw is keyed by seed, operation, what it is for and when, never taken from a
stream, so that it depends on nothing but itself: leaving out events that change nothing changes no draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from zlib import crc32

from emulator.calibration import PPB, Calibration, Distribution, Series
from emulator.core.messages import (
    CLIENT,
    RESOURCE_MANAGER,
    ApplicationHeartbeatResponse,
    MapOutputsReceived,
    Message,
    NodeHeartbeatResponse,
    job_address,
    node_address,
)
from emulator.sim.cost_model import CostModel, FetchedInput

APPLICATION_HOSTS = 2
"""As many as the live engine starts."""
HOST_CONTAINERS = 2000
"""More containers than this are not put on one computer: it is how many processes a calibration has seen there."""


class CalibratedCosts(CostModel):
    """Costs of a machine at a time scale; see the module's theory of operation and ``CostModel`` for each cost."""

    def __init__(
        self, calibration: Calibration, time_scale: float, seed: int, nodes: Mapping[str, int], jobs: tuple[str, ...]
    ) -> None:
        """``nodes``: containers of each node; ``jobs``: their names, in the order of the workload."""
        super().__init__()
        scale = Fraction(str(time_scale))
        self._numerator, self._denominator = scale.numerator, scale.denominator
        self._operations = calibration.operations
        self._series = calibration.series
        self._seed = seed
        hosts = max(calibration.campaign.hosts, -(-sum(nodes.values()) // HOST_CONTAINERS))
        hosts = min(hosts, len(nodes))
        self._host_of = {RESOURCE_MANAGER: -1, CLIENT: -1}
        self._host_of |= {node_address(node): index % hosts for index, node in enumerate(nodes)}
        self._host_of |= {job_address(job): -2 - index % APPLICATION_HOSTS for index, job in enumerate(jobs)}
        self._free_ns = [0] * hosts
        """When each node host has no launch before it any more."""

    def real_ns(self, emulated_ns: int) -> int:
        """The real duration of an emulated one."""
        return emulated_ns * self._denominator // self._numerator

    def _draw(self, distribution: Distribution, what: int, *key: int) -> int:
        level_ppb = keyed_number(self._seed, what, *key) % (PPB + 1)
        return distribution.at(level_ppb) * self._numerator // self._denominator

    def _of_container(self, distribution: Distribution, operation: str, container: str, now_ns: int) -> int:
        return self._draw(distribution, crc32(operation.encode()), crc32(container.encode()), now_ns)

    # ---- hosts ----

    def timer_lag(self, address: str, due_ns: int) -> int:
        return self._draw(self._operations.timer_lag, _TIMER, crc32(address.encode()), due_ns)

    def message(self, sender: str, to: str, message: Message, now_ns: int) -> int:
        one, other = self._host_of[sender], self._host_of[to]
        if one == other:
            return 0
        carried_back = type(message) in _ANSWERS
        distribution = self._operations.message_return if carried_back else self._operations.message_forward
        # All that one host sends another at one instant goes in one call.
        return self._draw(distribution, _MESSAGE + carried_back, one & 0xFFFF, other & 0xFFFF, now_ns)

    def application_start(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.application_start, "application_start", container, now_ns)

    # ---- launching ----

    def _take_turn(self, node: str, turn_ns: int, now_ns: int) -> int:
        """How long an order given now waits for its turn, which then lasts ``turn_ns``."""
        host = self._host_of[node_address(node)]
        start_ns = max(now_ns, self._free_ns[host])
        self._free_ns[host] = start_ns + turn_ns
        return start_ns - now_ns

    def _is_busy(self, node: str, now_ns: int) -> bool:
        return self._free_ns[self._host_of[node_address(node)]] > now_ns

    def _launch(self, node: str, container: str, turn: Distribution, now_ns: int) -> int:
        turn_ns = self._of_container(turn, "turn", container, now_ns)
        wait_ns = self._take_turn(node, turn_ns, now_ns)
        return wait_ns + self._of_container(self._operations.launch, "launch", container, now_ns)

    def launch_map(self, node: str, container: str, now_ns: int) -> int:
        return self._launch(node, container, self._operations.launch_turn_map, now_ns)

    def launch_reduce(self, node: str, container: str, input_is_local: bool, now_ns: int) -> int:
        operations = self._operations
        turn = operations.launch_turn_local if input_is_local else operations.launch_turn_fetch
        return self._launch(node, container, turn, now_ns)

    def make_input(self, node: str, container: str, now_ns: int) -> int:
        maker = f"{container}.input"
        begin_ns = self.launch_map(node, maker, now_ns) + self.map_begin(maker, now_ns)
        return begin_ns + self.map_end(maker, now_ns)

    def map_begin(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.map_begin, "map_begin", container, now_ns)

    def local_input(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.input_local, "input_local", container, now_ns)

    def fetch_input(self, node: str, container: str, fetched: FetchedInput, now_ns: int) -> int:
        operations = self._operations
        wait_ns = 0
        if fetched.waited:
            turn_ns = self._of_container(operations.launch_turn_fetch, "turn", container, now_ns)
            turn_ns -= self._of_container(operations.launch_turn_local, "turn", container, now_ns)
            wait_ns = self._take_turn(node, max(0, turn_ns), now_ns)
        fetch = operations.input_fetch_busy if self._is_busy(node, now_ns) else operations.input_fetch
        fetch_ns = self._of_container(fetch, "input_fetch", container, now_ns)
        return wait_ns + fetch_ns + self._by_size(self._series.shuffle_fetch, fetched.size_bytes)

    # ---- ending and preempting ----

    def map_end(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.map_end, "map_end", container, now_ns)

    def commit(self, container: str, resumed: bool, size_bytes: int, now_ns: int) -> int:
        operations = self._operations
        commit = operations.commit_resumed if resumed else operations.commit
        commit_ns = self._of_container(commit, "commit", container, now_ns)
        return commit_ns + self._by_size(self._series.storage_write, size_bytes)

    def suspend(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.suspend, "suspend", container, now_ns)

    def resume(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.resume, "resume", container, now_ns)

    def checkpoint(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.checkpoint, "checkpoint", container, now_ns)

    def kill(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.kill, "kill", container, now_ns)

    def _by_size(self, series: Series, size_bytes: int) -> int:
        """What ``size_bytes`` take beyond the smallest size measured."""
        places = [(point.at, round(point.distribution.mean_real_ns)) for point in series.points]
        return max(0, interpolate(places, size_bytes) - places[0][1]) * self._numerator // self._denominator


def interpolate(places: list[tuple[int, int]], at: int) -> int:
    """The value at ``at`` on the line through ``places``, which rise; before the first its value, after the last on."""
    if at <= places[0][0] or len(places) == 1:
        return places[0][1]
    above = next((index for index, (place, _) in enumerate(places) if place >= at), len(places) - 1)
    (low, low_value), (high, high_value) = places[above - 1], places[above]
    return low_value + (high_value - low_value) * (at - low) // (high - low)


_ANSWERS = frozenset({NodeHeartbeatResponse, ApplicationHeartbeatResponse, MapOutputsReceived})
"""Given while the message they answer is handled: they need no call of their own."""
_TIMER = 1
_MESSAGE = 2
_MASK = (1 << 64) - 1


def keyed_number(*key: int) -> int:
    """64 bits that follow from whole numbers alone, the same on every machine.

    SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014), over the key in turn:
    some thirty times faster than seeding a generator for each draw.
    """
    state = 0
    for part in key:
        state = ((state ^ part) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state
