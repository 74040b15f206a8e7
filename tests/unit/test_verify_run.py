"""``natjam verify``: a run that nobody touched is right, and every file that somebody did is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from emulator.records.run_directory import summary_digest
from tests.commands import invoked
from tests.simulated_runs import simulate


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("runs"), "run", "repeats=2", "scheduler.mechanism=suspend")


def verify(path: Path) -> tuple[int, str, list[str]]:
    done = invoked("verify", path)
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done.exit_code, done.stdout, done.stderr.splitlines()


def test_an_untouched_run_is_right(whole: Path) -> None:
    status, said, findings = verify(whole)
    assert (status, findings) == (0, [])
    right = (
        "records replayed, 5 tables agree with the journal, no output: simulated, the summary agrees, NOT made again, "
    )
    assert said.count(right) == 2
    assert said.count("lag, machines, real_s, versions, 9 files have their digests, the summary has its digest\n") == 2
    assert f"{whole}: verified: the summary agrees, the summary has its digest" in said


def halved(run: Path) -> None:
    """The second half of the journal is gone."""
    journal = run / "journal.jsonl.zst"
    lines = zstandard.ZstdDecompressor().decompressobj().decompress(journal.read_bytes()).splitlines(keepends=True)
    journal.write_bytes(zstandard.compress(b"".join(lines[: len(lines) // 2])))


def sooner(run: Path) -> None:
    """A job of the table has finished a second earlier."""
    file = run / "jobs.parquet"
    table = pyarrow.parquet.read_table(file)
    place = table.column_names.index("finish_s")
    times_s = [value - 1 for value in table.column(place).to_pylist()]
    pyarrow.parquet.write_table(table.set_column(place, "finish_s", pyarrow.array(times_s)), file)


def fewer(run: Path) -> None:
    """The last attempt is gone."""
    table = pyarrow.parquet.read_table(run / "attempts.parquet")
    pyarrow.parquet.write_table(table.slice(0, len(table) - 1), run / "attempts.parquet")


def quicker(run: Path) -> None:
    """The summary has another makespan, and kills."""
    summary = json.loads((run / "summary.json").read_text())
    summary["makespan_s"] -= 10
    summary["jobs"][0]["kills"] = 3
    (run / "summary.json").write_text(json.dumps(summary))


def relabelled(run: Path) -> None:
    """The rows of a table are the same, what describes them is not."""
    table = pyarrow.parquet.read_table(run / "tasks.parquet")
    pyarrow.parquet.write_table(table.replace_schema_metadata({"made by": "somebody"}), run / "tasks.parquet")


def redrawn(run: Path) -> None:
    """The pictures show something else."""
    for name in ("report.html", "timeline.perfetto.json"):
        (run / name).write_text((run / name).read_text().replace("research", "reserach"))


def linked(run: Path) -> None:
    """A picture is a link to the right one."""
    (run / "report.html").rename(run / "elsewhere")
    (run / "report.html").symlink_to("elsewhere")


def changed(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """The summary is another one."""

    def alter(run: Path) -> None:
        summary = json.loads((run / "summary.json").read_text())
        change(summary)
        (run / "summary.json").write_text(json.dumps(summary))

    return alter


def unjournalled(run: Path) -> None:
    """The experiment says that nothing was journaled, so that nothing could be compared."""
    text = (run / "experiment.yaml").read_text()
    assert "journal: messages" in text
    (run / "experiment.yaml").write_text(text.replace("journal: messages", "journal: off"))
    (run / "journal.jsonl.zst").unlink()


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (unjournalled, ["experiment.yaml: is not the file", "journal.jsonl.zst: is missing"]),
        (
            changed(lambda summary: summary["files"].pop("jobs.parquet")),
            ["summary.json: has no digest of jobs.parquet"],
        ),
        (changed(lambda summary: summary["files"].pop("report.html")), ["summary.json: is not as the run wrote it"]),
        (changed(lambda summary: summary["files"].clear()), ["summary.json: has no digest of "] * 7),
        (changed(lambda summary: summary.pop("files")), ["summary.json: is not as the run wrote it"]),
        (changed(lambda summary: summary["lag"].update(p99_real_ms=1.0)), ["summary.json: is not as the run wrote it"]),
        (changed(lambda summary: summary.update(claim=1)), ["summary.json: is not as the run wrote it"]),
        (changed(lambda summary: summary.pop("sha256")), ["summary.json: has no digest of itself"]),
        (changed(lambda summary: summary.update(state="failed")), ["summary.json: state is 'failed', but the tables"]),
        (
            changed(lambda summary: summary["jobs"][0].update(bonus=1)),
            ["summary.json: jobs.0 has a 'bonus' that no run writes"],
        ),
        (relabelled, ["tasks.parquet: is not the file that the run wrote"]),
        (redrawn, ["report.html: is not the file", "timeline.perfetto.json: is not the file"]),
        (lambda run: (run / "report.html").unlink(), ["report.html: is missing"]),
        (linked, ["report.html: is not the file that the run wrote"]),
        (halved, ["the end mark is missing: the journal is truncated"]),
        (sooner, ["jobs.parquet: row 1: finish_s is "]),
        (fewer, ["attempts.parquet: has "]),
        (quicker, ["summary.json: makespan_s is ", "summary.json: jobs.0.kills is 3, but the tables give 0"]),
        (lambda run: (run / "tasks.parquet").unlink(), ["tasks.parquet: is missing"]),
    ],
)
def test_what_was_altered_is_found(whole: Path, tmp_path: Path, alter: Callable[[Path], None], said: list[str]) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole / "repeat-1", run)
    alter(run)
    status, heads, findings = verify(run)
    assert status == 1
    assert f": {len(said)} finding{'s' if len(said) > 1 else ''}\n" in heads
    assert len(findings) == len(said)
    for finding, expected in zip(findings, said, strict=True):
        assert finding.startswith(f"natjam: {run}/")
        assert expected in finding


def test_repeats_that_were_changed_do_not_make_their_summary(whole: Path, tmp_path: Path) -> None:
    shutil.copytree(whole, tmp_path / "run")
    together = json.loads((tmp_path / "run/summary.json").read_text())
    together["metrics"]["makespan_s"]["mean"] -= 1
    (tmp_path / "run/summary.json").write_text(json.dumps(together))
    status, _, findings = verify(tmp_path / "run")
    assert (status, len(findings)) == (1, 1)
    assert "summary.json: metrics.makespan_s.mean is " in findings[0]


def test_a_file_beside_those_of_the_run_is_said(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(whole / "repeat-1", run)
    (run / "more.html").touch()
    status, said, findings = verify(run)
    assert (status, findings) == (0, [])
    assert "NOT checked: more.html: no digest in the summary" in said


def test_any_value_of_a_summary_that_was_changed_is_found_without_a_journal_too(tmp_path: Path) -> None:
    run = simulate(tmp_path, "run", "sim.journal=off")
    assert "there is no journal (sim.journal: off)" in verify(run)[1]
    whole = json.loads((run / "summary.json").read_text())
    own = whole["sha256"]
    for place, altered in altered_in_one_place(whole):
        assert summary_digest(altered) != own or place == ["sha256"], place
    for alter in (
        changed(lambda summary: summary["deadlines"].update(missed=7)),
        changed(lambda summary: summary["storage"].update(mean_bytes=1.5)),
        changed(lambda summary: summary["overheads"]["schedule_s"]["real_ms"]["key"].update(p50=0.5)),
    ):
        (run / "summary.json").write_text(json.dumps(whole))
        alter(run)
        status, _, findings = verify(run)
        assert (status, len(findings)) == (1, 1)
        assert f"{run}/summary.json: is not as the run wrote it" in findings[0]


def altered_in_one_place(whole: Any) -> Iterator[tuple[list[Any], Any]]:
    """The same JSON value with one thing removed, or one value replaced; and where."""
    entries = whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else ()
    for key, value in [*entries]:
        if isinstance(whole, dict):
            yield [key], {name: each for name, each in whole.items() if name != key}
        for place, altered in altered_in_one_place(value):
            copied = whole.copy()
            copied[key] = altered
            yield [key, *place], copied
    if not isinstance(whole, dict | list):
        yield [], not whole if isinstance(whole, bool) else 1.25


def test_of_a_fluid_run_all_but_its_machines_is_checked(tmp_path: Path) -> None:
    job = "{name: a, queue: research, maps: 0, reduces: 10, reduce_s: 10}"
    fair = "scheduler: {allocation: {name: fair, queues: {research: {capacity: 1}}}}"
    file = tmp_path / "shares.yaml"
    cluster = "cluster: {nodes: 1, containers_per_node: 4}"
    file.write_text(f"name: shares\nengine: fluid\n{cluster}\n{fair}\nworkload: {{jobs: [{job}]}}\n")
    run = simulate(tmp_path, "run", "engine=fluid", file=file)
    status, said, findings = verify(run)
    assert (status, findings) == (0, [])
    assert "a fluid run has no machines, 5 tables agree with the journal" in said
    sooner(run)
    assert verify(run)[0] == 1
    refused = invoked("replay", run)
    assert refused.exit_code == 2
    assert "is of a fluid run, which has no machines to replay" in refused.stderr
