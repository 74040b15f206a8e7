"""The ledger of a node: whatever is asked of it, nothing is given out twice and the sums are right."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.node_ledger import InsufficientResourcesError, NodeLedger
from emulator.core.settings import NodeSettings
from emulator.vocabulary import Work

NAMES = st.sampled_from([f"c{number}" for number in range(8)])
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("take", "set_aside", "keep", "stop", "resume", "end")),
        NAMES,
        st.sampled_from(tuple(Work)),
        st.integers(0, 3),
    ),
    max_size=60,
)


def node(containers: int = 4, memory: int = 6, swap: int = 0, max_suspended: int = 8) -> NodeSettings:
    return NodeSettings("n1", "r1", containers, 1, memory, swap, max_suspended)


@given(
    st.integers(1, 6) | st.tuples(st.integers(0, 3), st.integers(0, 3)), st.integers(0, 12), st.integers(0, 3),
    st.integers(0, 4), STEPS,
)  # fmt: skip
def test_nothing_is_given_out_twice(
    slots: int | tuple[int, int], memory: int, swap: int, most: int, steps: list[tuple[str, str, Work, int]]
) -> None:
    maps, reduces = slots if isinstance(slots, tuple) else (slots, slots)
    total = sum(slots) if isinstance(slots, tuple) else slots
    settings = replace(node(total, memory, swap, most), slots=slots if isinstance(slots, tuple) else None)
    ledger = NodeLedger(settings)
    kinds: dict[str, Work] = {}
    sizes: dict[str, int] = {}
    state: dict[str, str] = {}
    for step, name, kind, size in steps:
        was = state.get(name)
        with suppress(InsufficientResourcesError):
            if step == "take" and was is None:
                ledger.take(name, kind, size)
                kinds[name], sizes[name], state[name] = kind, size, "running"
            elif step == "set_aside" and was == "running":
                ledger.set_aside(name)
                state[name] = "set aside"
            elif step == "keep" and was == "set aside":
                ledger.keep(name)
                state[name] = "running"
            elif step == "stop" and was == "set aside":
                ledger.stop(name)
                state[name] = "stopped"
            elif step == "resume" and was == "stopped":
                ledger.resume(name)
                state[name] = "running"
            elif step == "end" and was is not None:
                ledger.end(name)
                del state[name]
        ledger.validate()
        on_slot = [name for name, what in state.items() if what != "stopped"]
        stopped = [name for name, what in state.items() if what != "running"]
        assert {name for name in kinds if ledger.in_container(name)} == set(on_slot)
        assert (ledger.used, ledger.stopped) == (len(on_slot), len(stopped))
        assert len(on_slot) <= total
        for one, own in ((Work.SHUFFLE, maps), (Work.KEYS, reduces)):
            assert sum(kinds[name] is one for name in on_slot) <= own
        assert len(stopped) <= most
        assert ledger.stopped_bytes == sum(sizes[name] for name in stopped)
        assert ledger.stopped_bytes <= max(0, memory + swap - total)


@given(
    st.lists(st.integers(0, 6000), min_size=1, max_size=3).map(tuple),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.tuples(*[st.integers(0, 4000)] * 3), min_size=8, max_size=8),
    STEPS,
)
def test_no_node_is_above_its_resources(
    whole: tuple[int, ...], held: list[bool], requests: list[tuple[int, ...]], steps: list[tuple[str, str, Work, int]]
) -> None:
    size = len(whole)
    names, holds = ("cpu", "memory_gb", "gpu")[:size], tuple(held[:size])
    ledger = NodeLedger(replace(node(memory=64 << 30), resources=whole, resource_names=names, stopped_hold=holds))
    asked = {f"c{number}": request[:size] for number, request in enumerate(requests)}
    state: dict[str, str] = {}
    for step, name, work, _ in steps:
        was = state.get(name)
        with suppress(InsufficientResourcesError):
            if step == "take" and was is None:
                ledger.take(name, work, 0, asked[name])
                state[name] = "running"
            elif step == "stop" and was == "running":
                ledger.set_aside(name)
                ledger.stop(name)
                state[name] = "stopped"
            elif step == "resume" and was == "stopped":
                ledger.resume(name)
                state[name] = "running"
            elif step == "end" and was is not None:
                ledger.end(name)
                del state[name]
        ledger.validate()
        for index, most in enumerate(whole):
            parts = [asked[name][index] for name, what in state.items() if what == "running" or holds[index]]
            assert sum(parts) == ledger.charged[index] <= most


def test_a_refusal_says_what_is_lacking() -> None:
    names = ("cpu", "gpu")
    ledger = NodeLedger(replace(node(), resources=(8000, 2000), resource_names=names, stopped_hold=(False, True)))
    ledger.take("c1", Work.KEYS, 0, (6000, 2000))
    with pytest.raises(InsufficientResourcesError, match=r"n1 lacks 2\.5 cpu, 1 gpu of 4\.5 cpu, 1 gpu"):
        ledger.take("c2", Work.KEYS, 0, (4500, 1000))
    ledger.set_aside("c1")
    ledger.stop("c1")
    with pytest.raises(InsufficientResourcesError, match=r"n1 lacks 1 gpu of 4\.5 cpu, 1 gpu"):
        ledger.take("c2", Work.KEYS, 0, (4500, 1000))


def test_maps_and_reduces_have_slots_of_their_own() -> None:
    ledger = NodeLedger(replace(node(containers=3), slots=(2, 1)))
    ledger.take("m1", Work.SHUFFLE)
    ledger.take("m2", Work.SHUFFLE)
    with pytest.raises(InsufficientResourcesError, match=r"n1 lacks 1 map slot of 1 map slot"):
        ledger.take("m3", Work.SHUFFLE)
    ledger.take("r1", Work.KEYS)
    ledger.end("m1")
    with pytest.raises(InsufficientResourcesError, match=r"n1 lacks 1 reduce slot of 1 reduce slot"):
        ledger.take("r2", Work.KEYS)
    ledger.take("m3", Work.SHUFFLE)
