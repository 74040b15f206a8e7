"""``natjam doctor``, and what ``natjam probe`` refuses before it starts anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from emulator.live.program_members import group_parent
from tests.commands import invoked, run_natjam


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--", "nosuch"), "nosuch: there is no such program"),
        (("--store", "here", "--", "true"), "NAME=DIR"),
        (("--store", "a=.", "--store", "a=/tmp", "--", "true"), "two stores"),
        (("--store", "a=/nowhere", "--", "true"), "a=/nowhere: is no directory"),
        (("--after", "0", "--", "true"), "--after 0"),
    ],
)
def test_bad_input_to_a_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run_natjam("probe", *arguments, status=2)
    assert words in result.output
    assert not list(tmp_path.glob("runs/*"))


def test_the_doctor_says_what_is_missing_and_what_then_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATJAM_CRIU", str(tmp_path / "nothing"))
    result = run_natjam("doctor", "--json")
    findings = {finding["name"]: finding for finding in json.loads(result.stdout)}
    assert {"root", "criu", "cgroups", "programs", "swap", "Ray", "Chromium"} <= findings.keys()
    assert not findings["criu"]["works"]
    assert "No such file" in findings["criu"]["found"]
    assert "process images" in findings["criu"]["without"]
    assert findings["programs"]["works"] == (group_parent() is not None)
    assert all(bool(finding["without"]) != finding["works"] for finding in findings.values())
    assert "process images" in invoked("doctor").output
