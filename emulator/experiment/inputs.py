"""What an experiment reads besides its own file: its own policies, traces, profiles, calibrations and programs."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emulator.costs.calibration_file import chosen_path, default_path
from emulator.costs.overheads import NATIVE
from emulator.errors import ConfigError
from emulator.experiment.model import Experiment
from emulator.experiment.own_modules import OwnModules
from emulator.experiment.programs import is_file
from emulator.storage.tree_digest import file_digest


class Inputs:
    """Digests of what experiments read; each file is read once."""

    def __init__(self) -> None:
        self._modules = OwnModules()
        self._digests: dict[Path, str] = {}

    def sha256(self, experiment: Experiment) -> str:
        """The same for the same contents.  Files that cannot be read are left out; the run will say so."""
        files = {*self._modules.files(experiment), *_named(experiment)}
        digests = (f"{file}\0{self._digest(file)}\n" for file in sorted(files))
        return hashlib.sha256("".join(digests).encode(errors="surrogateescape")).hexdigest()

    def _digest(self, file: Path) -> str:
        if file not in self._digests:
            self._digests[file] = ""
            with contextlib.suppress(OSError):
                self._digests[file] = file_digest(file)[0].hex()
        return self._digests[file]


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
