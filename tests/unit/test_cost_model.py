"""What operations take in a simulation: whole numbers, the same for the same key, in turn where a host is shared."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.messages import MapOutputsReceived, NodeHeartbeat, NodeHeartbeatResponse
from emulator.sim.calibrated_costs import HOST_CONTAINERS, CalibratedCosts, interpolate, keyed_number
from emulator.sim.cost_model import CostModel, FetchedInput
from tests.calibrations import make_calibration

NODES = {f"node-{number}": 8 for number in range(1, 7)}
JOBS = ("research", "production", "third")
HEARTBEAT = NodeHeartbeat("node-1", 5)
DRAWS: dict[str, Callable[[CostModel, str, int], int]] = {
    "timer_lag": lambda costs, who, at_ns: costs.timer_lag(who, at_ns),
    "message": lambda costs, who, at_ns: costs.message("nm:node-1", "am:research", HEARTBEAT, at_ns),
    "application_start": lambda costs, who, at_ns: costs.application_start(who, at_ns),
    "launch_map": lambda costs, who, at_ns: costs.launch_map("node-1", who, at_ns),
    "launch_fetch": lambda costs, who, at_ns: costs.launch_reduce("node-1", who, False, at_ns),
    "launch_local": lambda costs, who, at_ns: costs.launch_reduce("node-1", who, True, at_ns),
    "make_input": lambda costs, who, at_ns: costs.make_input("node-1", who, at_ns),
    "map_begin": lambda costs, who, at_ns: costs.map_begin(who, at_ns),
    "local_input": lambda costs, who, at_ns: costs.local_input(who, at_ns),
    "fetch_input": lambda costs, who, at_ns: costs.fetch_input("node-1", who, FetchedInput(10**6, 10**5, True), at_ns),
    "map_end": lambda costs, who, at_ns: costs.map_end(who, at_ns),
    "commit": lambda costs, who, at_ns: costs.commit(who, True, 10**6, at_ns),
    "suspend": lambda costs, who, at_ns: costs.suspend(who, at_ns),
    "resume": lambda costs, who, at_ns: costs.resume(who, at_ns),
    "checkpoint": lambda costs, who, at_ns: costs.checkpoint(who, at_ns),
    "kill": lambda costs, who, at_ns: costs.kill(who, at_ns),
}
PLACES = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, unique_by=lambda place: place[0])


def costs_of(low_ms: int = 1, high_ms: int = 9, scale: float = 1, seed: int = 1, **operations: int) -> CalibratedCosts:
    calibration = make_calibration(low_ms * 10**6, high_ms * 10**6, **operations)
    return CalibratedCosts(calibration, scale, seed, NODES, JOBS)


@pytest.mark.parametrize("name", DRAWS)
@given(
    seed=st.integers(0, 2**63 - 1), who=st.text(max_size=9), at_ns=st.integers(0, 10**17), scale=st.floats(1e-3, 1e6)
)
def test_draws_are_whole_never_negative_and_repeat(name: str, seed: int, who: str, at_ns: int, scale: float) -> None:
    draw = DRAWS[name]
    found = draw(costs_of(scale=scale, seed=seed), who, at_ns)
    assert type(found) is int
    assert found >= 0
    assert draw(costs_of(scale=scale, seed=seed), who, at_ns) == found


@pytest.mark.parametrize("name", sorted(DRAWS.keys() - {"launch_map", "launch_fetch", "launch_local", "make_input"}))
def test_a_draw_does_not_depend_on_those_before_it(name: str) -> None:
    draw, used = DRAWS[name], costs_of()
    for number in range(20):
        for other, draw_other in DRAWS.items():
            if not other.startswith(("launch", "make", "fetch")):
                draw_other(used, f"c{number}", number * 10**9)
    assert draw(used, "c7", 7 * 10**9) == draw(costs_of(), "c7", 7 * 10**9)


def test_draws_differ_by_container_time_and_seed_and_follow_the_distribution() -> None:
    costs = costs_of(1, 9)
    drawn = [costs.kill(f"c{number % 50}", number) for number in range(2000)]
    assert len(set(drawn)) > 1900
    assert min(drawn) >= 1_000_000
    assert max(drawn) <= 9_000_000
    assert sum(drawn) / 2000 == pytest.approx(5_000_000, rel=0.03)
    assert costs_of(seed=2).kill("c0", 0) != drawn[0]


def test_real_nanoseconds_are_multiplied_by_the_time_scale() -> None:
    for scale in (1, 12.5, 20, 0.1):
        costs = costs_of(4, 4, scale=scale)
        assert costs.suspend("c", 5) == 4_000_000 * scale
        assert costs.real_ns(costs.suspend("c", 5)) == 4_000_000


def test_launches_ordered_together_take_turns_on_their_host() -> None:
    costs = costs_of(1, 1, launch=3_000_000, launch_turn_fetch=11_000_000, launch_turn_map=5_000_000)
    waits = [costs.launch_reduce(f"node-{1 + number % 6}", f"c{number}", False, 10**9) for number in range(47)]
    assert waits == [3_000_000 + 11_000_000 * number for number in range(47)]
    after_ns = 10**9 + 47 * 11_000_000
    assert costs.launch_map("node-1", "m1", after_ns) == 3_000_000
    assert costs.launch_map("node-2", "m2", after_ns + 1_000_000) == 3_000_000 + 4_000_000


def test_input_takes_longer_while_others_are_launched_and_turns_when_all_wait_for_it() -> None:
    operations = {"input_fetch": 5, "input_fetch_busy": 20, "launch_turn_fetch": 11, "launch_turn_local": 4}
    costs = costs_of(1, 1, **{name: ms * 10**6 for name, ms in operations.items()})
    small = FetchedInput(0, 0, waited=False)
    assert costs.fetch_input("node-1", "c1", small, 0) == 5_000_000
    costs.launch_reduce("node-2", "c2", False, 0)
    assert costs.fetch_input("node-1", "c1", small, 0) == 20_000_000
    waiting = [costs.fetch_input("node-1", f"w{n}", FetchedInput(0, 0, waited=True), 10**9) for n in range(3)]
    assert waiting == [20_000_000, 27_000_000, 34_000_000]


def test_a_message_is_free_on_its_own_host_and_goes_with_what_goes_at_the_same_time() -> None:
    costs = costs_of(1, 9, message_return=10**6)
    assert costs.message("client", "rm", HEARTBEAT, 5) == 0
    assert costs.message("nm:node-1", "nm:node-6", HEARTBEAT, 5) == 0
    assert costs.message("am:research", "am:third", HEARTBEAT, 5) == 0  # two application hosts, in turn
    assert costs.message("am:research", "am:production", HEARTBEAT, 5) > 0
    together = {costs.message("am:research", f"nm:node-{number}", HEARTBEAT, 5) for number in range(1, 7)}
    assert len(together) == 1
    assert together != {costs.message("am:research", "nm:node-1", HEARTBEAT, 6)}
    for answer in (NodeHeartbeatResponse(5), MapOutputsReceived("node-1", 1)):
        assert costs.message("rm", "nm:node-1", answer, 5) == 10**6


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


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5))
def test_keyed_numbers_have_64_bits(key: list[int]) -> None:
    assert 0 <= keyed_number(*key) < 2**64


def test_keyed_numbers_are_the_same_on_every_machine() -> None:
    assert keyed_number(1) == 0x910A2DEC89025CC1  # the first output of SplitMix64 seeded with 1
    assert (keyed_number(1, 2), keyed_number(2, 1)) == (13608149317741381227, 16171810823986729605)


def test_a_published_system_has_a_network_of_its_own() -> None:
    costs = CostModel(network_bytes_s=125_000_000)
    assert costs.fetch_input("node-1", "c", FetchedInput(10**9, 250_000_000, False), 0) == 2 * 10**9
    assert CostModel().fetch_input("node-1", "c", FetchedInput(10**9, 10**9, False), 0) == 0
