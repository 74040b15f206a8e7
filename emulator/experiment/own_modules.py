"""The source of a user's own policies: the modules that an experiment names, and those beside them that they import."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from emulator.experiment.model import Experiment
from emulator.policies import AXES


class OwnModules:
    """Digests of the modules that experiments name; each file is read once."""

    def __init__(self) -> None:
        self._imports: dict[Path, tuple[bytes, list[str]]] = {}
        """By file, its content and the modules that it imports."""

    def sha256(self, experiment: Experiment) -> str | None:
        """The digest of the sources of an experiment's own policies; None: it has none, or they cannot be found."""
        names = {experiment.scheduler.choice(axis).name for axis in AXES}
        modules = sorted({name.partition(":")[0] for name in names if ":" in name})
        files = sorted({file for module in modules for file in self._files(module)})
        if not files:
            return None
        digest = hashlib.sha256()
        for file in files:
            digest.update(file.name.encode() + b"\0" + hashlib.sha256(self._imports[file][0]).digest())
        return digest.hexdigest()

    def _files(self, module: str) -> set[Path]:
        """The file of a module, and of those in the same directory that it imports, and so on."""
        first = _file_of(module)
        found: set[Path] = set()
        waiting = [first] if first is not None else []
        while waiting:
            file = waiting.pop()
            if file in found:
                continue
            found.add(file)
            beside = (file.parent / f"{name.partition('.')[0]}.py" for name in self._read(file)[1])
            waiting += [path for path in beside if path.is_file()]
        return found

    def _read(self, file: Path) -> tuple[bytes, list[str]]:
        if file not in self._imports:
            source = file.read_bytes()
            self._imports[file] = source, list(_imported(source))
        return self._imports[file]


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None and spec.has_location else None


def _imported(source: bytes) -> Iterator[str]:
    """The names of the modules that a source imports."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from [node.module] if node.module else [alias.name for alias in node.names]
