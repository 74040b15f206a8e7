"""Tasks that are programs of anybody: started in a directory of their own, whose content is what they leave.

Standard output and standard error go to the files ``stdout`` and ``stderr`` there.  A task is done when its program
ends with status 0; then its directory becomes ``part-c-<task>`` of the job, once, and those of other attempts are
removed.  A program that is killed and begins anew begins with an empty directory; one that goes on from an image finds
what was in its directory then.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from emulator.live import partial_output
from emulator.live.progress_page import WorkState
from emulator.live.task import CONTROL_SIGNALS, EXIT_IO_FAILED, SUSPEND, TaskProcess, failure_reason
from emulator.storage.local import sync_directory

PYTHON = "{python}"
"""Stands in a command for the interpreter that natjam runs under."""


def directory_of(output_dir: str, job: str, task: int, container: str) -> str:
    """Where the program of one attempt works."""
    return partial_output.partial_path(partial_output.final_path(output_dir, job, task, "c"), container)


def run(task: TaskProcess) -> int:
    """Become the program; returns only where that fails, with the reason reported."""
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
    task.slot.alive(0)  # it gives no signs of life from here on
    task.report("first_key", real_ns=time.monotonic_ns(), input_ready_real_ns=ready_real_ns, waited=False)
    try:
        _become(params, directory)
    except OSError as error:
        task.report("failed", reason=f"{params['command'][0]}: cannot be started: {error.strerror}")
    return EXIT_IO_FAILED


def _become(params: dict[str, Any], directory: Path) -> None:
    os.chdir(directory)
    for name, number in (("stdout", 1), ("stderr", 2)):
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        os.dup2(descriptor, number)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, CONTROL_SIGNALS)
    command = [sys.executable if part == PYTHON else part for part in params["command"]]
    names = {"NATJAM_JOB": params["job"], "NATJAM_TASK": str(params["task"])}
    os.execvpe(command[0], command, {**os.environ, **names})


def commit(params: dict[str, Any]) -> None:
    """Make what a program has left the job's.  Raises OSError; nothing is changed then."""
    final = partial_output.final_path(params["output_dir"], params["job"], params["task"], "c")
    os.makedirs(os.path.dirname(final), exist_ok=True)
    if os.path.exists(final):
        raise FileExistsError(None, "another attempt has been committed", final)
    os.rename(params["directory"], final)
    sync_directory(os.path.dirname(final))
    others = Path(params["directory"]).parent.glob(f"{os.path.basename(final)}.*")
    for other in others:
        shutil.rmtree(other, ignore_errors=True)
