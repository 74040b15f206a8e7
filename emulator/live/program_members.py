"""Which processes belong to the attempt of a program: the program itself, and all that it has started.

Where a cgroup can be had, each attempt has one.  Nothing that a process does by itself (a session of its own, another
environment, a parent that has ended) takes it out of its group, and a frozen group starts no process.

Elsewhere the members are found by descent.  A program is the subreaper of what it starts: whatever loses its parent
becomes its child, so it stays below it as long as the program lives.  When the program has ended, what is left becomes
a child of the supervisor, which has no other children that it does not know.

Standard library only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import TypeAlias

from emulator.live import cgroups
from emulator.live.cgroups import PREFIX, Controller

_PROGRAMS = f"{PREFIX}programs-"
_STOPPED, _ENDED = frozenset("Tt"), frozenset("ZX")
_UNINTERRUPTIBLE = "D"
_SIGSTOP_BIT = 1 << signal.SIGSTOP - 1


class InGroup:
    """The processes of one attempt: the members of a cgroup."""

    def __init__(self, folder: Path) -> None:
        """Makes the group.  Raises OSError."""
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def pids(self) -> list[int]:
        """The processes that have not ended, stopped ones too."""
        return [pid for pid in cgroups.members(self._folder) if lives(pid)]

    def held(self) -> AbstractContextManager[None]:
        """Within the block they do nothing, if that can be had."""
        return cgroups.frozen(self._folder)

    def gone(self) -> bool:
        """Forget the attempt, of which ``pids`` has found none; False if that must be asked again."""
        with suppress(FileNotFoundError):
            try:
                self._folder.rmdir()
            except OSError:
                return False
        return True


class ByDescent:
    """A program that lives and all below it; or, when it has ended, what it has left to the supervisor."""

    def __init__(self, program: Callable[[], int | None], strangers: Callable[[list[int]], list[int] | None]) -> None:
        """
        Args:
            program: its process; None when that has ended.
            strangers: of the supervisor's children, those that it does not know; None if it cannot tell now.
        """
        self._program = program
        self._strangers = strangers

    def pids(self) -> list[int]:
        """See ``InGroup``."""
        children = _children()
        program = self._program()
        roots = self._strangers(children.get(os.getpid(), [])) or [] if program is None else [program]
        return [pid for root in roots for pid in (root, *_below(root, children)) if lives(pid)]

    def held(self) -> AbstractContextManager[None]:
        """See ``InGroup``."""
        return nullcontext()

    def gone(self) -> bool:
        """See ``InGroup``."""
        return self._strangers([]) is not None


Members: TypeAlias = InGroup | ByDescent


def _children() -> dict[int, list[int]]:
    """The children of every process."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal() and (fields := _stat(f"/proc/{name}/stat")):
            found.setdefault(int(fields[1]), []).append(int(name))
    return found


def _below(pid: int, children: dict[int, list[int]]) -> Iterator[int]:
    for child in children.get(pid, ()):
        yield child
        yield from _below(child, children)


def _states(pid: int) -> set[str]:
    """The states of a process's threads; empty if it is gone.  (Its first thread may have ended before the others.)"""
    with suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        return {fields[0] for thread in threads if (fields := _stat(f"/proc/{pid}/task/{thread}/stat"))}
    return set()


def _stat(path: str) -> list[str]:
    """State, parent and further fields; empty if the process is gone."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read().rpartition(b")")[2].decode().split()
    return []


def lives(pid: int) -> bool:
    """Whether a process has not ended."""
    return bool(_states(pid) - _ENDED)


def waits(pid: int) -> bool:
    """Whether a process waits in the kernel and cannot be stopped before that ends."""
    return _UNINTERRUPTIBLE in _states(pid)


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if it is gone."""
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[1]) if fields else None


def is_stopped(pid: int, told: bool) -> bool:
    """Whether a process does nothing until it is continued, or has ended.

    ``told``: it has been sent SIGSTOP, which it obeys before it leaves an uninterruptible wait.
    """
    still = _STOPPED | _ENDED | ({_UNINTERRUPTIBLE} if told else set())
    return _states(pid) <= still


def is_told_to_stop(pid: int) -> bool:
    """Whether SIGSTOP waits for a process.  One that has stopped already takes it only when it is continued."""
    with suppress(OSError, StopIteration, ValueError):
        lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
        return bool(int(next(line for line in lines if line.startswith("ShdPnd:")).split()[1], 16) & _SIGSTOP_BIT)
    return False


# ---- where groups can be made ----


@cache
def group_parent(memory_group: str | None = None) -> Path | None:
    """The directory in which this process may make cgroups for programs; None: nowhere.

    With version 2 a process is in one group only: of a program that is in a memory group, it is made in that one.
    """
    found = cgroups.unified()
    if found is not None and (usable := _usable(found.own_group())) is not None:
        within = Path(memory_group).parent if memory_group else None
        return within if within is not None and within.is_relative_to(found.folder) else usable
    found = cgroups.mounted("freezer")
    return None if found is None else _usable(found.own_group()) or _usable(found.folder)


def _usable(folder: Path) -> Path | None:
    """``folder``, if groups can be made in it and this process can move its children there."""
    try:
        probe = folder / f"{PREFIX}probe-{os.getpid()}"
        probe.mkdir()
    except OSError:
        return None
    try:
        can = any((probe / name).exists() for name in ("cgroup.freeze", "freezer.state"))
        return folder if can and os.access(folder / "cgroup.procs", os.W_OK) else None
    finally:
        probe.rmdir()


def group_name(mark: str, container: str) -> str:
    """The name of an attempt's group; ``mark`` consists of its run's id and its host's name."""
    return f"{_PROGRAMS}{mark}-{container}"


def remove_program_groups(mark: str) -> None:
    """Remove the groups of programs whose mark begins with ``mark``; what is still in them is killed."""
    for parent in _parents():
        for pattern in (f"{_PROGRAMS}{mark}-*", f"{PREFIX}{mark}-*/{_PROGRAMS}{mark}-*"):
            with suppress(OSError):
                cgroups.remove_groups(parent, pattern)


def _parents() -> set[Path]:
    found: list[Controller | None] = [cgroups.unified(), cgroups.mounted("freezer")]
    return {folder for at in found if at is not None for folder in (at.folder, at.own_group())}
