"""Which file has the measured costs of an experiment, and reading it (``emulator.costs.calibration``)."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.errors import ConfigError
from emulator.files.data_folder import data_folder
from emulator.files.problems import validated
from emulator.files.yaml_positions import Document, read_document

if TYPE_CHECKING:
    from emulator.costs.calibration import Calibration

FORMAT_KEY = "natjam_calibration"
AUTO = "auto"
"""The name of this machine's calibration."""


def default_path() -> Path:
    """The file that ``natjam measure`` writes this machine's calibration to, and in which simulations look for it."""
    return data_folder() / "calibration.yaml"


def is_file_spec(spec: str) -> bool:
    """Whether a specification of costs names a file, and not something that comes with natjam."""
    return "/" in spec or spec.endswith((".yaml", ".yml"))


def is_calibration(document: Document) -> bool:
    """Whether a document is meant as a calibration file."""
    return FORMAT_KEY in document.data


def load_calibration(path: Path) -> Calibration:
    """Read and check a calibration file.

    Raises:
        ConfigError: it cannot be read, or a number is missing or impossible; the error names file, line and field.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; run 'natjam measure' to make one") from None
    return _load(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _load(path: Path, changed_ns: int, size_bytes: int) -> Calibration:
    from emulator.costs.calibration import Calibration  # here, because few simulations need its models

    return validated(read_document(path), Calibration)


def chosen_path(overheads: str, calibration: str | None) -> Path | None:
    """The calibration file that a simulation uses; None if it uses only a published profile.

    Args:
        overheads: the experiment's ``overheads``, a path already absolute.
        calibration: the experiment's ``calibration``: None, ``auto`` (this machine's) or a path already absolute.

    Raises:
        ConfigError: the experiment needs this machine's calibration and there is none, or the file that ``overheads``
            names cannot be read.
    """
    if is_file_spec(overheads):
        path = Path(overheads)
        if is_calibration(read_document(path)):
            return path
    if calibration not in (None, AUTO):
        return Path(calibration)
    if overheads != "native" and calibration is None:
        return None
    path = default_path()
    if not path.exists():
        why = "overheads: native" if overheads == "native" else "calibration: auto"
        raise ConfigError(
            f"{why} in a simulation means the costs measured on this machine, and there is no {path}; run "
            "'natjam measure' first, name another calibration file, or choose a published profile"
        )
    return path
