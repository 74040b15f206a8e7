"""The progress page: what one process writes, another reads; slots do not touch each other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from emulator.live.tasks.progress_page import SLOT_BYTES, Progress, ProgressPage, WorkState


def test_a_forked_writer_is_read(tmp_path: Path) -> None:
    page = ProgressPage.create(tmp_path / "page", 3)
    assert (tmp_path / "page").stat().st_size == 3 * SLOT_BYTES
    pid = os.fork()
    if pid == 0:
        writer = page.writer(1)
        writer.start(keys_done=2, keys_total=10)
        writer.key_done(3, real_ns=2**63)
        writer.state(WorkState.STOPPED, real_ns=44)
        writer.stopped(55)
        writer.alive(66)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    reader = ProgressPage.open(tmp_path / "page", 3)
    expected = Progress(
        keys_done=3,
        keys_total=10,
        state=WorkState.STOPPED,
        state_since_real_ns=44,
        last_key_real_ns=2**63,
        stopped_real_ns=55,
        alive_real_ns=66,
    )
    empty = Progress(0, 0, WorkState.EMPTY, 0, 0, 0, 0)
    assert [reader.read(slot) for slot in range(3)] == [empty, expected, empty]
    assert [reader.keys_done(slot) for slot in range(3)] == [0, expected.keys_done, 0]
    page.clear(1)
    assert reader.read(1) == empty
    page.close()
    reader.close()


def test_neighbours_are_not_cleared(tmp_path: Path) -> None:
    page = ProgressPage.create(tmp_path / "page", 3)
    for slot in range(3):
        page.writer(slot).start(keys_done=slot, keys_total=9)
    page.clear(1)
    assert [page.read(slot).keys_total for slot in range(3)] == [9, 0, 9]
    page.close()


@pytest.mark.parametrize("slot", [-1, 2])
def test_slots_outside_are_refused(tmp_path: Path, slot: int) -> None:
    page = ProgressPage.create(tmp_path / "page", 2)
    for use in (page.read, page.writer, page.clear):
        with pytest.raises(IndexError, match=f"slot {slot} is outside a progress page of 2 slots"):
            use(slot)
    page.close()


@pytest.mark.parametrize(("size_bytes", "slots"), [(0, None), (63, None), (128, 1)])
def test_a_file_of_another_size_is_refused(tmp_path: Path, size_bytes: int, slots: int | None) -> None:
    path = tmp_path / "page"
    path.write_bytes(bytes(size_bytes))
    with pytest.raises(ValueError, match=f"page of {size_bytes} bytes"):
        ProgressPage.open(path, slots)


def test_a_page_is_made_once_and_not_empty(tmp_path: Path) -> None:
    ProgressPage.create(tmp_path / "page", 1).close()
    with pytest.raises(FileExistsError):
        ProgressPage.create(tmp_path / "page", 1)
    with pytest.raises(ValueError, match="at least one slot"):
        ProgressPage.create(tmp_path / "other", 0)
