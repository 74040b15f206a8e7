"""A cluster with Kueue in a file of natjam's own: what ``natjam import kueue`` writes and ``natjam loops`` reads.

It is YAML with the keys ``name`` and ``kueue``.  Amounts are whole numbers: cpu in thousandths of a core, the others in
their unit; times are nanoseconds from the first arrival.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from emulator.errors import ConfigError, printable
from emulator.files.whole_files import written_whole
from emulator.files.yaml_positions import read_document
from emulator.files.yaml_values import dump_yaml
from workloads.importers.source import OnBytes, ignore
from workloads.kubernetes.reading import Unread
from workloads.kueue.state import Kueue, read_kueue, refuse_circles

VERSION = "0.19"
"""Of Kueue, whose decisions are meant."""
_HEAD_BYTES = 1 << 16


def read_any(paths: Sequence[Path], on_bytes: OnBytes = ignore) -> tuple[Kueue, list[Unread]]:
    """A file of natjam's own, or Kueue's objects in files and folders.  Raises ConfigError."""
    if len(paths) == 1 and paths[0].is_file() and _is_saved(paths[0]):
        return read_saved(paths[0]), []
    return read_kueue(paths, on_bytes)


def _is_saved(path: Path) -> bool:
    with path.open("rb") as file:
        return any(line.startswith(b"kueue:") for line in file.read(_HEAD_BYTES).splitlines())


def read_saved(path: Path) -> Kueue:
    """A file that ``write_saved`` wrote.  Raises ConfigError."""
    document = read_document(path)
    given = document.data.get("kueue")
    try:
        if not isinstance(given, dict) or given.get("version") != VERSION:
            raise ConfigError(f"{document.origin(('kueue', 'version'))}: kueue.version: must be '{VERSION}'")
        kueue = msgspec.convert({key: value for key, value in given.items() if key != "version"}, Kueue)
    except msgspec.ValidationError as error:
        what, _, at = str(error).partition(" - at `$.")
        location = _location(at.rstrip("`"))
        field = f"kueue.{at.rstrip('`')}: " if at else ""
        raise ConfigError(f"{document.origin(('kueue', *location))}: {printable(field + what)}") from None
    refuse_circles(kueue.cluster, {})
    _refuse_unknown(path, kueue)
    return kueue


def _location(at: str) -> tuple[str | int, ...]:
    parts = at.replace("[", ".").replace("]", "").split(".") if at else []
    return tuple(int(part) if part.isdigit() else part for part in parts if part)


def _refuse_unknown(path: Path, kueue: Kueue) -> None:
    names = {queue.name for queue in kueue.cluster.queues}
    for arrival in kueue.arrivals:
        if arrival.workload.queue not in names:
            name = printable(arrival.workload.name)
            raise ConfigError(f"{path}: kueue.arrivals: {name}: its queue is not one of kueue.cluster.queues")


def write_saved(path: Path, kueue: Kueue, head: Iterable[str]) -> None:
    """Write the file, with ``head`` as comments before it.  Raises RunError."""
    content: dict[str, Any] = {
        "name": path.stem,
        "kueue": {"version": VERSION, **msgspec.to_builtins(kueue)},
    }
    comments = "".join(f"# {printable(line)}\n" for line in head)
    with written_whole(path) as unfinished:
        unfinished.write_text(comments + dump_yaml(content))
