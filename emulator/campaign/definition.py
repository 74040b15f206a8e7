"""The campaign file: YAML to variants.

    name: eviction-policies
    experiment: natjam-fig4.yaml          # relative to this file; or catalog:natjam-fig4
    set: {engine: sim}                    # for every run
    grid:                                 # every combination
      scheduler.job_eviction: [mr, pr]
      scheduler.task_eviction: [srt, lrt, random]
    variants:                             # a list of variants, each run with the whole grid
      - {name: checkpoint}
      - {name: suspend, set: {scheduler.mechanism: suspend}}
      - {name: other, experiment: mine.yaml}
    seeds: 50                             # 1 to 50; or a list

``grid`` and ``variants`` may be left out.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from emulator.campaign.directory import Variant, names_given_twice
from emulator.errors import ConfigError
from emulator.experiment.catalog import located
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.problems import validated
from emulator.files.strict import Strict, written_as
from emulator.files.yaml_positions import Document, read_document
from emulator.files.yaml_values import Location, dotted

LARGEST_SEED_COUNT = 100_000
MAX_VARIANTS = 10_000
LONGEST_NAME = 200

Name = Annotated[
    str,
    written_as(
        r"^[A-Za-z0-9][A-Za-z0-9._=,+-]*$", "letters, digits and . _ = , + -, with a letter or a digit first", 100
    ),
]
Overrides = dict[Annotated[str, Field(min_length=1)], Any]
"""Values by the dotted keys of an experiment file."""


class VariantEntry(Strict):
    """One way to run the experiment, or another experiment."""

    name: Name
    experiment: Annotated[str, Field(min_length=1)] | None = None
    """A path relative to the campaign's file; None: the campaign's."""
    set: Overrides = Field(default_factory=dict)


class CampaignFile(Strict):
    """A campaign file; see the module's docstring."""

    name: Name
    experiment: Annotated[str, Field(min_length=1)] | None = None
    set: Overrides = Field(default_factory=dict)
    grid: dict[Annotated[str, Field(min_length=1)], Annotated[tuple[Any, ...], Field(min_length=1)]] = Field(
        default_factory=dict
    )
    variants: Annotated[tuple[VariantEntry, ...], Field(min_length=1)] | None = None
    seeds: (
        Annotated[int, Field(ge=1, le=LARGEST_SEED_COUNT)]
        | Annotated[tuple[Annotated[int, Field(ge=0, lt=2**63)], ...], Field(min_length=1)]
        | None
    ) = None
    """None: the seeds of each experiment's ``seed`` and ``repeats``."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign file, read."""

    name: str
    variants: tuple[Variant, ...]
    import_dirs: tuple[Path, ...]
    """Directories of the user's own policies: those of the experiment files."""


def load_campaign(path: Path, overrides: Sequence[str] = ()) -> Campaign:
    """Read a campaign file and every experiment in it.

    Args:
        path: the YAML file; relative paths inside it start from its directory.
        overrides: ``a.b=value`` each; they replace what the file says.

    Raises:
        ConfigError: one line for each problem; a problem of a variant's experiment names the variant.
    """
    document = read_document(path)
    if experiment_keys := {"cluster", "scheduler", "workload"} & document.data.keys():
        key = min(experiment_keys)
        raise ConfigError(f"{path}: has '{key}' and so is an experiment, not a campaign: 'natjam run {path}' runs it")
    file = validated(document, CampaignFile)
    entries = file.variants or (VariantEntry(name=file.name),)
    for entry in entries:
        if entry.experiment is None and file.experiment is None:
            raise ConfigError(
                f"{path}: variant '{entry.name}' has no experiment; add 'experiment: FILE' to the campaign"
            )
    points = list(_grid_points(file))
    if len(entries) * len(points) > MAX_VARIANTS:
        raise ConfigError(f"{path}: the grid and the variants make more than {MAX_VARIANTS} experiments")
    variants, import_dirs, problems = [], {}, VariantProblems(document)
    for number, entry in enumerate(entries):
        experiment_path = located(entry.experiment or file.experiment or "", path.parent)
        import_dirs[experiment_path.parent.absolute()] = None
        for label, point in points:
            name = ",".join(part for part in (entry.name if file.variants else "", label) if part) or file.name
            if len(name) > LONGEST_NAME:
                raise ConfigError(f"{path}: '{name}' is too long for a file name; list variants instead of the grid")
            settings = [*as_overrides({**file.set, **entry.set, **point}), *overrides]
            try:
                experiment = load_experiment(experiment_path, settings, path.parent)
            except ConfigError as error:
                problems.add(name, error.message, _settings(file, number, point))
                continue
            variants.append(Variant(name, experiment, _seeds(file, experiment), point))
    if problems.found:
        raise ConfigError("\n".join(problems.lines()))
    if twice := names_given_twice(variants):
        raise ConfigError(f"{path}: two variants are called '{twice[0]}'; rename one")
    return Campaign(file.name, tuple(variants), tuple(import_dirs))


