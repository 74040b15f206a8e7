"""What was checked of a run's output, and what was not, in words; from the ``output`` object of ``summary.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def what_was_checked(output: Mapping[str, Any]) -> str:
    """What the files of a correct output were compared with; empty: nothing was compared."""
    programs, compared, given = (output.get(name, 0) for name in ("programs", "programs_compared", "files_given"))
    from_seed = output.get("files_expected", 0) - programs - given
    said = []
    if output["keys_expected"]:
        said.append(f"{output['keys_written']:,} keys, byte for byte as in an undisturbed run")
    elif from_seed:
        said.append(f"{_count(from_seed, 'file')}, byte for byte as in an undisturbed run")
    if compared:
        said.append(f"what {_count(compared, 'program')} wrote, unchanged since the commit")
    if given:
        said.append(f"{_count(given, 'file')} of programs, as the experiment says")
    return "; ".join(said)


def what_was_not_checked(output: Mapping[str, Any]) -> str:
    """What nothing is known of; empty if everything was compared with what it should be."""
    programs, compared = output.get("programs", 0), output.get("programs_compared", 0)
    said = []
    if programs > compared:
        said.append(f"what {_count(programs - compared, 'program')} wrote: there is no digest of it")
    if compared:
        most = "other files" if output.get("files_given") else "files"
        said.append(f"whether the programs' {most} are right: no sha256 is given for them")
    if cancelled := output.get("files_cancelled", 0):
        said.append(f"{_count(cancelled, 'file')} that cancelled jobs had not committed")
    return "; ".join(said)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
