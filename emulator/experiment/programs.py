"""The files that an experiment's programs need: found beside its file, and checked before anything starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from emulator.core.job import PYTHON
from emulator.files.problems import Location, Problem
from emulator.files.yaml_positions import Document

HERE = "{here}"
"""In a job's ``tasks``, stands for the directory of the experiment file."""
_JOBS: Location = ("workload", "jobs")
_OUTSIDE: Location = ("scheduler", "allocation", "command")


def place_programs(document: Document) -> None:
    """Make the paths in every job's ``tasks`` absolute, and those in the command of an external allocation.

    ``{here}`` is replaced everywhere.  The program, and the first of its arguments that is no option (the script of an
    interpreter), are found beside the experiment file; so are ``directory`` and ``input``.
    """
    jobs, here = document.get(_JOBS), document.path.parent.absolute()
    if isinstance(jobs, tuple) and any(_tasks_of(job) for job in jobs):
        placed = [{**job, "tasks": _placed(tasks, here)} if (tasks := _tasks_of(job)) else job for job in jobs]
        document.replace(_JOBS, tuple(placed))
    command = document.get(_OUTSIDE)
    if isinstance(command, tuple):
        document.replace(_OUTSIDE, _placed({"command": command}, here)["command"])


def program_problems(document: Document, engine: str) -> Iterator[Problem]:
    """Programs and files that are not there, of an experiment that really starts them.

    Only a live run starts those of jobs.  Of an external allocation, only relative paths are looked at: a finished run
    has absolute ones, and what reads it, perhaps on another machine, starts nothing.
    """
    jobs, here = document.get(_JOBS), document.path.parent.absolute()
    for number, job in enumerate(jobs if isinstance(jobs, tuple) and engine == "live" else ()):
        yield from _missing(_tasks_of(job), (*_JOBS, number, "tasks"), here)
    command = document.get(_OUTSIDE)
    if isinstance(command, tuple) and command and (command[0] == PYTHON or _is_relative(command[0])):
        yield from _missing({"command": command}, _OUTSIDE[:-1], here)


def _tasks_of(job: Any) -> Mapping[str, Any]:
    tasks = job.get("tasks") if isinstance(job, dict) else None
    return tasks if isinstance(tasks, dict) else {}


def _placed(tasks: Mapping[str, Any], here: Path) -> dict[str, Any]:
    changed = {name: _with_here(value, here) for name, value in tasks.items()}
    command = changed.get("command")
    if isinstance(command, tuple):
        placed = list(command)
        for number in _own_files(command):
            beside = here / Path(placed[number]).expanduser()
            if is_file(beside):
                placed[number] = str(beside)
        changed["command"] = tuple(placed)
    for name in ("directory", "input"):
        if isinstance(value := changed.get(name), str) and value:
            changed[name] = str(here / Path(value).expanduser())
    return changed


def _with_here(value: Any, here: Path) -> Any:
    if isinstance(value, str):
        return value.replace(HERE, str(here))
    if isinstance(value, tuple):
        return tuple(_with_here(part, here) for part in value)
    return {name: _with_here(part, here) for name, part in value.items()} if isinstance(value, dict) else value


def _own_files(command: tuple[Any, ...]) -> Iterator[int]:
    """Numbers of the parts of a command that may name files of the user's: the program, and its script."""
    if command and isinstance(command[0], str) and command[0] != PYTHON:
        yield 0
    script = next((number for number, part in enumerate(command) if number and not _is_option(part)), None)
    if script is not None:
        yield script


def _is_option(part: object) -> bool:
    return not isinstance(part, str) or part.startswith("-")


def _is_relative(program: object) -> bool:
    return isinstance(program, str) and "/" in program and not os.path.isabs(program)


def is_file(path: Path) -> bool:
    """Whether there is such a file; a path from outside may be none at all."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # the name is too long, or has a NUL
        return False


def _missing(tasks: Mapping[str, Any], where: Location, here: Path) -> Iterator[Problem]:
    command, given = tasks.get("command"), tasks.get("environment")
    if isinstance(command, tuple) and command and all(isinstance(part, str) for part in command):
        program, script = command[0], command[1] if len(command) > 1 else "-"
        path = given.get("PATH") if isinstance(given, dict) and isinstance(given.get("PATH"), str) else None
        advice = "put it there, or name another"
        if program != PYTHON and ("\0" in program or shutil.which(program, path=path) is None):
            yield (*where, "command", 0), f"there is no program {program}, neither in {here} nor on the PATH; {advice}"
        if program == PYTHON and not _is_option(script) and not os.path.isabs(script):
            yield (*where, "command", 1), f"there is no file {script} in {here}, where relative paths start; {advice}"
    for name, is_there in (("directory", os.path.isdir), ("input", os.path.isfile)):
        value = tasks.get(name)
        if isinstance(value, str) and value and ("\0" in value or not is_there(value)):
            yield (*where, name), f"there is no such {'directory' if name == 'directory' else 'file'}: {value}"
