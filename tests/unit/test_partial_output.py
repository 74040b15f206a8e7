"""Partial outputs: any cut gives the bytes of an uninterrupted run; commit survives a crash anywhere."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from full_disk import file_size_limit
from hypothesis import given
from hypothesis import strategies as st

from emulator.live.tasks import partial_output
from emulator.live.tasks.partial_output import OutputError, PartialOutput
from tests.examples import drawn

JOB = "research XL/1"
REDUCE_KEYS = (3, 9, 4)
TASK = 1
KEYS = [(b"%016x" % n, [b"value-%d" % n] * (1 + n % 3)) for n in range(REDUCE_KEYS[TASK])]


def write(directory: Path, container: str, begin: int, end: int, output_bytes: int | None = None) -> None:
    output = PartialOutput(str(directory), JOB, TASK, container, REDUCE_KEYS, output_bytes, begin)
    for key, values in KEYS[begin:end]:
        output.append(key, values)
    output.close()


def run(directory: Path, cuts: Sequence[int], output_bytes: int | None = None) -> bytes:
    bounds = [0, *cuts, len(KEYS)]
    containers = [f"container_{n}" for n in range(len(bounds) - 1)]
    for n, container in enumerate(containers):
        write(directory, container, bounds[n], bounds[n + 1], output_bytes)
    partial_output.commit(str(directory), JOB, TASK, containers, len(KEYS))
    return Path(partial_output.final_path(str(directory), JOB, TASK)).read_bytes()


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir())


@given(
    cuts=st.lists(st.integers(0, len(KEYS)), max_size=4).map(sorted),
    output_bytes=st.none() | st.integers(0, 20_000),
)
@drawn
def test_any_cut_gives_the_same_bytes(
    cuts: list[int], output_bytes: int | None, tmp_path_factory: pytest.TempPathFactory
):
    whole, cut = tmp_path_factory.mktemp("whole"), tmp_path_factory.mktemp("cut")
    assert run(cut, cuts, output_bytes) == run(whole, [], output_bytes)
    assert files(cut) == files(whole) == ["research%20XL%2F1/part-r-00001"]


def test_sync_puts_every_key_on_the_disk(tmp_path: Path):
    output = PartialOutput(str(tmp_path), JOB, TASK, "c", REDUCE_KEYS, None)
    for n, (key, values) in enumerate(KEYS, 1):
        output.append(key, values)
        assert output.sync() == os.stat(output.path).st_size
        assert Path(output.path).read_bytes().count(b"\n") == n == output.keys
    output.close()


def test_reopen_appends_where_it_ended(tmp_path: Path):
    output = PartialOutput(str(tmp_path), JOB, TASK, "c", REDUCE_KEYS, None)
    for n, (key, values) in enumerate(KEYS):
        output.append(key, values)
        output.close(durable=n % 2 == 0)
        with open(output.path, "ab") as other:
            other.write(b"something torn")
        output.reopen()
    output.close()
    partial_output.commit(str(tmp_path), JOB, TASK, ["c"], len(KEYS))
    assert Path(partial_output.final_path(str(tmp_path), JOB, TASK)).read_bytes() == run(tmp_path / "whole", [])


def test_reopen_notices_a_shortened_or_lost_file(tmp_path: Path):
    output = PartialOutput(str(tmp_path), JOB, TASK, "c", REDUCE_KEYS, None)
    output.append(*KEYS[0])
    output.close()
    os.truncate(output.path, 3)
    with pytest.raises(OutputError, match="was changed while the task was suspended"):
        output.reopen()
    output.close()
    os.unlink(output.path)
    with pytest.raises(OutputError, match="No such file"):
        output.reopen()


def test_stale_partials_of_crashed_attempts_are_dropped(tmp_path: Path):
    write(tmp_path, "crashed", 0, 7)
    write(tmp_path, "container_a", 0, 4)
    write(tmp_path, "crashed_too", 4, 6)
    write(tmp_path, "container_b", 4, 9)
    other = PartialOutput(str(tmp_path), JOB, 2, "other", REDUCE_KEYS, None)
    other.close()
    partial_output.commit(str(tmp_path), JOB, TASK, ["container_a", "container_b"], len(KEYS))
    assert files(tmp_path) == ["_partial/research%20XL%2F1/part-r-00002.other", "research%20XL%2F1/part-r-00001"]


def sealed(directory: Path, container: str, begin: int, end: int) -> Path:
    output = PartialOutput(str(directory), JOB, TASK, container, REDUCE_KEYS, None, begin)
    for key, values in KEYS[begin:end]:
        output.append(key, values)
    output.seal()
    return Path(output.path)


def test_a_sealed_output_that_goes_on_has_no_seal_any_more(tmp_path: Path):
    output = PartialOutput(str(tmp_path), JOB, TASK, "c", REDUCE_KEYS, None)
    for key, values in KEYS:
        output.append(key, values)
        output.seal()
        assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["c"]) == [output.keys]
        output.reopen()
        assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["c"]) == []
    output.close()
    partial_output.commit(str(tmp_path), JOB, TASK, ["c"], len(KEYS))
    assert Path(partial_output.final_path(str(tmp_path), JOB, TASK)).read_bytes() == run(tmp_path / "whole", [])


def test_any_damage_to_a_sealed_output_is_found(tmp_path: Path):
    path = sealed(tmp_path, "a", 0, 2)
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            path.write_bytes(bytes([*whole[:place], whole[place] ^ 1 << bit, *whole[place + 1 :]]))
            assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["a"]) == []
        path.write_bytes(whole[:place])  # killed, or the disk was full, as it was written
        assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["a"]) == []


def test_the_sealed_output_of_another_task_or_attempt_does_not_pass_for_its_own(tmp_path: Path):
    """They have as many keys, and each has its own seal."""
    first, second = sealed(tmp_path, "a", 0, 4), sealed(tmp_path, "b", 4, 8)
    other = PartialOutput(str(tmp_path), JOB, TASK + 1, "c", REDUCE_KEYS, None)
    for key, values in KEYS[:4]:
        other.append(key, values)
    other.seal()
    write(tmp_path, "d", 8, 9)
    assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["a", "b"]) == [4, 4]
    contents = {path: path.read_bytes() for path in (first, second)}
    for swapped in (second, Path(other.path)):
        first.write_bytes(swapped.read_bytes())
        second.write_bytes(contents[first])
        assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["a", "b"]) == []
        with pytest.raises(OutputError, match=r"part-r-00001\.a does not match its seal: it was changed"):
            partial_output.commit(str(tmp_path), JOB, TASK, ["a", "b", "d"], len(KEYS))
        for path, content in contents.items():
            path.write_bytes(content)
    partial_output.commit(str(tmp_path), JOB, TASK, ["a", "b", "d"], len(KEYS))


def test_commit_refuses_keys_that_do_not_add_up(tmp_path: Path):
    write(tmp_path, "a", 0, 4)
    write(tmp_path, "b", 5, 9)
    before = files(tmp_path)
    with pytest.raises(OutputError, match=r"8 keys, expected 9 \(.*\.a: 4, .*\.b: 4\)"):
        partial_output.commit(str(tmp_path), JOB, TASK, ["a", "b"], len(KEYS))
    assert files(tmp_path) == before


def test_commit_refuses_a_torn_line_and_a_missing_partial(tmp_path: Path):
    write(tmp_path, "a", 0, 9)
    path = Path(partial_output.partial_path(partial_output.final_path(str(tmp_path), JOB, TASK), "a"))
    with pytest.raises(OutputError, match=r"\.b: No such file"):
        partial_output.commit(str(tmp_path), JOB, TASK, ["a", "b"], len(KEYS))
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(OutputError, match="last line is not complete"):
        partial_output.commit(str(tmp_path), JOB, TASK, ["a"], len(KEYS))


def in_child(action: Callable[[], object]) -> int:
    """Run a callable in a forked process; returns its wait status."""
    child = os.fork()
    if child == 0:
        try:
            action()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize("survived", range(8))
def test_commit_can_be_repeated_after_a_crash_at_any_step(tmp_path: Path, attempts: int, survived: int):
    """The child is killed by SIGKILL before its n-th change to the file system; the repeat must finish the work."""
    bounds = [0, 9] if attempts == 1 else [0, 4, 9]
    containers = [f"c{n}" for n in range(attempts)]
    for n, container in enumerate(containers):
        write(tmp_path, container, bounds[n], bounds[n + 1])
    write(tmp_path, "stale", 0, 2)

    def commit_until_killed() -> None:
        left = survived

        def audit(event: str, arguments: tuple[object, ...]) -> None:
            nonlocal left
            changes = event in ("os.rename", "os.remove", "os.mkdir") or (event == "open" and arguments[1] == "wb")
            if changes and str(tmp_path) in str(arguments[0]):
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                left -= 1

        sys.addaudithook(audit)
        partial_output.commit(str(tmp_path), JOB, TASK, containers, len(KEYS))

    in_child(commit_until_killed)
    size = partial_output.commit(str(tmp_path), JOB, TASK, containers, len(KEYS))
    assert files(tmp_path) == ["research%20XL%2F1/part-r-00001"]
    final = Path(partial_output.final_path(str(tmp_path), JOB, TASK))
    assert final.stat().st_size == size
    assert final.read_bytes() == run(tmp_path / "whole", [])
    assert partial_output.commit(str(tmp_path), JOB, TASK, containers, len(KEYS)) == size


def test_full_disk_is_said_and_loses_nothing(tmp_path: Path):
    output = PartialOutput(str(tmp_path), JOB, TASK, "c", REDUCE_KEYS, None)
    with file_size_limit(200):
        for key, values in KEYS:
            output.append(key, values)
        with pytest.raises(OutputError, match=rf"partial output .*part-r-00001\.c: {os.strerror(errno.EFBIG)}"):
            output.sync()
    output.close()
    partial_output.commit(str(tmp_path), JOB, TASK, ["c"], len(KEYS))
    assert Path(partial_output.final_path(str(tmp_path), JOB, TASK)).read_bytes() == run(tmp_path / "whole", [])


def test_full_disk_at_commit_keeps_the_partials(tmp_path: Path):
    write(tmp_path, "a", 0, 4)
    write(tmp_path, "b", 4, 9)
    before = files(tmp_path)
    with file_size_limit(300), pytest.raises(OutputError, match=os.strerror(errno.EFBIG)):
        partial_output.commit(str(tmp_path), JOB, TASK, ["a", "b"], len(KEYS))
    assert files(tmp_path) == before
    partial_output.commit(str(tmp_path), JOB, TASK, ["a", "b"], len(KEYS))


@pytest.mark.parametrize("container", ["", "../x", "a/b", ".hidden", "a\n", "x" * 200])
def test_unsafe_container_ids(tmp_path: Path, container: str):
    with pytest.raises(ValueError, match="cannot name a file"):
        PartialOutput(str(tmp_path), JOB, TASK, container, REDUCE_KEYS, None)


@pytest.mark.parametrize("ends_with", ["more keys", "nothing more", "a seal at its end"])
def test_a_task_that_saved_by_itself_leaves_what_was_done_then(tmp_path: Path, ends_with: str) -> None:
    """Whatever a killed task has written after its last save is left out, and the next attempt goes on from there."""
    first = PartialOutput(str(tmp_path), JOB, TASK, "container_0", REDUCE_KEYS, 4000)
    for number, (key, values) in enumerate(KEYS[:5]):
        first.append(key, values)
        if number in (1, 3):
            first.seal_beside()
    done = 5
    if ends_with == "a seal at its end":
        first.seal()
    elif ends_with == "more keys":
        first.close(durable=False)
        done = 4
    else:
        done = 4
    assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["container_0"]) == [done]
    write(tmp_path, "container_1", done, len(KEYS), 4000)
    partial_output.commit(str(tmp_path), JOB, TASK, ["container_0", "container_1"], len(KEYS))
    committed = Path(partial_output.final_path(str(tmp_path), JOB, TASK)).read_bytes()
    assert committed == run(tmp_path / "whole", [], 4000)
    assert not list((tmp_path / partial_output.PARTIAL_DIRECTORY).rglob("*.*"))


def test_a_seal_beside_a_file_that_was_changed_is_not_believed(tmp_path: Path) -> None:
    output = PartialOutput(str(tmp_path), JOB, TASK, "container_0", REDUCE_KEYS, None)
    output.append(*KEYS[0])
    output.seal_beside()
    output.close()
    damaged = bytearray(Path(output.path).read_bytes())
    damaged[3] ^= 1
    Path(output.path).write_bytes(damaged)
    assert partial_output.sound_partials(str(tmp_path), JOB, TASK, ["container_0"]) == []
