"""Every operation of those parts of ``natjam measure`` that need neither Ray nor a crowd, on real processes."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from emulator.live.janitor import find_run_processes
from emulator.live.memory.nodes import why_no_swap
from emulator.measure.files import measure_files
from emulator.measure.processes import measure_memory, measure_processes
from emulator.measure.samples import Samples, Surroundings

ROUNDS = 2
LAUNCHES = {"launch", "map_begin", "map_end", "input_fetch", "input_local", "commit", "commit_resumed", "kill"}
STOPS = {"suspend", "signal_stop", "resume", "signal_continue", "checkpoint"}
FILES = {"checkpoint_write", "checkpoint_read", "storage_write", "storage_read", "map_by_records", "map_by_bytes"}
MEMORY = {"memory_write", "memory_read"} | (set() if why_no_swap() else {"swap_out", "swap_in"})
FETCHES = {"fetch_by_records", "fetch_by_bytes", "fetch_by_requests"}

SINCE_FORK = {"map_begin", "input_fetch", "input_local"}
"""On a busy machine a process may have begun before its parent goes on from the fork: that counts as no time at all."""


@pytest.mark.parametrize(
    ("measure", "operations"),
    [(measure_processes, LAUNCHES | STOPS), (measure_files, FILES | FETCHES), (measure_memory, MEMORY)],
)
def test_each_operation_is_sampled_as_often_as_asked(
    tmp_path: Path, measure: Callable[[Surroundings], Samples], operations: set[str]
) -> None:
    shown: list[float] = []
    run_id = secrets.token_hex(4)
    samples = measure(Surroundings(run_id, tmp_path, ROUNDS, quick=True, progress=shown.append))
    assert {operation for operation, _ in samples.values} == operations
    assert {len(values) for values in samples.values.values()} == {ROUNDS}
    not_positive = {operation for (operation, _), values in samples.values.items() if min(values) <= 0}
    assert not_positive <= SINCE_FORK
    assert shown == sorted(shown)
    assert find_run_processes(run_id) == []
