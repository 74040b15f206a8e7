"""Tasks that are any user's programs: each starts in a directory of its own, whose content is its output.

Standard output and standard error go to the files ``stdout`` and ``stderr`` there.  A task is done when its program
ends with status 0.  Then its directory becomes ``part-c-<task>`` of the job, once, and the directories of other
attempts are removed.  A program that is killed and starts again has an empty directory.  One that resumes from an image
finds the files that its directory had then.

A program that saves by itself (``checkpoint_period_s``) does so in a directory that all attempts at its task share, and
that ``NATJAM_SAVED`` names.  It is removed when one of them is committed.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from emulator.live.tasks import partial_output
from emulator.live.tasks.progress_page import WorkState
from emulator.live.tasks.task import BLOCKED_SIGNALS, EXIT_IO_FAILED, SUSPEND, TaskProcess, failure_reason
from emulator.parent import PR_SET_CHILD_SUBREAPER, libc
from emulator.storage.local import sync_directory
from emulator.storage.tree_digest import tree_digest

_LAST_BYTES, _LAST_LINES, _LAST_CHARACTERS = 4096, 3, 400


def directory_of(output_dir: str, job: str, task: int, container: str) -> str:
    """The working directory of one attempt's program."""
    return partial_output.partial_path(partial_output.final_path(output_dir, job, task, "c"), container)


def saves_in(output_dir: str, job: str, task: int) -> str:
    """The directory that all attempts at a task share, if its program saves by itself."""
    return partial_output.partial_path(partial_output.final_path(output_dir, job, task, "c"), "saved")


def run(task: TaskProcess) -> int:
    """Become the program; returns only if that fails, after reporting the reason."""
    params = task.params
    directory = Path(params["directory"])
    try:
        directory.mkdir(parents=True)
    except OSError as error:
        task.report("failed", reason=failure_reason(error))
        return EXIT_IO_FAILED
    task.report("settled")
    ready_real_ns = time.monotonic_ns()
    due_real_ns = task.clock.to_real_ns(params["first_key_at_ns"])
    while taken := task.wait(due_real_ns):
        if taken == SUSPEND:
            task.stop()
    task.slot.state(WorkState.EMPTY, 0)
    task.slot.alive(0)  # from here on it shows no signs of life
    task.report("first_key", real_ns=time.monotonic_ns(), input_ready_real_ns=ready_real_ns, waited=False)
    try:
        _prepare(params, directory)
        _become(params)
    except OSError as error:
        what = error.filename or params["command"][0]
        task.report("failed", reason=f"{what}: cannot be {'opened' if error.filename else 'started'}: {error.strerror}")
    return EXIT_IO_FAILED


def _prepare(params: dict[str, Any], directory: Path) -> None:
    """Open its standard streams, and go where it works.  Raises OSError with a file name."""
    if params["input"] is not None:
        os.dup2(os.open(params["input"], os.O_RDONLY | os.O_CLOEXEC), 0)
    for name, number in (("stdout", 1), ("stderr", 2)):
        descriptor = os.open(directory / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.dup2(descriptor, number)
    if params["saves_in"] is not None:
        os.makedirs(params["saves_in"], exist_ok=True)
    os.chdir(params["works_in"])


def _become(params: dict[str, Any]) -> None:
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # its orphans stay below it
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED_SIGNALS)
    command = params["command"]
    names = {"NATJAM_JOB": params["job"], "NATJAM_TASK": str(params["task"]), "NATJAM_OUTPUT": params["directory"]}
    if params["saves_in"] is not None:
        names["NATJAM_SAVED"] = params["saves_in"]
    try:
        os.execvpe(command[0], command, {**os.environ, **params["environment"], **names})
    except OSError as error:
        raise OSError(error.errno, error.strerror) from None  # the name may be one of many on the PATH


def last_words(params: dict[str, Any]) -> str:
    """The last lines that a program has written to its standard error; empty if there are none."""
    text = b""
    with suppress(OSError):
        descriptor = os.open(Path(params["directory"], "stderr"), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb", buffering=0) as file:
            text = os.pread(descriptor, _LAST_BYTES, max(0, os.fstat(file.fileno()).st_size - _LAST_BYTES))
    lines = text.decode(errors="replace").strip().splitlines()
    said = " | ".join(line.strip() for line in lines[-_LAST_LINES:])[-_LAST_CHARACTERS:]
    return "".join(character if character.isprintable() else "?" for character in said)


def commit(params: dict[str, Any]) -> str:
    """Make the directory of a program the job's output; returns its digest, or an empty text if it cannot be read.

    Nothing of the program may run any more.  If an earlier attempt was committed, but was killed with its supervisor
    before it could say so, its output stays, and this one's is dropped.  Raises OSError; then nothing is changed.
    """
    final = partial_output.final_path(params["output_dir"], params["job"], params["task"], "c")
    os.makedirs(os.path.dirname(final), exist_ok=True)
    is_committed = os.path.exists(final)
    digest = ""
    with suppress(OSError):
        digest = tree_digest(final if is_committed else params["directory"]).sha256
    if not is_committed:
        os.rename(params["directory"], final)
    sync_directory(os.path.dirname(final))
    others = Path(params["directory"]).parent.glob(f"{os.path.basename(final)}.*")
    for other in others:
        shutil.rmtree(other, ignore_errors=True)
    return digest
