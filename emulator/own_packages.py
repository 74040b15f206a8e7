"""natjam's own top-level packages, and files and folders of the user's that have their names."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

NAMES = ("analysis", "emulator", "natjam", "workloads")
_HOME = Path(__file__).resolve().parents[1]
PUBLIC = _HOME / "emulator" / "public"
"""Has the package ``natjam`` in a checkout; an installed wheel has it beside the others."""
_OURS = tuple(folder / name for folder in (_HOME, PUBLIC) for name in NAMES)


def of_the_same_name(folders: Sequence[str] | None = None, plain_folders: bool = True) -> str | None:
    """A sentence that names what Python finds before one of our packages; None if nothing is in the way.

    Args:
        folders: where to look; None: wherever Python does.
        plain_folders: whether folders without ``__init__.py`` count.  They are in the way only where our own packages
            are not on Python's path.
    """
    for name in NAMES:
        spec = PathFinder.find_spec(name, folders)
        if spec is not None and (spec.origin or plain_folders) and (found := _place(spec)) not in _OURS:
            return f"{found} has the name of natjam's own package '{name}', which cannot be used beside it: rename it"
    return None


def _place(spec: ModuleSpec) -> Path:
    """The file of a module, or the folder of a package."""
    if spec.submodule_search_locations is None:
        return Path(spec.origin or "").resolve()
    return Path(next(iter(spec.submodule_search_locations))).resolve()
