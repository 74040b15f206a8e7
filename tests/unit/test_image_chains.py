"""Images of processes on their store: whole or not at all, only what has changed, a damaged one refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.storage.images import PAGE_BYTES, ImageChain, ImageDamaged
from tests.examples import drawn
from tests.full_disk import file_size_limit

Pages = list[int]
"""A process's memory: what its pages are filled with."""


def stage(folder: Path, memory: Pages, state: bytes = b"registers") -> Path:
    """A dumper's files of a process."""
    folder.mkdir()
    half = len(memory) // 2
    for name, pages in (("pages-1.img", memory[:half]), ("pages-2.img", memory[half:])):
        (folder / name).write_bytes(b"".join(page.to_bytes(4, "little") * (PAGE_BYTES // 4) for page in pages))
    (folder / "core.img").write_bytes(state)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_restores(chain: ImageChain, number: int, staged: Path, into: Path) -> None:
    into.mkdir()
    chain.load(number, into)
    assert contents(into) == contents(staged)


@drawn
@given(memories=st.lists(st.lists(st.integers(0, 30), max_size=12), min_size=1, max_size=12), at_most=st.integers(1, 4))
def test_the_two_newest_images_of_any_history_restore_what_was_saved(
    tmp_path_factory: pytest.TempPathFactory, memories: list[Pages], at_most: int
) -> None:
    folder = tmp_path_factory.mktemp("chain")
    chain = ImageChain(folder / "images", at_most)
    for turn, memory in enumerate(memories):
        staged = stage(folder / f"staged-{turn}", memory, b"state of %d" % turn)
        image = chain.save(staged, "criu", 100 + turn, {"keys_done": turn})
        assert image.memory_bytes == len(memory) * PAGE_BYTES
        assert len(image.needs) <= at_most
        assert chain.read(image.number) == image
        for back, number in enumerate(chain.numbers()[:2]):
            assert_restores(chain, number, folder / f"staged-{turn - back}", folder / f"loaded-{turn}-{back}")
    assert len(chain.numbers()) <= 2 * (at_most + 1)


def test_only_changed_pages_are_written(tmp_path: Path) -> None:
    chain = ImageChain(tmp_path / "images")
    memory = list(range(1, 101))
    first = chain.save(stage(tmp_path / "a", memory), "criu", 7)
    memory[40:50] = range(200, 210)
    second = chain.save(stage(tmp_path / "b", memory), "criu", 7)
    assert first.written_bytes > 100 * PAGE_BYTES
    assert 10 * PAGE_BYTES < second.written_bytes < 12 * PAGE_BYTES
    assert second.needs == (first.number,)
    assert (tmp_path / "images" / "2" / "pages").stat().st_size == 10 * PAGE_BYTES


def test_pages_moved_in_memory_are_not_written_again(tmp_path: Path) -> None:
    chain = ImageChain(tmp_path / "images")
    chain.save(stage(tmp_path / "a", list(range(50))), "criu", 7)
    moved = chain.save(stage(tmp_path / "b", list(reversed(range(50)))), "criu", 7)
    assert (tmp_path / "images" / "2" / "pages").stat().st_size == 0
    assert_restores(chain, moved.number, tmp_path / "b", tmp_path / "loaded")


@pytest.mark.parametrize("name", ["manifest.json", "state", "table", "pages"])
def test_any_flipped_byte_is_found_and_the_image_before_still_there(tmp_path: Path, name: str) -> None:
    chain = ImageChain(tmp_path / "images")
    chain.save(stage(tmp_path / "a", [1, 2, 3, 4]), "criu", 7)
    chain.save(stage(tmp_path / "b", [1, 2, 3, 5]), "criu", 7)
    path = tmp_path / "images" / "2" / name
    good = path.read_bytes()
    for place in {0, 1, len(good) // 2, len(good) - 1}:
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        into = tmp_path / f"into-{place}"
        into.mkdir()
        with pytest.raises(ImageDamaged, match="images/2"):
            chain.load(2, into)
    assert_restores(chain, 1, tmp_path / "a", tmp_path / "loaded")


@pytest.mark.parametrize("name", ["manifest.json", "state", "table", "pages"])
def test_a_missing_or_short_file_is_found(tmp_path: Path, name: str) -> None:
    chain = ImageChain(tmp_path / "images")
    chain.save(stage(tmp_path / "a", [1, 2, 3, 4]), "criu", 7)
    path = tmp_path / "images" / "1" / name
    os.truncate(path, path.stat().st_size // 2)
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(ImageDamaged):
        chain.load(1, into)
    path.unlink()
    with pytest.raises(ImageDamaged):
        chain.load(1, into)


@given(data=st.binary(max_size=300))
def test_no_bytes_in_a_manifest_raise_anything_else(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("chain")
    (folder / "1").mkdir()
    (folder / "1" / "manifest.json").write_bytes(data)
    with pytest.raises(ImageDamaged):
        ImageChain(folder).read(1)


def test_an_image_of_another_task_or_another_number_is_not_taken(tmp_path: Path) -> None:
    chains = [ImageChain(tmp_path / "job" / task) for task in ("tasks-00000", "tasks-00001")]
    for number, chain in enumerate(chains):
        chain.save(stage(tmp_path / f"staged-{number}", [number]), "fake", 1)
    chains[0].folder.rename(tmp_path / "job" / "between")
    chains[1].folder.rename(chains[0].folder)
    with pytest.raises(ImageDamaged, match="is image 1 of job/tasks-00001"):
        chains[0].load(1, tmp_path)
    (tmp_path / "job" / "between").rename(chains[1].folder)
    (chains[1].folder / "1").rename(chains[1].folder / "2")
    with pytest.raises(ImageDamaged, match="is image 1 of job/tasks-00000"):
        chains[1].read(2)


def test_a_full_disk_leaves_the_images_before_and_nothing_of_the_new_one(tmp_path: Path) -> None:
    chain = ImageChain(tmp_path / "images")
    chain.save(stage(tmp_path / "a", [1, 2, 3]), "criu", 7)
    large = stage(tmp_path / "b", list(range(100, 400)))
    with file_size_limit(50 * PAGE_BYTES), pytest.raises(OSError, match="File too large"):
        chain.save(large, "criu", 7)
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) == ["1"]
    assert_restores(chain, 1, tmp_path / "a", tmp_path / "loaded")
    assert chain.save(large, "criu", 7).number == 2


def test_what_a_killed_writer_left_is_no_image_and_goes_with_the_next(tmp_path: Path) -> None:
    chain = ImageChain(tmp_path / "images")
    left = tmp_path / "images" / ".1.4711.tmp"
    left.mkdir(parents=True)
    (left / "pages").write_bytes(b"half")
    assert chain.numbers() == []
    chain.save(stage(tmp_path / "a", [1]), "criu", 7)
    assert sorted(path.name for path in (tmp_path / "images").iterdir()) == ["1"]


def test_after_a_damaged_image_the_next_is_whole(tmp_path: Path) -> None:
    chain = ImageChain(tmp_path / "images")
    chain.save(stage(tmp_path / "a", [1, 2]), "criu", 7)
    (tmp_path / "images" / "1" / "table").write_bytes(b"")
    image = chain.save(stage(tmp_path / "b", [1, 2]), "criu", 7)
    assert image.needs == ()
    assert_restores(chain, 2, tmp_path / "b", tmp_path / "loaded")


def test_bytes_are_paced_as_they_are_written_and_read(tmp_path: Path) -> None:
    chain, moved = ImageChain(tmp_path / "images"), []
    image = chain.save(stage(tmp_path / "a", list(range(600))), "criu", 7, pace=moved.append)
    manifest_bytes = (tmp_path / "images" / "1" / "manifest.json").stat().st_size
    assert sum(moved) == image.written_bytes + manifest_bytes
    assert max(moved) <= 1 << 20
    moved.clear()
    into = tmp_path / "into"
    into.mkdir()
    chain.load(1, into, moved.append)
    assert sum(moved) == image.memory_bytes
