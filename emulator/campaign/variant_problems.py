"""The problems of a campaign's variants, each said once, at the place in the campaign's file that has the fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from emulator.files.yaml_positions import Document
from emulator.files.yaml_values import Location, dotted


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
