"""Whether the runs that lie in a campaign's directory are those that it has made.

``digests.jsonl`` has the SHA-256 of each summary as it was made, and of what its experiment reads
(``emulator.experiment.inputs``); a summary has those of its run's other files.  The table of all runs has a line, too.
A run without a line there is not taken: the campaign was killed at that moment, or somebody else put the run there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.files.whole_files import writing
from emulator.records.run_directory import SUMMARY_NAME, has_sha256

DIGESTS_NAME = "digests.jsonl"


class KeptRuns:
    """The digests of one campaign."""

    def __init__(self, path: Path) -> None:
        """``path``: of the campaign."""
        self._digests = _read(path / DIGESTS_NAME)

    def of(self, name: str) -> str | None:
        """The SHA-256 of a run's summary, or of the table, as it was made; None: it is not known."""
        return self._digests[name][0] if name in self._digests else None

    def changed(self, name: str, directory: Path, summary: Mapping[str, Any], inputs_sha256: str) -> str | None:
        """What of a finished run is not as it was made; None: nothing."""
        if (kept := self._digests.get(name)) is None:
            return f"{DIGESTS_NAME} has no digest of it"
        if (replaced := self.replaced(name, directory)) is not None:
            return replaced
        if inputs_sha256 != kept[1]:
            return "a file that its experiment reads has changed, or was moved: a module, a trace, costs or a program"
        return _changed_file(directory, summary)

    def replaced(self, name: str, directory: Path) -> str | None:
        """What is wrong with the summary of a run; None: nothing, or it is not known how it was made."""
        kept = self._digests.get(name)
        if kept is None or has_sha256(directory / SUMMARY_NAME, kept[0]):
            return None
        return f"{SUMMARY_NAME} was changed or replaced"


def keep_digest(path: Path, name: str, summary_sha256: str, inputs_sha256: str) -> None:
    """Add the line of a run that was made to the file of the campaign at ``path``; in one write, as others add, too.

    Raises:
        RunError: it cannot be written.
    """
    file = path / DIGESTS_NAME
    with writing(file), file.open("a") as opened:
        opened.write(json.dumps([name, summary_sha256, inputs_sha256]) + "\n")


def _read(file: Path) -> Mapping[str, tuple[str, str]]:
    """Digests by run; lines that cannot be read, as the last one of a killed campaign, are left out."""
    found: dict[str, tuple[str, str]] = {}
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        try:
            name, summary_sha256, inputs_sha256 = json.loads(line)
            found[str(name)] = str(summary_sha256), str(inputs_sha256)
        except (ValueError, TypeError, RecursionError):
            continue
    return found


def _changed_file(directory: Path, summary: Mapping[str, Any]) -> str | None:
    files = summary.get("files")
    for name, sha256 in files.items() if isinstance(files, dict) else ():
        if not has_sha256(directory / Path(name).name, sha256):
            return f"{name} was changed or is missing"
    return None
