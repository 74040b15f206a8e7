"""The run directory: refuses what it must not touch, leaves whole files or none, and tables with fixed schemas."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from emulator.core.completions import RealCost
from emulator.core.messages import JobState, Start
from emulator.errors import ConfigError, RunError
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.whole_files import write_json
from emulator.records.history import History, JobRow, Operation, TaskRow
from emulator.records.journal import JournalHeader, Record, read_journal
from emulator.records.parquet_tables import write_tables
from emulator.records.run_directory import RunDirectory, summary_digest
from emulator.vocabulary import REDUCE
from tests.histories import ATTEMPT, tiny

HEADER = JournalHeader("live", 1, 1.0, "00" * 32, {})

TASK = TaskRow("j", "research", REDUCE, 0, None, 2_000_000_000, 2, 1, 2, 0, 1_700_000_000, None, 6_400_000_000, 0)
JOB = JobRow(
    "j", "research", 0, 1_700_000_000, 9_250_000_000, None, JobState.SUCCEEDED, 1, 2, 0, 6_400_000_000, 125_000_000
)

OPERATION = Operation(
    "suspend",
    "container-000002",
    2_000_000_000,
    2_500_000_000,
    RealCost(mechanism_real_ns=3_000_000, key_real_ns=40_000_000),
)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return tiny(tmp_path)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[RunDirectory]:
    with RunDirectory.claimed(tmp_path / "runs" / "one") as claimed:
        yield claimed


def files(directory: RunDirectory) -> set[str]:
    return {path.name for path in directory.path.iterdir()}


# ---- creation ----


def claim(path: Path, name: str | None = None) -> None:
    with RunDirectory.claimed(path, name):
        assert path.is_dir()
        assert files(RunDirectory(path)) == set()
        (path / "of-this-one").touch()


def test_it_is_made_with_its_parents_or_taken_empty(tmp_path: Path) -> None:
    claim(tmp_path / "a" / "b")
    (tmp_path / "empty").mkdir()
    claim(tmp_path / "empty")


def test_what_is_made_and_left_empty_is_gone_and_what_the_user_made_stays(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    for name in ("ours", "theirs"):
        with RunDirectory.claimed(tmp_path / name):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_two_cannot_have_one(directory: RunDirectory) -> None:
    with pytest.raises(ConfigError, match="one: another natjam command is at work there"):
        claim(directory.path)
    assert directory.path.is_dir()


def test_what_a_stopped_run_of_the_same_experiment_has_left_is_replaced_and_nothing_else(
    tmp_path: Path, experiment: Experiment
) -> None:
    with RunDirectory.claimed(tmp_path / "run") as stopped:
        stopped.write_experiment(experiment)
        (stopped.path / "journal.jsonl.zst.unfinished").touch()
        (stopped.path / "output").mkdir()
        (stopped.path / "output/part").touch()
    for name, more in ((None, None), ("another", None), (experiment.name, "notes"), (experiment.name, "summary.json")):
        if more is not None:
            (stopped.path / more).touch()
        with pytest.raises(ConfigError, match="is not empty"):
            claim(stopped.path, name)
        if more is not None:
            (stopped.path / more).unlink()
    claim(stopped.path, experiment.name)
    assert files(stopped) == {"of-this-one"}


def test_one_that_holds_something_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(ConfigError, match="is not empty; results go to a new or an empty directory") as caught:
        claim(tmp_path)
    assert caught.value.message.startswith(str(tmp_path))
    assert (tmp_path / "mine").read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="file: is a file"):
        claim(tmp_path / "file")
    with pytest.raises(ConfigError, match=r"cannot be written \(Not a directory\)"):
        claim(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_one_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    for path in (tmp_path / "locked", tmp_path / "locked" / "below"):
        with pytest.raises(ConfigError, match=r"cannot be written \(Permission denied\)"):
            claim(path)


def test_a_file_system_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(ConfigError, match="/proc/natjam: cannot be written"):
        claim(Path("/proc/natjam"))


# ---- files ----


def test_the_experiment_reads_back(directory: RunDirectory, experiment: Experiment) -> None:
    directory.write_experiment(experiment)
    assert load_experiment(directory.path / "experiment.yaml") == experiment
    assert files(directory) == {"experiment.yaml"}


def test_the_hash_is_of_the_experiment_as_written(directory: RunDirectory, experiment: Experiment) -> None:
    written = directory.write_experiment(experiment)
    again = load_experiment(directory.path / "experiment.yaml")
    assert directory.write_experiment(again) == written
    assert directory.write_experiment(experiment.model_copy(update={"seed": 2})) != written


def test_the_journal_has_its_name_once_whole(directory: RunDirectory) -> None:
    record = Record(1, 0, "rm", Start(), ())
    with directory.journal(HEADER) as writer:
        writer.write(record)
        assert files(directory) == {"journal.jsonl.zst.unfinished"}
    assert files(directory) == {"journal.jsonl.zst"}
    header, records = read_journal(directory.journal_path)
    assert (header, list(records)) == (HEADER, [record])


def test_the_journal_of_a_failed_run_can_be_read_under_its_other_name(directory: RunDirectory) -> None:
    record = Record(1, 0, "rm", Start(), ())

    def fail() -> None:
        with directory.journal(HEADER) as writer:
            writer.write(record)
            raise ConnectionError

    with pytest.raises(ConnectionError):
        fail()
    assert files(directory) == {"journal.jsonl.zst.unfinished"}
    assert list(read_journal(directory.path / "journal.jsonl.zst.unfinished")[1]) == [record]


def test_the_summary_is_whole_or_not_there(directory: RunDirectory) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        directory.write_summary({"makespan_s": float("nan")})
    assert files(directory) == set()
    written = directory.write_summary({"makespan_s": 2.5, "output": None})
    assert json.loads((directory.path / "summary.json").read_text()) == written
    assert written == {"makespan_s": 2.5, "output": None, "sha256": summary_digest(written)}
    assert files(directory) == {"summary.json"}


def test_what_cannot_be_written_is_named(directory: RunDirectory, experiment: Experiment) -> None:
    directory.path.rmdir()
    with pytest.raises(RunError, match=r"experiment.yaml: cannot be written: No such file"):
        directory.write_experiment(experiment)
    with pytest.raises(RunError, match=r"jobs.parquet: cannot be written"):
        write_tables(directory.path, [History([], [], [], [], 0)], keep=False)
    with pytest.raises(RunError, match=r"claims.json: cannot be written"):
        write_json(directory.path / "claims.json", {})


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("elsewhere")], ids=["pipe", "link"])
def test_what_is_no_file_is_not_replaced_by_one(make: Callable[[Path], None], tmp_path: Path) -> None:
    """As ``--out /dev/null`` would, for root."""
    make(tmp_path / "out.json")
    with pytest.raises(RunError, match=r"out\.json: cannot be written: something is there that is not a file"):
        write_json(tmp_path / "out.json", {})
    assert not (tmp_path / "out.json").is_file()


def test_what_others_have_put_under_the_temporary_name_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("kept")
    (tmp_path / "out.json.unfinished").symlink_to("theirs")
    write_json(tmp_path / "out.json", {})
    assert (tmp_path / "theirs").read_text() == "kept"
    assert not (tmp_path / "out.json").is_symlink()


# ---- tables ----


def read(directory: RunDirectory, name: str) -> pyarrow.Table:
    return pyarrow.parquet.read_table(directory.path / f"{name}.parquet")


def test_schemas_do_not_depend_on_the_rows(directory: RunDirectory, tmp_path: Path) -> None:
    write_tables(directory.path, [History([JOB], [TASK], [ATTEMPT], [OPERATION], 0)], keep=False)
    empty = RunDirectory(tmp_path)
    write_tables(empty.path, [History([], [], [], [], 0)], keep=False)
    for name in ("jobs", "tasks", "attempts", "operations"):
        assert read(empty, name).num_rows == 0
        assert read(empty, name).schema == read(directory, name).schema
        for column in read(empty, name).schema:
            assert column.type != pyarrow.null()
            assert (column.type == pyarrow.float64()) == column.name.endswith(("_s", "_real_ms"))


def test_what_others_have_put_there_is_no_file_of_the_run(directory: RunDirectory) -> None:
    (directory.path / "mine.json").write_text("{}")
    (directory.path / "theirs.json").symlink_to("mine.json")
    (directory.path / "gone.json").symlink_to("nowhere")
    assert directory.digests().keys() == {"mine.json"}
