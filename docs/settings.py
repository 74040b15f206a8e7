"""Writes docs/settings.md, what each setting of a site's files does to an answer: python docs/settings.py

It is made from the tables ``workloads/SYSTEM/settings.csv``.  A test compares the page with what this file makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from workloads.setting_effects import Effect, Setting, settings_of

PAGE = Path(__file__).with_name("settings.md")
_SYSTEMS = {"slurm": "Slurm", "yarn": "YARN", "kubernetes": "Kubernetes", "kueue": "Kueue"}
_HEAD = """\
# Settings of a site's files

What natjam's answers about an imported site rest on. Each setting of a scheduler's files

- is **modelled**: it decides, and it decides in natjam too;
- or it **decides and is not modelled**: who starts, where, or who is preempted may be otherwise at the site. `natjam
  import` says so first, and every answer about the site begins with it; `--strict` makes it an error. At some values,
  such as its default, it decides nothing, and is not mentioned;
- or it **decides nothing here**, for the reason that is named.

A setting that is in none of these lists is unknown to natjam, and counts as one that decides. This page is made from
the tables `workloads/*/settings.csv` by `python docs/settings.py`; tests hold them against the lists of keys of each
system's own documentation.
"""
_TITLES = {
    Effect.DECIDES: ("Decides, and is not modelled", ("setting", "but not at", "what is missing")),
    Effect.MODELLED: ("Modelled", ("setting", "how far")),
    Effect.NOTHING: ("Decides nothing here", ("setting", "why")),
}


def page() -> str:
    """The page, as Markdown."""
    return _HEAD + "\n".join(line for system, title in _SYSTEMS.items() for line in _system(system, title))


def _system(system: str, title: str) -> Iterator[str]:
    table = settings_of(system)
    yield f"\n## {title}\n"
    lists: dict[str, list[str]] = {}
    for name, source in table.sources.items():
        lists.setdefault(source, []).append(f"`{name}`")
    yield from (f"- {', '.join(names)}: {source}" for source, names in lists.items())
    for effect, (heading, columns) in _TITLES.items():
        rows = [each for each in table.settings if each.effect is effect]
        if rows:
            yield f"\n### {title}: {heading[0].lower()}{heading[1:]}\n"
            yield f"| of | {' | '.join(columns)} |"
            yield "|---" * (len(columns) + 1) + "|"
            yield from _rows(rows, effect is Effect.DECIDES)


def _rows(settings: Iterable[Setting], with_inert: bool) -> Iterator[str]:
    """One row for all settings of a list that have one reason."""
    groups: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    for each in settings:
        groups.setdefault((each.of, each.inert, each.reason), []).append(each.key)
    for (of, inert, reason), keys in groups.items():
        cells = [f"`{of}`", ", ".join(f"`{key}`" for key in keys)]
        if with_inert:
            cells.append(", ".join(f"`{value}`" if value else "nothing" for value in inert))
        cells.append(reason.replace("|", "\\|"))
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page())
