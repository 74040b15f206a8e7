"""Atomic writes: a file is written under a temporary name beside its own, and renamed at the end."""

from __future__ import annotations

import contextlib
import csv
import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import ConfigError, NatjamError, RunError

UNFINISHED_SUFFIX = ".unfinished"
NAME_ANOTHER = "; name another directory"
"""What to do about a directory that the user named."""


def unfinished_path(path: Path) -> Path:
    """The temporary name under which ``path`` is written."""
    return path.with_name(path.name + UNFINISHED_SUFFIX)


@contextlib.contextmanager
def writing(path: Path | str, wrong: type[NatjamError] = RunError, advice: str = "") -> Iterator[None]:
    """An OSError that is raised inside is raised as ``wrong``: what could not be written, and why."""
    try:
        yield
    except OSError as error:
        raise wrong(f"{path}: cannot be written: {error.strerror or error}{advice}") from None


@contextlib.contextmanager
def replaced_whole(path: Path) -> Iterator[Path]:
    """A temporary path that becomes ``path`` on success, and is removed on failure.

    Raises OSError if it cannot be written, or if something else than a file is there: a rename would put a file in the
    place of ``/dev/null``.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OSError(errno.EINVAL, "something is there that is not a file", str(path))
    unfinished = unfinished_path(path)
    unfinished.unlink(missing_ok=True)  # in a folder that others can write to, it may be their link
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """As ``replaced_whole``, but raises RunError, which names ``path``, if it cannot be written."""
    with writing(path), replaced_whole(path) as unfinished:
        yield unfinished


@contextlib.contextmanager
def held_directory(path: Path, taken: str) -> Iterator[None]:
    """Hold ``path`` against other processes that call this, until the end of the block or of this process.

    Raises:
        ConfigError: another process holds it, with the text ``taken``; or it cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name another directory") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{path}: {taken}") from None
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def claimed_directory(path: Path, kind: str = "", is_continued: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Create ``path`` where it is missing, and hold it for results (see ``held_directory``).

    A directory that is made here and that nothing was written to is removed at the end.

    Args:
        path: new, empty, or with earlier results that are to be continued.
        kind: what these results are of, such as "a campaign", for messages; empty: none are continued.
        is_continued: whether ``path``, which is not empty, has such results; asked while it is held.

    Raises:
        ConfigError: it holds something else, cannot be written, or another process uses it.
    """
    is_new = not path.exists()
    with _usable(path):
        path.mkdir(parents=True, exist_ok=True)
    with held_directory(path, f"another natjam command is at work there{NAME_ANOTHER}"):
        try:
            with _usable(path):
                if any(path.iterdir()) and not is_continued():
                    what = f"is neither empty nor a directory of {kind}" if kind else "is not empty"
                    raise ConfigError(f"{path}: {what}; results go to a new or an empty directory")
                unfinished_path(path / "probe").touch()
                unfinished_path(path / "probe").unlink()
            yield
        finally:
            if is_new:
                with contextlib.suppress(OSError):
                    path.rmdir()


@contextlib.contextmanager
def _usable(path: Path) -> Iterator[None]:
    """An OSError that is raised inside is raised as ConfigError: why ``path`` cannot be a directory of results."""
    try:
        yield
    except FileExistsError:
        raise ConfigError(f"{path}: is a file; results go to a new or an empty directory") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written ({error.strerror}){NAME_ANOTHER}") from None


def is_held(path: Path) -> bool:
    """Whether another process holds a directory (see ``held_directory``); False if there is none."""
    if not path.is_dir():
        return False
    try:
        with held_directory(path, ""):
            return False
    except ConfigError:
        return True


@contextlib.contextmanager
def new_held_directory(path: Path) -> Iterator[None]:
    """Make the directory ``path`` for this user alone and hold it (see ``held_directory``).

    Raises:
        OSError: it cannot be made, or exists.
        ConfigError: another process holds it already.
    """
    path.mkdir(mode=0o700)
    with held_directory(path, "is held by another process"):
        yield


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table as CSV, atomically.  Raises RunError if it cannot be written."""
    with written_whole(path) as unfinished, unfinished.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])


def write_json(path: Path, value: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Write a JSON file atomically; NaN and infinity are refused.  Raises RunError if it cannot be written."""
    text = json.dumps(value, allow_nan=False)  # with indent it would take ten times as long
    with written_whole(path) as unfinished:
        unfinished.write_text(msgspec.json.format(text, indent=2) + "\n")
