"""What operations take in a simulation: whole numbers, the same for the same key, in turn where a host is shared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.messages import NodeHeartbeat
from emulator.sim.calibrated_costs import HOST_CONTAINERS, CalibratedCosts, interpolate, keyed_number
from emulator.sim.cost_model import CostModel, DataSize, LaunchTimes
from tests.calibrations import REFERENCE_RECORDS, make_calibration

NODES = {f"node-{number}": 8 for number in range(1, 7)}
JOBS = ("research", "production", "third")
MS = 10**6
HEARTBEAT = NodeHeartbeat("node-1", 5)
SMALL = DataSize(100, 0)
LARGE = DataSize(5000, 10**7, 10**6)
Draw = Callable[[CostModel, str, int], int]


def running(times: LaunchTimes) -> int:
    assert times.input_ready_ns is None or times.running_ns <= times.input_ready_ns
    return times.running_ns


WORK: dict[str, Draw] = {
    "launch_map": lambda costs, who, at_ns: running(costs.launch_map("node-1", who, LARGE, at_ns)),
    "launch_reduce": lambda costs, who, at_ns: running(costs.launch_reduce("node-1", who, LARGE, at_ns)),
    "launch_local": lambda costs, who, at_ns: running(costs.launch_reduce("node-1", who, None, at_ns)),
    "launch_waiting": lambda costs, who, at_ns: running(costs.launch_waiting("node-1", who, at_ns)),
    "fetch_input": lambda costs, who, at_ns: costs.fetch_input("node-1", who, LARGE, at_ns),
    "map_end": lambda costs, who, at_ns: costs.map_end("node-1", who, at_ns),
    "commit": lambda costs, who, at_ns: costs.commit("node-1", who, True, 10**6, at_ns),
    "suspend": lambda costs, who, at_ns: costs.suspend("node-1", who, at_ns),
    "resume": lambda costs, who, at_ns: costs.resume("node-1", who, at_ns),
    "checkpoint": lambda costs, who, at_ns: costs.checkpoint("node-1", who, at_ns),
    "kill": lambda costs, who, at_ns: costs.kill("node-1", who, at_ns),
}
"""What takes its share of a computer's cores."""
DRAWS: dict[str, Draw] = {
    "timer_lag": lambda costs, who, at_ns: costs.timer_lag("nm:node-1", at_ns),
    "message": lambda costs, who, at_ns: costs.message("nm:node-1", "am:research", HEARTBEAT, at_ns),
    "application_start": lambda costs, who, at_ns: costs.application_start(who, at_ns),
}
ALL_COSTS = {**WORK, **DRAWS}
PLACES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, unique_by=lambda place: place[0])


def costs_of(low_ms: int = 1, high_ms: int = 9, scale: float = 1, seed: int = 1, **operations: int) -> CalibratedCosts:
    calibration = make_calibration(low_ms * MS, high_ms * MS, **operations)
    two_cores = calibration.model_copy(update={"machine": calibration.machine.model_copy(update={"cores": 2})})
    return CalibratedCosts(two_cores, scale, seed, NODES, JOBS)


@pytest.mark.parametrize("name", ALL_COSTS)
@given(st.integers(0, 2**63 - 1), st.text(max_size=9), st.integers(0, 10**17), st.floats(1e-3, 1e6))
def test_costs_are_whole_never_negative_and_repeat(name: str, seed: int, who: str, at_ns: int, scale: float) -> None:
    cost = ALL_COSTS[name]
    found = cost(costs_of(scale=scale, seed=seed), who, at_ns)
    assert type(found) is int
    assert found >= 0
    assert cost(costs_of(scale=scale, seed=seed), who, at_ns) == found


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw_does_not_depend_on_those_before_it(name: str) -> None:
    draw, used = DRAWS[name], costs_of()
    for number in range(20):
        for other in ALL_COSTS.values():
            other(used, f"c{number}", number * 10**9)
    assert draw(used, "c7", 7 * 10**9) == draw(costs_of(), "c7", 7 * 10**9)


def test_draws_differ_by_container_time_and_seed_and_follow_the_distribution() -> None:
    costs = costs_of(1, 9)
    drawn = [costs.kill("node-1", f"c{number % 50}", number * 10**9) for number in range(2000)]
    assert len(set(drawn)) > 1900
    assert min(drawn) >= 1_000_000
    assert max(drawn) <= 9_000_000
    assert sum(drawn) / 2000 == pytest.approx(5_000_000, rel=0.03)
    assert costs_of(seed=2).kill("node-1", "c0", 0) != drawn[0]


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**8), min_size=2, max_size=30))
def test_timers_and_messages_of_a_host_keep_their_order(seed: int, instants_ns: list[int]) -> None:
    costs = costs_of(1, 9, seed=seed)
    for name in ("timer_lag", "message"):
        ends_ns = [at_ns + DRAWS[name](costs, "", at_ns) for at_ns in sorted(instants_ns)]
        assert ends_ns == sorted(ends_ns)


def test_real_nanoseconds_are_multiplied_by_the_time_scale() -> None:
    for scale in (1, 12.5, 20, 0.1):
        costs = costs_of(4, 4, scale=scale)
        assert costs.suspend("node-1", "c", 5) == 4_000_000 * scale
        assert costs.real_ns(costs.suspend("node-1", "c", 5)) == 4_000_000


