"""What an experiment refers to: policies, profiles, traces, stores, programs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from emulator.core.job import PYTHON
from emulator.costs.calibration_file import AUTO, load_calibration
from emulator.costs.overheads import load_overheads, load_tier
from emulator.errors import ConfigError
from emulator.experiment.checks.scheduler import FLUID, with_terms
from emulator.experiment.model import Choice, Scheduler, Workload, located_jobs
from emulator.experiment.policies import find_policy, policy_problems
from emulator.files.problems import Problem
from emulator.files.yaml_positions import Document
from emulator.files.yaml_values import Location
from emulator.policies import axes as policies
from emulator.policies.fit import OFFERED
from emulator.policies.mechanism import TRAITS
from emulator.policies.policy import Axis, SchedulerAllocation, ShareAllocation
from emulator.storage.objects import is_object_url
from emulator.vocabulary import Mechanism
from workloads.schema import JobEntry

PATH_LOCATIONS: tuple[Location, ...] = (
    ("overheads",),
    ("calibration",),
    ("workload", "trace", "path"),
    ("storage", "url"),
    ("storage", "tier"),
    ("cluster", "availability", "file"),
    ("cluster", "availability", "forecast", "file"),
)
"""The fields that name files; relative paths start from the experiment file's directory."""
_IMAGES = tuple(mechanism.value for mechanism in Mechanism if TRAITS[mechanism].makes_image)
"""Mechanisms that write process images."""


def check_files(document: Document, base_dir: Path, engine: str) -> list[Problem]:
    """Problems with what the experiment refers to: policies, the overhead profile, the trace, programs."""
    problems = [*_programs(document, engine)]
    for axis in policies.AXES.values():
        problems += _policy(axis, document, base_dir)
    problems += _refused(document, ("overheads",), lambda name: load_overheads(name, base_dir))
    if document.get(("calibration",)) != AUTO:
        problems += _refused(document, ("calibration",), lambda name: load_calibration(base_dir / name))
    problems += _refused(document, ("storage", "tier"), lambda name: load_tier(name, base_dir))
    trace = document.get(("workload", "trace", "path"))
    if isinstance(trace, str) and trace and not _is_there(Path(trace).exists):
        problems.append((("workload", "trace", "path"), f"there is no such file: {trace}"))
    return problems


def reference_checks(
    scheduler: Scheduler, workload: Workload | None, document: Document
) -> Iterator[Iterator[Problem]]:
    """Problems of what queues, jobs and policies need of the storage and of each other, check by check."""
    yield _images(scheduler, workload, document)
    yield _checkpointed_programs(scheduler, workload)
    yield _object_store(scheduler, workload, document)
    yield _fit(scheduler, document.path.parent)


def _images(scheduler: Scheduler, workload: Workload | None, document: Document) -> Iterator[Problem]:
    found: list[tuple[Location, Any]] = [(("scheduler", "mechanism"), _among(scheduler))]
    found += [((*where, "mechanism"), (terms.mechanism,)) for where, terms in with_terms(scheduler, workload)]
    for where, names in found:
        if not isinstance(names, list | tuple) or not any(name in names for name in _IMAGES):
            continue
        if document.get(("engine",)) == FLUID:
            yield where, "the fluid engine makes no images; set engine to live or sim"
        elif document.get(("storage", "tier")) is None:
            yield where, "images need a storage device: set storage.tier (hdd, ssd, nvm, native, or your own numbers)"


def _among(scheduler: Scheduler) -> Any:
    """The names of the mechanisms that ``scheduler.mechanism`` chooses among, as far as they are known."""
    chosen = scheduler.choice("mechanism")
    known = policies.MECHANISM.by_name.get(chosen.name)
    if known is None:
        return ()
    usual = known.among if known.options is None else getattr(known.options(), "among", known.among)
    return chosen.options.get("among", [mechanism.value for mechanism in usual])


def _checkpointed_programs(scheduler: Scheduler, workload: Workload | None) -> Iterator[Problem]:
    """Programs under a mechanism that would save the number of keys done: they count none."""
    for where, job in located_jobs(workload):
        queue = scheduler.allocation.queues.get(job.queue)
        own = job.mechanism or (queue and queue.mechanism)
        among = (own,) if own else _among(scheduler)
        if job.tasks is not None and isinstance(among, list | tuple) and "checkpoint" in among:
            yield (
                (*where, "tasks"),
                "a program has no keys to save: under mechanism checkpoint it would run to its end, as under wait. Set"
                " mechanism, of the scheduler or of this job, to suspend, to kill (a program that saves by itself loses"
                " only the work since then: checkpoint_period_s), or to image (root, criu)",
            )


def _object_store(scheduler: Scheduler, workload: Workload | None, document: Document) -> Iterator[Problem]:
    url = document.get(("storage", "url"))
    if not isinstance(url, str) or not is_object_url(url):
        return
    for where, terms in with_terms(scheduler, workload):
        if isinstance(terms, JobEntry) and terms.tasks is not None:
            what = "programs leave directories, and an object store has none"
            yield (*where, "tasks"), f"{what}; set storage.url to a path"
        if terms.checkpoint_period_s is not None:
            what = "tasks save by themselves in files that all nodes see at once"
            yield (*where, "checkpoint_period_s"), f"{what}, and an object store shows none; set storage.url to a path"


def _fit(scheduler: Scheduler, base_dir: Path) -> Iterator[Problem]:
    """A fit beside an allocation, of natjam or the user's own, that chooses the nodes itself."""
    if scheduler.choice("fit").name == OFFERED.name:
        return
    with suppress(ConfigError):  # another check says so
        known = find_policy(policies.ALLOCATION, scheduler.choice("allocation"), base_dir)
        if isinstance(known, ShareAllocation | SchedulerAllocation):
            message = f"{known.name} chooses the nodes itself; remove it, or name an allocation of queues"
            yield ("scheduler", "fit"), message


def _refused(document: Document, location: Location, load: Callable[[str], object]) -> Iterator[Problem]:
    """The problems with what the name at ``location``, if there is one, refers to."""
    name = document.get(location)
    if isinstance(name, str) and name:
        try:
            load(name)
        except ConfigError as error:
            for line in error.message.splitlines():
                yield location, line


def _policy(axis: Axis[Any], document: Document, base_dir: Path) -> Iterator[Problem]:
    location: Location = ("scheduler", axis.name)
    value = document.get(location)
    if isinstance(value, str) and value and value != policies.AUTO:
        for _, what in policy_problems(axis, Choice(name=value), base_dir):
            yield location, what
    elif isinstance(value, dict):
        of_ours = ("queues",) if axis.name == "allocation" else ()
        default = {"name": "prefer-local"} if axis.name == "placement" else {}
        written = {**default, **{str(key): value[key] for key in value if key not in of_ours}}
        if isinstance(written.get("name"), str) and written["name"]:
            for where, what in policy_problems(axis, Choice.model_validate(written), base_dir):
                yield (*location, *where), what


def _is_there(look: Callable[[], bool]) -> bool:
    """What ``look`` finds of a path from outside, which may be none at all."""
    try:
        return look()
    except (OSError, ValueError):  # the name is too long, or has a NUL
        return False


def is_file(path: Path) -> bool:
    """Whether there is such a file."""
    return _is_there(path.is_file)


# ---- the files of programs ----

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


def _programs(document: Document, engine: str) -> Iterator[Problem]:
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
