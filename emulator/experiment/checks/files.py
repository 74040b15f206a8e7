"""What an experiment refers to: policies, profiles, traces, stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from emulator.core.mechanisms import TRAITS
from emulator.costs.calibration_file import AUTO, load_calibration
from emulator.costs.overheads import load_overheads
from emulator.costs.tiers import load_tier
from emulator.errors import ConfigError
from emulator.experiment.checks.scheduler import FLUID
from emulator.experiment.model import Choice
from emulator.experiment.policies import find_policy, policy_problems
from emulator.files.problems import Problem
from emulator.files.yaml_positions import Document
from emulator.files.yaml_values import Location
from emulator.policies import axes as policies
from emulator.policies.fit import OFFERED
from emulator.policies.policy import Axis, SchedulerAllocation, ShareAllocation
from emulator.storage.objects import is_object_url
from emulator.vocabulary import Mechanism

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


def check_files(document: Document, base_dir: Path) -> list[Problem]:
    """Problems with what the experiment refers to: policies, the overhead profile, the trace."""
    problems: list[Problem] = []
    for axis in policies.AXES.values():
        problems += _policy(axis, document, base_dir)
    problems += _refused(document, ("overheads",), lambda name: load_overheads(name, base_dir))
    if document.get(("calibration",)) != AUTO:
        problems += _refused(document, ("calibration",), lambda name: load_calibration(base_dir / name))
    problems += _refused(document, ("storage", "tier"), lambda name: load_tier(name, base_dir))
    problems += _images(document)
    problems += _object_store(document)
    problems += _fit(document, base_dir)
    trace = document.get(("workload", "trace", "path"))
    if isinstance(trace, str) and trace and not _is_there(trace):
        problems.append((("workload", "trace", "path"), f"there is no such file: {trace}"))
    return problems


def _fit(document: Document, base_dir: Path) -> Iterator[Problem]:
    """A fit beside an allocation, of natjam or the user's own, that chooses the nodes itself."""
    fit, allocation = document.get(("scheduler", "fit")), document.get(("scheduler", "allocation"))
    name = fit.get("name") if isinstance(fit, dict) else fit
    if name in (None, OFFERED.name) or not isinstance(allocation, dict):
        return
    written = {str(key): value for key, value in allocation.items() if key != "queues"}
    with suppress(ConfigError, ValidationError):  # another check says so
        known = find_policy(policies.ALLOCATION, Choice.model_validate(written), base_dir)
        if isinstance(known, ShareAllocation | SchedulerAllocation):
            message = f"{known.name} chooses the nodes itself; remove it, or name an allocation of queues"
            yield ("scheduler", "fit"), message


def _object_store(document: Document) -> Iterator[Problem]:
    url = document.get(("storage", "url"))
    if not isinstance(url, str) or not is_object_url(url):
        return
    for where, entry in _terms(document):
        if entry.get("tasks") is not None:
            yield (
                (*where, "tasks"),
                "programs leave directories, and an object store has none; set storage.url to a path",
            )
        if entry.get("checkpoint_period_s") is not None:
            what = "tasks save by themselves in files that all nodes see at once"
            yield (*where, "checkpoint_period_s"), f"{what}, and an object store shows none; set storage.url to a path"


def _terms(document: Document) -> Iterator[tuple[Location, dict[Any, Any]]]:
    """The jobs and the queues, as they are written."""
    jobs, queues = document.get(("workload", "jobs")), document.get(("scheduler", "allocation", "queues"))
    entries: list[tuple[Location, Any]] = []
    if isinstance(jobs, tuple):
        entries += [(("workload", "jobs", index), job) for index, job in enumerate(jobs)]
    if isinstance(queues, dict):
        entries += [(("scheduler", "allocation", "queues", name), queue) for name, queue in queues.items()]
    for where, entry in entries:
        if isinstance(entry, dict):
            yield where, entry


def _refused(document: Document, location: Location, load: Callable[[str], object]) -> Iterator[Problem]:
    """The problems with what the name at ``location``, if there is one, refers to."""
    name = document.get(location)
    if isinstance(name, str) and name:
        try:
            load(name)
        except ConfigError as error:
            for line in error.message.splitlines():
                yield location, line


def _images(document: Document) -> Iterator[Problem]:
    for where, among in (_usual_mechanisms(document), *_own_mechanisms(document)):
        if not any(name in among for name in _IMAGES):
            continue
        if document.get(("engine",)) == FLUID:
            yield where, "the fluid engine makes no images; set engine to live or sim"
        elif document.get(("storage", "tier")) is None:
            yield where, "images need a storage device: set storage.tier (hdd, ssd, nvm, native, or your own numbers)"


def _usual_mechanisms(document: Document) -> tuple[Location, Sequence[Any]]:
    """What ``scheduler.mechanism`` may choose, as far as it is known."""
    where = ("scheduler", "mechanism")
    mechanism = document.get(where)
    options = mechanism if isinstance(mechanism, dict) else {"name": mechanism}
    name = options.get("name")
    known = policies.MECHANISM.by_name.get(name) if isinstance(name, str) else None
    if known is None:
        return where, ()
    among = [mechanism.value for mechanism in known.among]
    if known.options is not None:
        among = options.get("among", among)
    return where, among if isinstance(among, list | tuple) else ()


def _own_mechanisms(document: Document) -> Iterator[tuple[Location, Sequence[Any]]]:
    for where, entry in _terms(document):
        yield (*where, "mechanism"), [entry.get("mechanism")]


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


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # the name is too long, or has a NUL
        return False
