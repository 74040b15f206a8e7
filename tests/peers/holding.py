"""What the programs that hold recorded answers against natjam share: they read records, and say what differs."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

Differs = Callable[[Mapping[str, Any]], str | None]
"""Holds one record against natjam: what differs, in words; None if nothing does."""


def records(path: str | Path) -> Iterator[dict[str, Any]]:
    """The records of a file: packed lines of JSON, or a list in JSON."""
    if str(path).endswith(".json"):
        yield from json.loads(Path(path).read_text())
        return
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def name_of(record: Mapping[str, Any]) -> str:
    """A record's name; a run of Slurm has its configuration and seed."""
    return record["name"] if "name" in record else f"{record['config']} {record['seed']}"


def hold(kinds: Mapping[str, Differs], usage: str, arguments: Sequence[str]) -> int:
    """Hold files of one of the ``kinds`` of records against natjam; ``arguments``: the kind, and the files.

    Prints what differs, and ``N of M equal`` last.  Returns the exit status: 0 if all are equal, 1 if any differs,
    2 for bad arguments.
    """
    if len(arguments) < 2 or arguments[0] not in kinds:
        print(usage, file=sys.stderr)
        return 2
    return hold_records((record for path in arguments[1:] for record in records(path)), kinds[arguments[0]])


def hold_records(found: Iterable[Mapping[str, Any]], differs: Differs) -> int:
    """Hold records against natjam; prints and returns as ``hold`` does."""
    equal = total = 0
    for record in found:
        total += 1
        if (difference := differs(record)) is None:
            equal += 1
        else:
            print(f"{name_of(record)}: {difference}")
    print(f"{equal} of {total} equal")
    return int(equal < total)
