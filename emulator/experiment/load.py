"""Reading an experiment file.  Every problem of every part is reported, with its line and field."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from emulator.costs.calibration_file import is_file_spec
from emulator.errors import ConfigError
from emulator.experiment.catalog import located
from emulator.experiment.checks.cluster import cluster_checks
from emulator.experiment.checks.files import PATH_LOCATIONS, check_files, place_programs, reference_checks
from emulator.experiment.checks.scheduler import scheduler_checks
from emulator.experiment.checks.workload import workload_checks
from emulator.experiment.jobs_file import include_jobs
from emulator.experiment.model import Cluster, Experiment, Scheduler, Workload
from emulator.experiment.sites.include import include_site, move_details
from emulator.files.problems import MAX_PROBLEMS, Problem, describe, validation_problems
from emulator.files.yaml_positions import Document, read_document
from emulator.files.yaml_values import Location


def load_experiment(path: str | Path, overrides: Sequence[str] = (), overrides_dir: Path | None = None) -> Experiment:
    """Read and validate an experiment file.

    Args:
        path: the YAML file, or ``catalog:NAME``.  Relative paths inside it start from its directory.
        overrides: ``a.b=value`` each, the value in YAML.
        overrides_dir: where relative paths in overrides start from; None: the working directory.

    Raises:
        ConfigError: one line for each problem, naming file and line (or the override), field and remedy.
    """
    path = located(path)
    try:
        document = read_document(path)
    except ConfigError as error:
        if path.suffix in (".yaml", ".yml"):
            raise
        raise ConfigError(f"{error.message}; if it is a trace, give it to 'natjam advise'") from None
    if campaign_keys := _CAMPAIGN_KEYS & document.data.keys():
        key = min(campaign_keys)
        raise ConfigError(f"{path}: has '{key}' and so is a campaign: 'natjam campaign {path}' runs it")
    include_jobs(document)
    for text in overrides:
        document.override(text)
    include_site(document)
    move_details(document)
    _make_paths_absolute(document, overrides_dir or Path.cwd())
    place_programs(document)
    problems: list[Problem] = []
    experiment = None
    try:
        experiment = Experiment.model_validate(document.data)
    except ValidationError as error:
        problems += validation_problems(error, Experiment, document)
    cluster, scheduler, workload = (getattr(experiment, each, None) or _section(each, document) for each in _SECTIONS)
    engine = str(document.get(("engine",)) or "live")
    problems += _check(cluster, scheduler, workload, document, engine)
    problems += check_files(document, path.parent, engine)
    if problems or experiment is None:
        raise ConfigError(describe(problems, document))
    return experiment


def overridden(path: Path, overrides: Sequence[str]) -> dict[str, Any]:
    """The contents of an experiment file with overrides; relative paths in these start from the working directory.

    Raises ConfigError: see ``load_experiment``; the experiment is not checked.
    """
    document = read_document(path)
    for text in overrides:
        document.override(text)
    _make_paths_absolute(document, Path.cwd(), [each for each in PATH_LOCATIONS if document.is_overridden(each)])
    return document.data


_CAMPAIGN_KEYS = {"experiment", "grid", "variants", "seeds"}
_NAMES_OR_FILES = (("overheads",), ("calibration",), ("storage", "tier"))
_SECTIONS: dict[str, type[BaseModel]] = {"cluster": Cluster, "scheduler": Scheduler, "workload": Workload}


def _section(name: str, document: Document) -> Any:
    """One section, checked alone; None if it is not valid.  So a problem in one section does not hide others."""
    try:
        return _SECTIONS[name].model_validate(document.data.get(name))
    except ValidationError:
        return None


def _check(
    cluster: Cluster | None, scheduler: Scheduler | None, workload: Workload | None, document: Document, engine: str
) -> list[Problem]:
    """Problems between the parts; None is a part that was not valid by itself, and it is not checked."""
    found: list[Iterator[Problem]] = []
    if cluster is not None:
        found += cluster_checks(cluster, scheduler, workload, engine)
    if scheduler is not None:
        found += scheduler_checks(scheduler, workload, engine)
        found += reference_checks(scheduler, workload, document)
    if workload is not None:
        found += workload_checks(workload, scheduler, cluster, engine)
    return [problem for one in found for problem in islice(one, MAX_PROBLEMS + 1)]


def _make_paths_absolute(
    document: Document, overrides_dir: Path, locations: Sequence[Location] = PATH_LOCATIONS
) -> None:
    for location in locations:
        value = document.get(location)
        if not isinstance(value, str) or not value or "://" in value:
            continue
        if location in _NAMES_OR_FILES and not is_file_spec(value) and ".yaml:" not in value:
            continue
        base = overrides_dir if document.is_overridden(location) else document.path.parent
        document.replace(location, str((base / Path(value).expanduser()).absolute()))
