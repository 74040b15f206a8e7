"""Costs of one machine: a simulation with these costs predicts a live run on that machine.

Theory of operation
-------------------
Costs are drawn from the distributions that ``natjam measure`` found: real nanoseconds times the time scale.  The layout
is that of the live engine: the ResourceManager and the client on one host, ApplicationMasters on two, and the cluster's
nodes on as many node hosts as there were computers.

A computer's cores are shared, and operations on processes load them.  The cores are modelled as servers that take
pieces of work in the order of arrival.  Most operations are measured one at a time, and are one piece of work each.  A
launch has three pieces.  A node host's supervisor forks one task at a time.  The task then writes its map output or
fetches its input.  And the hosts handle its reports.  This last piece is computed from launches in a burst, when every
core is busy, as what remains of their time: cores x spacing - launch - fetch.

A host is one process with one event loop: its timers fire in the order in which they are due, and its messages to
another host arrive in the order in which they were sent.  Which of two nodes is heard first decides who gets the next
container, so this order matters more than the lag.  Therefore all that is due within one interval, as long as the
longest lag, is late by the same draw.  It never overtakes what was due before.

A draw is keyed by seed, operation, what it is for, and when; it is never taken from a stream.  So it depends on nothing
else: leaving out events that change nothing changes no draw.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from zlib import crc32

from emulator.core.messages import CLIENT, RESOURCE_MANAGER, Message, job_address, node_address
from emulator.costs.calibration import PPB, Calibration, Distribution, MemorySpeeds
from emulator.sim.cost_model import CostModel, DataSize, LaunchTimes
from emulator.sim.memory import NO_MEMORY_TIMES, MemoryTimes

APPLICATION_HOSTS = 2
"""How many hosts share the ApplicationMasters, as in the live engine."""
HOST_CONTAINERS = 2000
"""Most containers on one computer: the largest number of processes that a calibration has measured there."""


class CalibratedCosts(CostModel):
    """Costs of a machine at a time scale; see the module's theory of operation, and ``CostModel`` for each cost."""

    def __init__(
        self,
        calibration: Calibration,
        time_scale: float,
        seed: int,
        nodes: Mapping[str, int],
        jobs: tuple[str, ...],
        memory_scale: float = 1.0,
    ) -> None:
        """``nodes``: containers of each node; ``jobs``: their names, in the order of the workload; ``memory_scale``:
        real bytes of memory per emulated byte."""
        super().__init__(memory=_memory_times(calibration.memory, time_scale * memory_scale))
        scale = Fraction(str(time_scale))
        self._numerator, self._denominator = scale.numerator, scale.denominator
        self._operations = calibration.operations
        self._seed = seed
        hosts = max(calibration.campaign.hosts, -(-sum(nodes.values()) // HOST_CONTAINERS))
        hosts = min(hosts, len(nodes))
        self._host_of = {RESOURCE_MANAGER: -1, CLIENT: -1}
        self._host_of |= {node_address(node): index % hosts for index, node in enumerate(nodes)}
        self._host_of |= {job_address(job): -2 - index % APPLICATION_HOSTS for index, job in enumerate(jobs)}
        self._cores_free_ns = [[0] * calibration.machine.cores for _ in range(hosts)]
        """When each core of a node host's computer has finished its work."""
        self._supervisor_free_ns = [0] * hosts
        self._cores = calibration.machine.cores
        self._reference = round(self._operations.launch.mean_real_ns + self._operations.input_fetch.mean_real_ns)
        self._reference_records = calibration.campaign.reference_records
        self._places = {
            name: [(point.at, round(point.distribution.mean_real_ns)) for point in series.points]
            for name, series in calibration.series
            if series is not None
        }

    def real_ns(self, emulated_ns: int) -> int:
        """The real duration of an emulated duration."""
        return emulated_ns * self._denominator // self._numerator

    def _draw(self, distribution: Distribution, what: int, *key: int) -> int:
        level_ppb = keyed_number(self._seed, what, *key) % (PPB + 1)
        return self._scaled(distribution.at(level_ppb))

    def _longest_ns(self, distribution: Distribution) -> int:
        return self._scaled(distribution.quantiles_real_ns[-1])

    def _of_container(self, distribution: Distribution, operation: str, container: str, now_ns: int) -> int:
        return self._draw(distribution, crc32(operation.encode()), crc32(container.encode()), now_ns)

    # ---- hosts ----

    @property
    def longest_timer_lag_ns(self) -> int:
        return self._longest_ns(self._operations.timer_lag)

    @property
    def longest_message_ns(self) -> int:
        return self._longest_ns(self._operations.message)

    def timer_lag(self, address: str, due_ns: int) -> int:
        return self._in_order(self._operations.timer_lag, due_ns, _TIMER, self._host_of[address] & 0xFFFF)

    def message(self, sender: str, to: str, message: Message, now_ns: int) -> int:
        one, other = self._host_of[sender], self._host_of[to]
        if one == other:
            return 0
        return self._in_order(self._operations.message, now_ns, _MESSAGE, one & 0xFFFF, other & 0xFFFF)

    def _in_order(self, distribution: Distribution, at_ns: int, *key: int) -> int:
        """A delay for an event at ``at_ns``, such that it does not overtake an earlier event with the same key."""
        interval_ns = max(1, self._longest_ns(distribution))
        number, since_ns = divmod(at_ns, interval_ns)
        before_ns, delay_ns = (self._draw(distribution, *key, at) for at in (number - 1, number))
        return max(delay_ns, before_ns - since_ns)

    def application_start(self, container: str, now_ns: int) -> int:
        return self._of_container(self._operations.application_start, "application_start", container, now_ns)

    # ---- launching ----

    def _work(self, host: int, arrival_ns: int, work_ns: int) -> int:
        """When a piece of work that arrives at ``arrival_ns`` is done, on the core that is free first."""
        cores = self._cores_free_ns[host]
        core = min(range(len(cores)), key=cores.__getitem__)
        cores[core] = max(arrival_ns, cores[core]) + work_ns
        return cores[core]

    def _fork(self, host: int, container: str, now_ns: int) -> int:
        """When the supervisor has forked a task ordered now; also adds the hosts' work for it to the cores."""
        work_ns = self._of_container(self._operations.launch, "launch", container, now_ns)
        forked_ns = self._work(host, max(now_ns, self._supervisor_free_ns[host]), work_ns)
        self._supervisor_free_ns[host] = forked_ns
        spacing_ns = self._of_container(self._operations.launch_spacing, "spacing", container, now_ns)
        self._work(host, forked_ns, max(0, self._cores * spacing_ns - self._scaled(self._reference)))
        return forked_ns

    def launch_map(self, node: str, container: str, output: DataSize, now_ns: int) -> LaunchTimes:
        host = self._host_of[node_address(node)]
        forked_ns = self._fork(host, container, now_ns)
        begin_ns = forked_ns + self._of_container(self._operations.map_begin, "map_begin", container, now_ns)
        work_ns = self._at("map_by_records", output.records) + self._beyond("map_by_bytes", output.size_bytes)
        written_ns = self._work(host, begin_ns, work_ns)
        return LaunchTimes(forked_ns - now_ns, begin_ns - now_ns, written_ns - now_ns)

    def launch_reduce(self, node: str, container: str, fetched: DataSize | None, now_ns: int) -> LaunchTimes:
        host = self._host_of[node_address(node)]
        forked_ns = self._fork(host, container, now_ns)
        if fetched is not None:
            work_ns = self._fetch_work(container, fetched, now_ns)
        else:
            work_ns = self._of_container(self._operations.input_local, "input_local", container, now_ns)
        return LaunchTimes(forked_ns - now_ns, self._work(host, forked_ns, work_ns) - now_ns)

    def launch_waiting(self, node: str, container: str, now_ns: int) -> LaunchTimes:
        return LaunchTimes(self._fork(self._host_of[node_address(node)], container, now_ns) - now_ns, None)

    def fetch_input(self, node: str, container: str, fetched: DataSize, now_ns: int) -> int:
        host = self._host_of[node_address(node)]
        return self._work(host, now_ns, self._fetch_work(container, fetched, now_ns)) - now_ns

    def _fetch_work(self, container: str, fetched: DataSize, now_ns: int) -> int:
        reference_ns = self._of_container(self._operations.input_fetch, "input_fetch", container, now_ns)
        reference_ns -= self._beyond("fetch_by_records", self._reference_records)
        of_size_ns = self._beyond("fetch_by_records", fetched.records)
        of_size_ns += self._beyond("fetch_by_bytes", fetched.size_bytes)
        of_size_ns += self._beyond("fetch_by_requests", fetched.remote_nodes)
        return max(0, reference_ns) + of_size_ns

    # ---- ending and preempting ----

    def _handle(self, node: str, distribution: Distribution, operation: str, container: str, now_ns: int) -> int:
        """How long an operation takes, including its wait for a core."""
        work_ns = self._of_container(distribution, operation, container, now_ns)
        return self._work(self._host_of[node_address(node)], now_ns, work_ns) - now_ns

    def map_end(self, node: str, container: str, now_ns: int) -> int:
        return self._handle(node, self._operations.map_end, "map_end", container, now_ns)

    def commit(self, node: str, container: str, resumed: bool, size_bytes: int, now_ns: int) -> int:
        commit = self._operations.commit_resumed if resumed else self._operations.commit
        return self._handle(node, commit, "commit", container, now_ns) + self._beyond("storage_write", size_bytes)

    def suspend(self, node: str, container: str, now_ns: int) -> int:
        return self._handle(node, self._operations.suspend, "suspend", container, now_ns)

    def resume(self, node: str, container: str, now_ns: int) -> int:
        return self._handle(node, self._operations.resume, "resume", container, now_ns)

    def checkpoint(self, node: str, container: str, now_ns: int) -> int:
        return self._handle(node, self._operations.checkpoint, "checkpoint", container, now_ns)

    def kill(self, node: str, container: str, now_ns: int) -> int:
        return self._handle(node, self._operations.kill, "kill", container, now_ns)

    # ---- by size ----

    def _at(self, series: str, size: int) -> int:
        """Time for ``size``."""
        return self._scaled(max(0, interpolate(self._places[series], size)))

    def _beyond(self, series: str, size: int) -> int:
        """Time for ``size`` minus the time for the smallest size measured."""
        places = self._places[series]
        return self._scaled(max(0, interpolate(places, size) - places[0][1]))

    def _scaled(self, real_ns: int) -> int:
        return real_ns * self._numerator // self._denominator


def interpolate(places: list[tuple[int, int]], at: int) -> int:
    """The value at ``at`` on the line through ``places``, in rising order; constant before the first, and continued
    after the last."""
    if at <= places[0][0] or len(places) == 1:
        return places[0][1]
    above = next((index for index, (place, _) in enumerate(places) if place >= at), len(places) - 1)
    (low, low_value), (high, high_value) = places[above - 1], places[above]
    return low_value + (high_value - low_value) * (at - low) // (high - low)


_TIMER = 1
_MESSAGE = 2
_MASK = (1 << 64) - 1


def keyed_number(*key: int) -> int:
    """A 64-bit number computed from whole numbers only, the same on every machine.

    SplitMix64 (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014), over the parts of the key
    in turn; some thirty times faster than seeding a generator for each draw.
    """
    state = 0
    for part in key:
        state = ((state ^ part) + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state


def _memory_times(speeds: MemorySpeeds | None, slower: float) -> MemoryTimes:
    """A machine's speeds for emulated bytes in emulated seconds; what was not measured takes no time."""
    if speeds is None:
        return NO_MEMORY_TIMES
    found = (
        speeds.memory_write_bytes_s,
        speeds.memory_read_bytes_s,
        speeds.swap_out_bytes_s or speeds.memory_write_bytes_s,
        speeds.swap_in_bytes_s or speeds.memory_read_bytes_s,
    )
    return MemoryTimes(*(max(1, round(speed / slower)) for speed in found))
