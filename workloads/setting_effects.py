"""What each setting of another scheduler's files does to an answer, and what an import loses.

Each system has a table, ``workloads/SYSTEM/settings.csv``, made by hand from its documentation.  A setting in it is
*modelled*; or it *decides* who starts, where, or who is preempted, and is not modelled; or it decides *nothing* here.
Some of those that decide are inert at some values, such as their default.  What is in no table is unknown, and counts
as what decides.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from importlib.resources import files

from emulator.errors import printable
from emulator.sites.basis import Basis, Gap
from emulator.vocabulary import Frozen

_MAX_VALUE = 60
_COMMENT = "#"
_ANY = re.compile(r"<[^<>]*>")
"""A part of a key that stands for any name."""


class Effect(StrEnum):
    """What a setting does to the answer."""

    MODELLED = "modelled"
    """It decides, and so it does here."""
    DECIDES = "decides"
    """It decides who starts, where, or who is preempted, and is not modelled."""
    LEFT_OUT = "left out"
    """Of a job, pod or workload: it is not there.  No setting of a table has it."""
    NOTHING = "nothing"
    """It decides nothing here."""


class Setting(Frozen):
    """A row of a table."""

    of: str
    """The file or object that has the setting, such as ``slurm.conf`` or ``ClusterQueue``."""
    key: str
    """Its name, or its path in an object; a part in angle brackets stands for any name."""
    effect: Effect
    inert: tuple[str, ...] = ()
    """Values, in lower case, at which it decides nothing."""
    reason: str = ""
    """What is not modelled, or why it decides nothing."""


class Loss(Frozen):
    """Something that an import leaves behind, in the words of the file that it was found in."""

    what: str
    where: str
    """File and line."""
    why: str
    """What is not modelled, or why it was left out; losses are counted by it."""
    effect: Effect
    kind: str = "settings"
    """What is counted, in the plural."""
    has_it: str = ""
    """The one of them that has it, such as a pod's name, if not each loss is counted; it counts once for a reason."""
    work: float = 0.0
    """The work of what was left out, in seconds of CPUs or of containers, as far as it is known."""

    def __str__(self) -> str:
        return f"{self.what} ({self.where}): {self.why}"


class SettingsTable:
    """The settings of one system."""

    def __init__(self, settings: Iterable[Setting], sources: Mapping[str, str]) -> None:
        """
        Args:
            settings: the rows.
            sources: version and source of each list of settings, by its name.
        """
        self.settings = tuple(settings)
        self.sources = dict(sources)
        self._exact: dict[tuple[str, str], Setting] = {}
        self._patterns: dict[str, list[tuple[re.Pattern[str], Setting]]] = defaultdict(list)
        self._wholes: set[tuple[str, str]] = set()
        for each in self.settings:
            parts = each.key.lower().split(".")
            self._wholes.update((each.of, ".".join(parts[:number])) for number in range(len(parts)))
            if _ANY.search(each.key):
                literal = map(re.escape, _ANY.split(each.key.lower()))
                self._patterns[each.of].append((re.compile(".+".join(literal)), each))
            else:
                self._exact[each.of, each.key.lower()] = each

    def find(self, of: str, key: str) -> Setting | None:
        """The row of a setting, or of what it is in; None: the table has none.  Case does not matter."""
        key = key.lower()
        while key:
            found = self._exact.get((of, key))
            if found is None:
                found = next((each for pattern, each in self._patterns[of] if pattern.fullmatch(key)), None)
            if found is not None:
                return found
            key = key.rpartition(".")[0]
        return None

    def has_parts(self, of: str, key: str) -> bool:
        """Whether there are rows for parts of what has this path; of a whole object the path is empty."""
        return (of, key.lower()) in self._wholes

    def loses(self, setting: Setting | None, value: str) -> bool:
        """Whether something is lost where a setting has this value; None: one that the table does not have."""
        return setting is None or not (setting.effect is Effect.MODELLED or value.strip().lower() in setting.inert)

    def loss(
        self, of: str, key: str, value: str, where: str, *, what: str = "", kind: str = "settings", has_it: str = ""
    ) -> Loss | None:
        """What is lost where a setting has a value; None: it is modelled, or inert at this value.

        Args:
            of: the file or object that has it.
            key: its name or path.
            value: as the file has it; an object or a list is inert only where it is empty (``{}``, ``[]``).
            where: file and line.
            what: what has the setting, as a message shows it; else the key with its value.
            kind: what is counted, in the plural.
            has_it: the pod, queue or job that has the setting, if that is what is counted.
        """
        shown = what or printable(f"{key}={value}")[: len(key) + _MAX_VALUE]
        setting = self.find(of, key)
        if setting is None:
            why = f"natjam does not know this setting of {of}, which may decide"
            return Loss(shown, where, why, Effect.DECIDES, kind, has_it)
        if not self.loses(setting, value):
            return None
        return Loss(shown, where, setting.reason, setting.effect, kind, has_it)