def _settings(file: CampaignFile, number: int, point: dict[str, Any]) -> dict[str, Setting]:
    """The settings of a variant by the text of their overrides: where the campaign's file has each."""
    entry = file.variants[number] if file.variants else VariantEntry(name=file.name)
    places: dict[str, Location] = {key: ("set", key) for key in file.set}
    places |= {key: ("variants", number, "set", key) for key in entry.set}
    places |= {key: ("grid", key) for key in point}
    values = {**file.set, **entry.set, **point}
    return {text: Setting(places[key], key) for key, text in zip(values, as_overrides(values), strict=True)}


def as_overrides(settings: dict[str, Any]) -> list[str]:
    """Values by dotted key, as overrides for ``load_experiment``."""
    return [f"{key}={json.dumps(value)}" for key, value in settings.items()]


def _seeds(file: CampaignFile, experiment: Experiment) -> tuple[int, ...]:
    if file.seeds is None:
        return tuple(range(experiment.seed, experiment.seed + experiment.repeats))
    if isinstance(file.seeds, int):
        return tuple(range(1, file.seeds + 1))
    return tuple(dict.fromkeys(file.seeds))


def _grid_points(file: CampaignFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every combination of the grid's values, with a label; one empty combination without a grid."""
    last = [key.rpartition(".")[2] for key in file.grid]
    short = {key: part if last.count(part) == 1 else key for key, part in zip(file.grid, last, strict=True)}
    for combination in itertools.product(*(enumerate(values) for values in file.grid.values())):
        point = {key: value for key, (_, value) in zip(file.grid, combination, strict=True)}
        labels = (
            f"{short[key]}={_label(value, place)}" for key, (place, value) in zip(file.grid, combination, strict=True)
        )
        yield ",".join(labels), point


def _label(value: Any, place: int) -> str:
    """A value as part of a file name; for a list, a mapping or a long value, its place in the grid."""
    text = "null" if value is None else str(value)
    if isinstance(value, dict | tuple) or len(text) > 40:
        return str(place + 1)
    return re.sub(r"[^A-Za-z0-9._+-]", "_", text)


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a variant: where it is in the campaign's file, and its key in the experiment."""

    location: Location
    key: str


class VariantProblems:
    """Collects the problems of the variants of one campaign."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.found: dict[str, list[str]] = {}
        """By problem: the variants that have it."""
        self._by_setting: set[str] = set()

    def add(self, variant: str, message: str, settings: Mapping[str, Setting]) -> None:
        """Add the lines of a variant's ConfigError; ``settings`` by the text of the override that each was given as."""
        for line in message.splitlines():
            text = line
            for override, setting in settings.items():
                given = f"override {override}: "
                if line.startswith(given):
                    place = f"{self._document.origin(setting.location)}: {dotted(setting.location[:-1])}.{setting.key}"
                    what = line.removeprefix(given).removeprefix(f"{setting.key}: ")
                    text = f"{place}: {what}"
                    self._by_setting.add(text)
            self.found.setdefault(text, []).append(variant)

    def lines(self) -> Iterator[str]:
        """A line for each problem.  One whose place is not in the campaign's file names the variants that have it."""
        for text, variants in self.found.items():
            if text in self._by_setting:
                yield text
            else:
                more = f" and {len(variants) - 1:,} more" if len(variants) > 1 else ""
                yield f"{self._document.path}: variant '{variants[0]}'{more}: {text}"
