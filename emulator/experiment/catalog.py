"""The experiments that come with natjam: ``catalog:natjam-fig4`` in place of a file's path."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

from emulator.errors import ConfigError
from emulator.files.problems import suggestion
from emulator.vocabulary import Frozen

PREFIX = "catalog:"
_SENTENCE_END = re.compile(r"(?<!Fig)(?<!Figs)\.\s+(?=[A-Z])")


class Example(Frozen):
    """One experiment of the catalogue."""

    name: str
    path: Path
    summary: str
    """The first sentence of the comment at its head."""


def catalog_directory() -> Path:
    """The directory of the experiments."""
    return Path(str(resources.files("workloads") / "catalog"))


def examples() -> list[Example]:
    """All examples, ordered by name."""
    return [Example(name, path, _first_sentence(path.read_text(encoding="utf-8"))) for name, path in _paths().items()]


def located(path: str | Path, base_dir: Path = Path()) -> Path:
    """The file of ``catalog:NAME``; any other path is taken from ``base_dir``.

    Raises ConfigError if the catalogue has no experiment of that name.
    """
    text = str(path)
    if not text.startswith(PREFIX):
        return base_dir / path
    name = text.removeprefix(PREFIX).removesuffix(".yaml")
    found = _paths()
    if name not in found:
        raise ConfigError(f"{text}: there is no such experiment{suggestion(name, found)}; 'natjam examples' lists them")
    return found[name]


def _paths() -> dict[str, Path]:
    """Paths by name, in the order of names."""
    return {path.stem: path for path in sorted(catalog_directory().glob("*.yaml"))}


def _first_sentence(text: str) -> str:
    lines: list[str] = []
    for line in text.splitlines():
        words = line.removeprefix("#").strip()
        if not line.startswith("#") or not words:
            break
        lines.append(words)
    return _SENTENCE_END.split(" ".join(lines))[0].rstrip(".")
