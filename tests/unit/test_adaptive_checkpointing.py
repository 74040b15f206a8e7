"""Algorithms 1 and 2 of adaptive-checkpointing, on its own numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.costs.overheads import load_tier
from emulator.policies.adaptive_checkpointing import image_overhead_ns, resume
from emulator.vocabulary import SECOND_NS, Tier

GIGABYTE = 10**9
HALF_MINUTE_NS = 30 * SECOND_NS
"""The low priority job of section 3.3.3 is preempted after this, its memory 5 GB."""


@pytest.mark.parametrize(("tier", "chosen"), [("hdd", "kill"), ("ssd", "kill"), ("nvm", "image")])
def test_the_paper_s_k_means_is_killed_on_slow_devices_and_saved_on_fast_ones(tier: str, chosen: str) -> None:
    device = load_tier(tier)
    overhead_ns = image_overhead_ns(device, 5 * GIGABYTE, 5 * GIGABYTE, 0)
    assert ("image" if overhead_ns < HALF_MINUTE_NS else "kill") == chosen


def test_the_overhead_is_dump_and_restore_and_the_queue() -> None:
    device = Tier("", write_bytes_s=100, read_bytes_s=200, latency_ns=1)
    assert image_overhead_ns(device, 600, 1000, 7) == 6 * SECOND_NS + 5 * SECOND_NS + 7 + 2


@given(*[st.integers(1, 10**12)] * 3, *[st.integers(0, 10**12)] * 2)
def test_an_image_is_moved_only_where_that_is_sooner(
    size_bytes: int, read_bytes_s: int, network_bytes_s: int, local_queue_ns: int, remote_queue_ns: int
) -> None:
    chosen = resume(size_bytes, read_bytes_s, network_bytes_s, local_queue_ns, remote_queue_ns)
    assert (chosen.where == "remote") == (chosen.remote_ns < chosen.local_ns)
    if local_queue_ns <= remote_queue_ns:
        assert chosen.where == "local", "moving it takes time"