@cache
def settings_of(system: str) -> SettingsTable:
    """The table of a system: ``kubernetes``, ``kueue``, ``slurm`` or ``yarn``."""
    text = files("workloads").joinpath(system, "settings.csv").read_text()
    lines = text.splitlines()
    sources = dict(_source(line) for line in lines if line.startswith(_COMMENT))
    rows = csv.DictReader(line for line in lines if not line.startswith(_COMMENT))
    return SettingsTable(map(_setting, rows), sources)


def _source(line: str) -> tuple[str, str]:
    name, _, source = line.removeprefix(_COMMENT).partition(":")
    return name.strip(), source.strip()


def _setting(row: Mapping[str, str]) -> Setting:
    inert = tuple(each.strip() for each in row["inert"].lower().split("|")) if row["inert"] else ()
    return Setting(row["list"], row["key"], Effect(row["effect"]), inert, row["reason"])


MAX_LISTED = 100
"""Losses of one reason that the head of an imported file lists."""


def listed(losses: Iterable[Loss]) -> Iterator[str]:
    """One line for each; of those with one reason only the first, and how many more have it."""
    seen: Counter[tuple[str, str]] = Counter()
    for each in losses:
        seen[each.why, each.kind] += 1
        if seen[each.why, each.kind] <= MAX_LISTED:
            yield str(each)
    for (why, kind), number in seen.items():
        if number > MAX_LISTED:
            yield f"and {number - MAX_LISTED:,} {kind} more: {why}"


def basis_of(losses: Iterable[Loss], totals: Mapping[str, int], work: float = 0.0) -> Basis:
    """What answers rest on after these losses.

    Args:
        losses: of an import.
        totals: how many the files have, by kind.
        work: the work of all jobs, those that were left out too, in the unit of ``Loss.work``; 0: not known.
    """
    by_effect: dict[Effect, list[Loss]] = defaultdict(list)
    for each in losses:
        by_effect[each.effect].append(each)
    decides, left_out = (tuple(_gaps(by_effect[effect], totals, work)) for effect in (Effect.DECIDES, Effect.LEFT_OUT))
    return Basis(decides, left_out, len(by_effect[Effect.NOTHING]))


def _gaps(losses: Iterable[Loss], totals: Mapping[str, int], work: float) -> Iterator[Gap]:
    """By reason, the most frequent first."""
    groups: dict[tuple[str, str], dict[str, Loss]] = defaultdict(dict)
    for each in losses:
        groups[each.why, each.kind].setdefault(each.has_it or f"{each.what} {each.where}", each)
    sizes = Counter({key: len(group) for key, group in groups.items()})
    for (why, kind), number in sizes.most_common():
        group = groups[why, kind].values()
        first = next(iter(group))
        lost = sum(each.work for each in group)
        share = lost / work if work and lost else None
        yield Gap(why, number, kind, f"{first.what} ({first.where})", totals.get(kind, 0), share)
