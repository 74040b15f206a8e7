"""``natjam replay``: what a run did is repeated by fresh machines, and anything else is found and named."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import zstandard
from msgspec.structs import replace
from pyarrow import parquet

from analysis.whole_run import run_experiment, salvage
from emulator.core.completions import Suspended
from emulator.core.effects import Suspend
from emulator.experiment.load import load_experiment
from emulator.records.journal import JournalWriter, Record, read_journal
from emulator.records.replay import JOURNAL_NAME
from tests.commands import invoked, run_natjam

FIG4 = Path(__file__).resolve().parents[2] / "workloads/catalog/natjam-fig4.yaml"


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    experiment = load_experiment(FIG4, ["engine=sim", "sim.journal=full", "scheduler.mechanism=suspend"])
    run_experiment(experiment, directory, lambda status: None)
    return directory


@pytest.fixture(scope="module")
def run_of_messages(run_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, its journal without effects."""
    directory = tmp_path_factory.mktemp("messages")
    run_experiment(load_experiment(FIG4, ["engine=sim", "scheduler.mechanism=suspend"]), directory, lambda status: None)
    return directory


def rewritten(run_directory: Path, into: Path, change: dict[int, Record]) -> Path:
    """A copy of a run directory with some records of its journal replaced."""
    shutil.copytree(run_directory, into)
    header, records = read_journal(run_directory / JOURNAL_NAME)
    with JournalWriter(into / JOURNAL_NAME, header) as journal:
        for number, record in enumerate(records):
            journal.write(change.get(number, record))
    return into


def records_of(run_directory: Path) -> list[Record]:
    return list(read_journal(run_directory / JOURNAL_NAME)[1])


@pytest.mark.parametrize("name", ["", JOURNAL_NAME])
def test_a_run_is_repeated(run_directory: Path, name: str) -> None:
    result = invoked("replay", run_directory / name)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{len(records_of(run_directory)):,} records of 10 machines replayed, every effect the same" in result.stdout


def test_all_repeats_are_replayed(tmp_path: Path) -> None:
    run_experiment(load_experiment(FIG4, ["engine=sim", "repeats=2"]), tmp_path, lambda status: None)
    result = run_natjam("replay", tmp_path)
    assert [f"repeat-{number}" in line for number, line in enumerate(result.stdout.splitlines(), 1)] == [True, True]


def test_the_first_effect_that_differs_is_named(run_directory: Path, tmp_path: Path) -> None:
    records = records_of(run_directory)
    at = [number for number, record in enumerate(records) if any(type(e) is Suspend for e in record.effects)]
    changes = {number: replace(records[number], effects=()) for number in at[3:5]}
    result = run_natjam("replay", rewritten(run_directory, tmp_path / "other", changes), status=1)
    assert f"record {at[3] + 1} ({records[at[3]].actor}, seq {records[at[3]].seq}," in result.stderr
    assert "expected none" in result.stderr
    assert "Suspend(" in result.stderr


def test_a_message_the_machine_does_not_take_is_a_difference(run_directory: Path, tmp_path: Path) -> None:
    records = records_of(run_directory)
    at = next(number for number, record in enumerate(records) if type(record.message) is Suspended)
    message = replace(records[at].message, container="container-999999")
    changed = rewritten(run_directory, tmp_path / "other", {at: replace(records[at], message=message)})
    result = invoked("replay", changed)
    assert (result.exit_code, "raised IllegalTransition" in result.stderr) == (1, True)


def test_bad_input_is_one_message_and_status_2(run_directory: Path, tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        result = run_natjam("replay", path, status=2)
        assert "Traceback" not in result.output
        return result.stderr

    assert "there is no such file or directory" in refused(tmp_path / "none")
    assert "has no journal.jsonl.zst" in refused(tmp_path)
    (tmp_path / "text").write_text("no journal")
    assert "the compressed data is broken" in refused(tmp_path / "text")
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.copy(run_directory / JOURNAL_NAME, alone)
    assert "experiment.yaml: there is no such file" in refused(alone)
    text = (run_directory / "experiment.yaml").read_text()
    (alone / "experiment.yaml").write_text(text.replace("mechanism: suspend", "mechanism: kill"))
    assert "was not made from" in refused(alone)
    (alone / "experiment.yaml").write_text(text)
    whole = (run_directory / JOURNAL_NAME).read_bytes()
    (alone / JOURNAL_NAME).write_bytes(whole[: len(whole) // 2])
    assert "the file is truncated" in refused(alone)
    lines = zstandard.ZstdDecompressor().decompressobj().decompress(whole).splitlines(keepends=True)
    (alone / JOURNAL_NAME).write_bytes(zstandard.compress(b"".join(lines[:100])))
    assert "line 101: the end mark is missing: the journal is truncated" in refused(alone)
    (alone / JOURNAL_NAME).write_bytes(zstandard.compress(b"".join([*lines[:100], *lines[101:]])))
    assert "were written" in refused(alone), "not that the next record differs"


def test_a_journal_of_messages_is_one_without_effects_and_replays(run_directory: Path, run_of_messages: Path) -> None:
    found, full = records_of(run_of_messages), records_of(run_directory)
    assert [(record.actor, record.message) for record in found] == [(record.actor, record.message) for record in full]
    assert {record.effects for record in found} == {()}
    result = invoked("replay", run_of_messages)
    assert (result.exit_code, result.stderr) == (0, "")
    assert f"{len(found):,} records of 10 machines replayed, every effect the same" in result.stdout
    sizes = [(directory / JOURNAL_NAME).stat().st_size for directory in (run_of_messages, run_directory)]
    assert sizes[0] < 0.8 * sizes[1]


def test_other_effects_than_those_of_a_journal_of_messages_are_found(
    run_directory: Path, run_of_messages: Path, tmp_path: Path
) -> None:
    shutil.copytree(run_of_messages, tmp_path / "other")
    header, _ = read_journal(run_of_messages / JOURNAL_NAME)
    with JournalWriter(tmp_path / "other" / JOURNAL_NAME, header) as journal:
        for record in records_of(run_directory):
            journal.write(replace(record, effects=()) if any(type(e) is Suspend for e in record.effects) else record)
    result = run_natjam("replay", tmp_path / "other", status=1)
    assert "other effects now than in the run; only a run with sim.journal: full can show which ones" in result.stderr


def test_verify_holds_tables_against_a_journal_of_messages(run_of_messages: Path) -> None:
    result = invoked("verify", run_of_messages)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "5 tables agree with the journal" in result.stdout


def test_tables_are_made_again_of_a_journal_of_messages(run_of_messages: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    for name in ("experiment.yaml", JOURNAL_NAME):
        shutil.copy(run_of_messages / name, again)
    salvage(again)
    for name in ("jobs", "tasks", "attempts", "operations", "decisions"):
        one, other = (parquet.read_table(path / f"{name}.parquet") for path in (run_of_messages, again))
        assert one.equals(other), name


def test_without_a_journal_there_is_nothing_to_replay(tmp_path: Path) -> None:
    run_experiment(load_experiment(FIG4, ["engine=sim", "sim.journal=off"]), tmp_path, lambda status: None)
    assert not (tmp_path / JOURNAL_NAME).exists()
    result = invoked("replay", tmp_path)
    assert (result.exit_code, "name the directory of a finished run with a journal" in result.stderr) == (2, True)
