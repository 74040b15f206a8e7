"""What an experiment reads besides its own file: its own policies, traces, profiles, calibrations and programs."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib.util
import sysconfig
from collections.abc import Iterator
from importlib.machinery import all_suffixes
from pathlib import Path
from typing import Any

from emulator.costs.calibration_file import chosen_path, default_path
from emulator.costs.overheads import NATIVE
from emulator.errors import ConfigError
from emulator.experiment.checks.files import is_file
from emulator.experiment.model import Experiment
from emulator.own_packages import NAMES
from emulator.policies.axes import AXES
from emulator.storage.tree_digest import file_digest


class Inputs:
    """Digests of what experiments read; each file is read once."""

    def __init__(self) -> None:
        self._digests: dict[Path, str] = {}
        self._beside: dict[Path, list[Path]] = {}
        """The files of the modules that each file imports, and of their packages."""

    def sha256(self, experiment: Experiment) -> str:
        """A digest, equal for equal contents.  Files that cannot be read are left out; the run will say so."""
        files = {*self._own_modules(experiment), *_named(experiment)}
        digests = (f"{file}\0{self._digest(file)}\n" for file in sorted(files))
        return hashlib.sha256("".join(digests).encode(errors="surrogateescape")).hexdigest()

    def _digest(self, file: Path) -> str:
        if file not in self._digests:
            self._digests[file] = ""
            with contextlib.suppress(OSError):
                self._digests[file] = file_digest(file)[0].hex()
        return self._digests[file]

    def _own_modules(self, experiment: Experiment) -> set[Path]:
        """The sources of an experiment's own policies, with what they import that is not installed, and so on.

        Files that cannot be found or read are left out.
        """
        names = {experiment.scheduler.choice(axis).name for axis in AXES}
        found: set[Path] = set()
        for module in sorted({name.partition(":")[0] for name in names if ":" in name}):
            first = _file_of(module)
            waiting = [first] if first is not None else []
            while waiting:
                file = waiting.pop()
                if file not in found:
                    found.add(file)
                    waiting += self._imported(file, module, _folder_of(first or file, module))
        return found

    def _imported(self, file: Path, module: str, folder: Path) -> list[Path]:
        if file not in self._beside:
            top = module.partition(".")[0]
            every = folder.resolve() not in _INSTALLED
            names = [(base or _root_of(name, folder), name) for base, name in _imports(file)]
            names.append((folder, module))  # its packages are imported with it
            wanted = [pair for pair in names if every or pair[0] != folder or pair[1].partition(".")[0] == top]
            self._beside[file] = [path for base, name in wanted for path in _files_on_the_way(base, name)]
        return self._beside[file]


def _named(experiment: Experiment) -> Iterator[Path]:
    """The files that it names, and this machine's calibration if it is used; their paths are absolute already."""
    programs = [job.model_dump() for job in experiment.workload.jobs or () if job.tasks or job.groups]
    for text in _texts([experiment.model_dump(exclude={"workload": {"jobs"}}), programs]):
        if text.startswith("/"):
            # Of a file with several storage tiers one is named: FILE:STORE.
            yield from (path for path in (Path(text), Path(text.rpartition(":")[0])) if is_file(path))
    if experiment.storage.tier == NATIVE:
        yield default_path()
    with contextlib.suppress(ConfigError):
        if experiment.engine != "live" and (path := chosen_path(experiment.overheads, experiment.calibration)):
            yield path


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


# ---- the source of own policies: the modules that an experiment names, and those that come with them ----

_INSTALLED = {Path(path).resolve() for name, path in sysconfig.get_paths().items() if name.endswith("lib")}
"""The folders of Python and of installed packages; an installed policy comes with its own package, not with others."""
_IMPORTERS = ("import_module", "__import__")
"""Functions that import the module that their first argument names."""


def _file_of(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin is not None and spec.has_location else None


def _root_of(name: str, folder: Path) -> Path:
    """Where an import by its whole name finds a module: in ``folder``, or elsewhere on Python's path."""
    top = name.partition(".")[0]
    if top in NAMES or (folder / top).is_dir() or any(_files_on_the_way(folder, top)):
        return folder
    file = _file_of(top)
    root = None if file is None else _folder_of(file, top)
    return folder if root is None or root.resolve() in _INSTALLED else root


def _folder_of(file: Path, module: str) -> Path:
    """The folder in which the search for a module began that was found in this file."""
    above = module.count(".") + (file.name == "__init__.py")
    return file.parents[above]


def _files_on_the_way(folder: Path, name: str) -> Iterator[Path]:
    """The files below a folder that ``import name`` reads."""
    place = folder
    for part in name.split("."):
        files = [*(place / f"{part}{suffix}" for suffix in all_suffixes()), place / part / "__init__.py"]
        yield from (path for path in files if path.is_file())
        place = place / part


def _imports(file: Path) -> Iterator[tuple[Path | None, str]]:
    """What a source imports, a name that may be a module's included; with the folder if the import is relative."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((None, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = file.parents[node.level - 1] if 0 < node.level <= len(file.parents) else None
            within = f"{node.module}." if node.module else ""
            yield from ((base, within + alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(_IMPORTERS):
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield file.parent if argument.value.startswith(".") else None, argument.value.lstrip(".")
