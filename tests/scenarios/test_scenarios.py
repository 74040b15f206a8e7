"""Golden scenarios: each file here is a small cluster, a workload, faults, and the transcript of what must happen.

After a change that is meant to change a transcript, run ``NATJAM_REWRITE=1 pytest tests/scenarios`` and read the
difference.  Whatever ``must_say`` lists is checked apart, so that a rewritten transcript cannot lose the point.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))
from transcript import run_scenario

from emulator.core.application_master.task import AttemptEvent, TaskAttempt

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.txt"))
RULE = "----\n"


def _read(path: Path) -> tuple[str, dict[str, Any], str]:
    setup, _, transcript = path.read_text().partition(RULE)
    return setup, yaml.safe_load(setup), transcript


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    setup, scenario, expected = _read(path)
    transcript = "".join(f"{line}\n" for line in run_scenario(scenario))
    if os.environ.get("NATJAM_REWRITE"):
        path.write_text(setup + RULE + transcript)
        expected = transcript
    at = 0
    for text in scenario["must_say"]:
        found = transcript.find(text, at)
        assert found >= 0, f"not said, or not in this order: {text}\n{transcript}"
        at = found + len(text)
    for text in scenario.get("must_not_say", ()):
        assert text not in transcript
    assert transcript == expected


def test_every_arc_of_fig_2_has_a_scenario() -> None:
    """Failures are left out, as in the figure; a failed and a killed attempt have scenarios of their own."""
    said = "".join(path.read_text() for path in FILES)
    failure = {AttemptEvent.FAIL, AttemptEvent.KILL, AttemptEvent.RESUME_FAILED}
    arcs = [(source, arc.target) for (source, event), arc in TaskAttempt.arcs.items() if event not in failure]
    changes = [f"{old.value} -> {new.value}" for old, new in arcs if old is not new]
    missing = [change for change in changes if change not in said]
    assert missing == []
