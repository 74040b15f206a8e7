"""What another user of this machine could reach."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


def reached_by_another_user(directory: Path) -> list[str]:
    """What below ``directory`` another user can see at all, knowing its name, without the entries of ``directory``."""
    directory.chmod(0o755)
    files = [str(path) for path in directory.glob("*/**/*")]
    assert files, "there is nothing to protect"
    command = ["stat", "--format=%A %n", *files]
    seen = subprocess.run(command, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True)
    assert seen.returncode in (0, 1), seen.stderr
    return seen.stdout.splitlines()


def as_another_user(call: Callable[[], object]) -> None:
    """Make a call as another user, in a process of its own; what it has to import must be imported."""

    def work() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        call()
        sys.exit(0)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == 0


@contextmanager
def process_with(*arguments: str, user: int = NOBODY) -> Iterator[subprocess.Popen[bytes]]:
    """A process, of another user if not told otherwise, with such arguments on its command line."""
    command = ["sh", "-c", "echo here; read line", "", *arguments, ""]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, user=user, group=user, extra_groups=[]) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process
        process.kill()