def test_a_lone_launch_costs_what_was_measured_alone() -> None:
    costs = costs_of(1, 1, launch=3 * MS, launch_spacing=11 * MS, input_fetch=8 * MS, input_local=2 * MS, map_begin=MS)
    for start_ns, node in enumerate(NODES):
        times = costs.launch_reduce(node, "c", DataSize(REFERENCE_RECORDS, 0), start_ns * 10**9)
        assert (times.running_ns, times.input_ready_ns) == (3 * MS, 11 * MS)
    times = costs.launch_reduce("node-1", "d", None, 10**11)
    assert (times.running_ns, times.input_ready_ns) == (3 * MS, 5 * MS)
    times = costs.launch_map("node-1", "m", SMALL, 10**12)
    assert (times.running_ns, times.input_ready_ns, times.written_ns) == (3 * MS, 4 * MS, 4 * MS + 1_000_100)


@pytest.mark.parametrize("name", ["map_end", "commit", "suspend", "resume", "checkpoint", "kill"])
def test_what_is_done_to_many_processes_at_once_waits_for_the_cores(name: str) -> None:
    costs = costs_of(3, 3)
    alone_ns = WORK[name](costs, "alone", 0)
    took_ns = [WORK[name](costs, f"c{number}", 10**9) for number in range(6)]
    assert took_ns == [alone_ns + turn * 3 * MS for turn in (0, 0, 1, 1, 2, 2)]
    assert WORK[name](costs, "alone again", 2 * 10**9) == alone_ns


def test_a_burst_comes_at_the_spacing_that_was_measured() -> None:
    """Whatever of it is forking, fetching and handling: every core is busy all the time."""
    costs = costs_of(1, 1, launch=3 * MS, launch_spacing=11 * MS, input_fetch=8 * MS)
    fetched = DataSize(REFERENCE_RECORDS, 0)
    launches = [costs.launch_reduce(f"node-{1 + n % 6}", f"c{n}", fetched, 10**9) for n in range(47)]
    spacing_ns = (launches[-1].running_ns - launches[0].running_ns) / 46
    assert spacing_ns == pytest.approx(11 * MS, rel=0.1)
    assert launches == sorted(launches, key=lambda times: times.running_ns)


def test_reduces_that_wait_for_the_last_map_fetch_as_cores_come_free() -> None:
    costs = costs_of(1, 1, launch=MS, launch_spacing=MS, input_fetch=8 * MS)
    fetched = DataSize(REFERENCE_RECORDS, 0)
    assert costs.launch_waiting("node-1", "w0", 0).input_ready_ns is None
    waits = [costs.fetch_input("node-1", f"w{n}", fetched, 10**9) for n in range(4)]
    assert waits == [8 * MS, 8 * MS, 16 * MS, 16 * MS]


def test_a_message_is_free_on_its_own_host_and_goes_with_what_goes_at_the_same_time() -> None:
    costs = costs_of(1, 9)
    assert costs.message("client", "rm", HEARTBEAT, 5) == 0
    assert costs.message("nm:node-1", "nm:node-6", HEARTBEAT, 5) == 0
    assert costs.message("am:research", "am:third", HEARTBEAT, 5) == 0  # two application hosts, in turn
    assert costs.message("am:research", "am:production", HEARTBEAT, 5) > 0
    together = {costs.message("am:research", f"nm:node-{number}", HEARTBEAT, 5) for number in range(1, 7)}
    assert len(together) == 1
    assert together != {costs.message("am:research", "nm:node-1", HEARTBEAT, 5 + 10**9)}


def test_a_cluster_too_large_for_one_computer_is_spread() -> None:
    nodes = {f"node-{number}": 8 for number in range(2 * HOST_CONTAINERS // 8)}
    costs = CalibratedCosts(make_calibration(1000), 1, 1, nodes, JOBS)
    assert costs.message("nm:node-0", "nm:node-2", HEARTBEAT, 5) == 0
    assert costs.message("nm:node-0", "nm:node-1", HEARTBEAT, 5) > 0


@given(PLACES, st.integers(0, 2 * 10**9))
def test_interpolation_passes_through_its_places(places: list[tuple[int, int]], at: int) -> None:
    places.sort()
    assert [interpolate(places, place) for place, _ in places] == [value for _, value in places]
    values = [value for place, value in places]
    if at <= places[-1][0]:
        assert min(values) <= interpolate(places, at) <= max(values)


def test_keyed_numbers_are_the_same_on_every_machine() -> None:
    assert keyed_number(1) == 0x910A2DEC89025CC1  # the first output of SplitMix64 seeded with 1
    assert (keyed_number(1, 2), keyed_number(2, 1)) == (13608149317741381227, 16171810823986729605)


def test_a_published_system_has_a_network_of_its_own() -> None:
    costs = CostModel(network_bytes_s=125_000_000)
    assert costs.fetch_input("node-1", "c", DataSize(5, 10**9, 250_000_000), 0) == 2 * 10**9
    assert CostModel().fetch_input("node-1", "c", DataSize(5, 10**9, 10**9), 0) == 0
