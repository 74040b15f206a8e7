"""Finds the runs at a path: a run directory, a directory of repeats, a campaign or one of its variants, or a directory
that contains some of these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from analysis.run_schema import check_summary, decode_json_object
from emulator.campaign.directory import RUNS_NAME, CampaignDirectory
from emulator.errors import ConfigError
from emulator.records.run_directory import SUMMARY_NAME
from emulator.vocabulary import Frozen

_DEPTH = 4
"""How many levels below a given directory runs are searched."""


class RunPath(Frozen):
    """One finished run."""

    run: str
    """The given directory's name, followed by the path below it."""
    repeat: int
    """From 1; in a campaign, the seed."""
    path: Path


def ended_without_results(paths: Sequence[Path]) -> list[Path]:
    """Those of ``paths``, and of the repeats in them, that have a journal but no summary."""
    candidates = [child for path in paths for child in (path, *sorted(path.glob("repeat-*")))]
    return [path for path in candidates if any(path.glob("journal*")) and not (path / SUMMARY_NAME).exists()]


def find_runs(paths: Sequence[str | Path]) -> list[RunPath]:
    """The finished runs at ``paths``, in this order, with repeats by number.

    Raises:
        ConfigError: a path has no finished run, or has a run that has not ended.
    """
    found: list[RunPath] = []
    for given in map(Path, paths):
        if not given.is_dir():
            raise ConfigError(f"{given}: there is no such directory; name the directory of a run")
        below = _runs_below(given, given.resolve().name, _DEPTH)
        if not below:
            raise ConfigError(f"{given}: {_why_none(given)}")
        found += below
    return _distinct(found)


def the_run(path: str | Path) -> RunPath:
    """The only finished run at ``path``.  Raises ConfigError: there are none, or several."""
    runs = find_runs([path])
    if len(runs) > 1:
        raise ConfigError(f"{path}: has {len(runs)} runs; name one of them, such as {runs[0].path}")
    return runs[0]


def read_summary(path: Path) -> dict[str, Any]:
    """The contents of ``summary.json`` of a run directory.  Raises ConfigError, also if it is not a run's summary."""
    file, data = _read(path)
    check_summary(file, data)
    return decode_json_object(file, data)


def read_repeats(path: Path) -> dict[str, Any] | None:
    """``summary.json`` of a directory of repeats; None if ``path`` is not one.  Raises ConfigError."""
    if not (path / SUMMARY_NAME).is_file():
        return None
    found = decode_json_object(*_read(path))
    return found if "repeats" in found else None


def _read(path: Path) -> tuple[Path, bytes]:
    file = path / SUMMARY_NAME
    try:
        return file, file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None


def _runs_below(path: Path, name: str, depth: int) -> list[RunPath]:
    if (path / SUMMARY_NAME).is_file() and read_repeats(path) is None:
        return [RunPath(name, 1, path)]
    if together := _numbered(path):
        return [RunPath(name, number, child) for number, child in together]
    if not depth:
        return []
    children = sorted(child for child in path.iterdir() if not child.name.startswith(".") and _is_directory(child))
    if path.name == RUNS_NAME:
        planned = _planned_variants(path.parent)
        children.sort(key=lambda child: planned.index(child.name) if child.name in planned else len(planned))
    runs_of = [(child, name if child.name == RUNS_NAME else f"{name}/{child.name}") for child in children]
    return [run for child, called in runs_of for run in _runs_below(child, called, depth - 1)]


def _planned_variants(campaign: Path) -> list[str]:
    """In the order of the campaign's file, so that the first is the same everywhere; empty if there is no plan."""
    with suppress(ConfigError):
        return list(dict.fromkeys(name.partition("/")[0] for name in CampaignDirectory(campaign).planned()))
    return []


def _is_directory(path: Path) -> bool:
    """Whether it is one; a link to where another user's run takes orders cannot be followed."""
    with suppress(PermissionError):
        return path.is_dir()
    return False


def _numbered(path: Path) -> list[tuple[int, Path]]:
    """Runs of one experiment: ``repeat-<k>`` of a run with repeats, ``seed-<n>`` of a campaign's variant."""
    found = [(number, child) for child in path.iterdir() if (number := _number(child)) is not None]
    return sorted((number, child) for number, child in found if (child / SUMMARY_NAME).is_file())


def _number(path: Path) -> int | None:
    word, _, digits = path.name.partition("-")
    return int(digits) if word in ("repeat", "seed") and digits.isdecimal() else None


def _why_none(path: Path) -> str:
    if any(path.glob("journal*")):
        return f"has no {SUMMARY_NAME}: the run has not ended, or was killed; 'natjam report' shows how far it got"
    return f"has no finished run (a directory with {SUMMARY_NAME}); name the directory of a run, or one above runs"


def _distinct(found: list[RunPath]) -> list[RunPath]:
    """The runs, renamed by their paths if names are equal."""
    times = Counter((run.run, run.repeat) for run in found)
    clashing = {name for (name, _), count in times.items() if count > 1}

    def path_of(run: RunPath) -> str:
        return str(run.path if _number(run.path) is None else run.path.parent)

    renamed = [replace(run, run=path_of(run)) if run.run in clashing else run for run in found]
    if len({(run.run, run.repeat) for run in renamed}) < len(renamed):
        raise ConfigError("the same run is named twice; name each once")
    return renamed
