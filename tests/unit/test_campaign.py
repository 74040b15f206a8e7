"""Campaigns: what they leave, and that they can be stopped at any instant, in any way."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.whole_run import run_experiment
from emulator.campaign.definition import load_campaign
from emulator.campaign.directory import CampaignDirectory, KeptRuns, PlannedRun, keep_digest, planned_runs
from emulator.campaign.runner import run_campaign
from emulator.display.work_display import WorkStatus
from emulator.errors import ConfigError
from emulator.experiment.inputs import Inputs
from emulator.experiment.load import load_experiment
from emulator.files.whole_files import is_held
from emulator.vocabulary import counted
from tests.campaigns import CAMPAIGN, NatjamProcess, table, write_campaign
from tests.commands import held_while_told, invoked, run_natjam
from tests.run_results import RunResults, job_of


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the small campaign, run from beginning to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    result = run_natjam("campaign", write_campaign(folder), "--out", folder / "out")
    assert "40 runs\n" in result.output
    (of_srt,) = (line for line in result.output.splitlines() if "│ srt" in line)
    assert [cell.strip() for cell in of_srt.split("│")][2] == "20"
    assert "not shown, only 0 or -: jobs failed" in result.output
    assert of_srt.count(" to ") == 3  # intervals of the makespan and of two queues
    assert "minus srt, seed by seed: mean difference (95% interval)" in result.output
    assert "3 intervals over the seeds (Student's), each of 95% by itself and not adjusted for" in result.output
    return folder / "out"


def test_an_unknown_baseline_is_refused_before_anything_runs(tmp_path: Path) -> None:
    result = run_natjam(
        "campaign", write_campaign(tmp_path), "--baseline", "first", "--out", tmp_path / "out", status=2
    )
    assert "--baseline first: there is no such variant; there are srt; " in result.output
    assert not (tmp_path / "out").exists()


def test_the_table_has_a_row_for_each_run_and_job(undisturbed: Path) -> None:
    rows = table(undisturbed).to_pylist()
    assert len(rows) == 2 * 20 * 2
    for row in rows[:: len(rows) // 7]:
        summary = RunResults(undisturbed / "runs" / row["run"]).summary
        job = job_of(summary, row["job"])
        assert row["run"] == f"{row['variant']}/seed-{summary['seed']}"
        assert (row["seed"], row["engine"], row["makespan_s"]) == (summary["seed"], "sim", summary["makespan_s"])
        same = ("queue", "submit_s", "finish_s", "completion_s", "state", "suspensions", "kills", "lost_work_s")
        assert {name: row[name] for name in same} == {name: job[name] for name in same}
        assert row["variant"] == f"task_eviction={row['scheduler.task_eviction']}"
        assert row["failure"] is None


def test_a_run_of_a_campaign_is_the_same_as_one_alone(undisturbed: Path, tmp_path: Path) -> None:
    campaign = write_campaign(tmp_path)
    options = ["engine=sim", "overheads=hadoop-0.23", "scheduler.task_eviction=lrt", "seed=7"]
    alone = run_experiment(
        load_experiment(campaign.with_name("experiment.yaml"), options), tmp_path / "o", lambda _: None
    )
    among_others = RunResults(undisturbed / "runs/task_eviction=lrt/seed-7").summary
    timing = ("real_s", "files", "sha256")
    assert {**alone, **dict.fromkeys(timing)} == {**among_others, **dict.fromkeys(timing)}


def test_a_second_call_makes_nothing_again(undisturbed: Path, tmp_path: Path) -> None:
    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in undisturbed.glob("runs/**/*")}

    before, rows = written(), table(undisturbed)
    result = run_natjam("campaign", write_campaign(tmp_path), "--out", undisturbed)
    assert "40 of them were made before" in result.output
    assert written() == before
    assert table(undisturbed).equals(rows)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_one_that_is_stopped_leaves_no_process_and_goes_on_where_it_was(
    number: signal.Signals, undisturbed: Path, tmp_path: Path
) -> None:
    campaign, out = write_campaign(tmp_path), tmp_path / "out"
    with NatjamProcess("campaign", campaign, "--out", out) as first:
        first.has_done(out, 5)
        assert not first.named_semaphores()
        first.process.send_signal(number)
        first.leaves_nothing()
        assert first.process.returncode == (130 if number is signal.SIGINT else -number)
        assert "Traceback" not in first.output()
    kept = [json.loads(line)[0] for line in (out / "digests.jsonl").read_text().splitlines()]
    complete = {path: path.stat().st_mtime_ns for name in kept for path in (out / "runs" / name).glob("summary.json")}
    assert 0 < len(complete) < 40
    assert not (out / "campaign.parquet").exists()
    again = run_natjam("campaign", campaign, "--out", out)
    assert f"40 runs; {len(complete)} of them were made before" in again.output
    assert {path: path.stat().st_mtime_ns for path in complete} == complete
    assert table(out).equals(table(undisturbed))


def test_a_run_that_was_begun_is_made_from_its_start(undisturbed: Path, tmp_path: Path) -> None:
    campaign, out = write_campaign(tmp_path, CAMPAIGN.replace("20", "2")), tmp_path / "out"
    run_natjam("campaign", campaign, "--out", out)
    rows, begun = table(out), out / "runs/task_eviction=srt/seed-2"
    (begun / "summary.json").write_text("{")
    (begun / "left-over").touch()
    assert "3 of them were made before" in invoked("campaign", campaign, "--out", out).output
    assert table(out).equals(rows)
    assert not (begun / "left-over").exists()


def another_variant(out: Path) -> None:
    """The run of another variant was copied over it."""
    shutil.rmtree(out / "runs/task_eviction=srt/seed-2")
    shutil.copytree(out / "runs/task_eviction=lrt/seed-2", out / "runs/task_eviction=srt/seed-2")


def quicker(out: Path) -> None:
    """Its summary has another makespan."""
    file = out / "runs/task_eviction=srt/seed-2/summary.json"
    summary = json.loads(file.read_text())
    file.write_text(json.dumps({**summary, "makespan_s": summary["makespan_s"] / 2}))


def silent(out: Path) -> None:
    """Its journal is empty."""
    (out / "runs/task_eviction=srt/seed-2/journal.jsonl.zst").write_bytes(b"")


def unknown(out: Path) -> None:
    """Its summary has another makespan, and nothing is known of what the run was."""
    quicker(out)
    lines = (out / "digests.jsonl").read_text().splitlines()
    kept = [line for line in lines if '"task_eviction=srt/seed-2"' not in line]
    (out / "digests.jsonl").write_text("\n".join(kept) + "\n")


def linked(out: Path) -> None:
    """Its summary is a link to the right one."""
    file = out / "runs/task_eviction=srt/seed-2/summary.json"
    file.rename(out / "elsewhere.json")
    file.symlink_to(out / "elsewhere.json")


@pytest.mark.parametrize(
    ("alter", "why"),
    [
        (linked, "summary.json was changed or replaced"),
        (another_variant, "summary.json was changed or replaced"),
        (quicker, "summary.json was changed or replaced"),
        (silent, "journal.jsonl.zst was changed or is missing"),
        (unknown, "digests.jsonl has no digest of it"),
    ],
)
def test_a_run_that_is_not_as_it_was_made_is_set_aside_and_made_anew(
    alter: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    campaign, out = write_campaign(tmp_path, CAMPAIGN.replace("20", "2")), tmp_path / "out"
    run_natjam("campaign", campaign, "--out", out)
    rows = table(out)
    alter(out)
    altered = (out / "runs/task_eviction=srt/seed-2/summary.json").read_bytes()
    again = run_natjam("campaign", campaign, "--out", out)
    place = out / ".set-aside/task_eviction=srt/seed-2-1"
    assert f"set aside: task_eviction=srt/seed-2: {why}; it is now in {place}, and is made anew" in again.output
    assert "4 runs; 3 of them were made before" in again.output
    assert table(out).equals(rows)
    assert (place / "summary.json").read_bytes() == altered
    assert (place / "why.txt").read_text() == f"{why}\n"
    assert "4 of them were made before" in invoked("campaign", campaign, "--out", out).output


@pytest.mark.parametrize("given", ["out", "out/runs/task_eviction=srt"])
def test_verify_finds_a_summary_that_its_campaign_has_not_made(given: str, tmp_path: Path) -> None:
    text = CAMPAIGN.replace("20", "2").replace("hadoop-0.23}", "hadoop-0.23, sim.journal: off}")
    run_natjam("campaign", write_campaign(tmp_path, text), "--out", tmp_path / "out")
    run_natjam("verify", tmp_path / given)
    quicker(tmp_path / "out")
    found = run_natjam("verify", tmp_path / given, status=1)
    said = "seed-2: summary.json was changed or replaced since the campaign has made it"
    assert said in found.stderr


@pytest.fixture(scope="module")
def four_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign of four runs; ``out`` is in the directory."""
    place = tmp_path_factory.mktemp("four")
    text = CAMPAIGN.replace("20", "2").replace("hadoop-0.23}", "hadoop-0.23, sim.journal: off}")
    run_natjam("campaign", write_campaign(place, text), "--out", place / "out")
    assert "out: verified: 4 runs, all planned, the table of all runs" in run_natjam("verify", place / "out").output
    return place / "out"


def test_every_column_of_the_table_is_documented(four_runs: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/columns.md").read_text()
    documented = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    assert set(table(four_runs).column_names) - documented == {"scheduler.task_eviction"}, "a key of the grid"


def better(out: Path) -> None:
    """Its table has another makespan."""
    file = out / "campaign.parquet"
    rows = table(out)
    place = rows.column_names.index("makespan_s")
    halved = pyarrow.array([value / 2 for value in rows.column(place).to_pylist()])
    pyarrow.parquet.write_table(rows.set_column(place, "makespan_s", halved), file)


_A_RUN = "runs/task_eviction=srt/seed-2"


@pytest.mark.parametrize(
    ("alter", "finding"),
    [
        (better, "campaign.parquet: is not the table that the campaign wrote"),
        (lambda out: (out / "campaign.parquet").unlink(), "campaign.parquet: is missing"),
        (lambda out: (out / "campaign.json").unlink(), "campaign.json: is missing"),
        (lambda out: (out / "campaign.json").write_text("{"), "campaign.json: cannot be read"),
        (lambda out: shutil.rmtree(out / _A_RUN), f"{_A_RUN}: has no summary.json, but was made"),
        (
            lambda out: shutil.copytree(out / _A_RUN, out / _A_RUN.replace("2", "9")),
            "seed-9: the campaign has not planned it",
        ),
        (unknown, f"{_A_RUN}: digests.jsonl has no digest of it"),
    ],
)
def test_verify_finds_what_of_a_campaign_is_not_as_it_was_made(
    alter: Callable[[Path], object], finding: str, four_runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(four_runs, out)
    alter(out)
    assert finding in run_natjam("verify", out, status=1).stderr


IMPORTS = {
    "a module beside it": ("mine.py", "import other", "other.py"),
    "a module of a package beside it": ("mine.py", "from parts.order import key", "parts/order.py"),
    "another of its package, by its whole name": ("parts/mine.py", "from parts.order import key", "parts/order.py"),
    "its package": ("parts/mine.py", "import json", "parts/__init__.py"),
    "a package in its package": ("parts/mine.py", "from .more import order", "parts/more/order.py"),
    "a module above it": ("parts/more/mine.py", "from ..order import key", "parts/order.py"),
    "a module by its name in a text": ("mine.py", "import importlib; importlib.import_module('other')", "other.py"),
    "one of its package, by a text": ("parts/mine.py", "__import__('parts.order')", "parts/order.py"),
    "a module from elsewhere on the path": ("mine.py", "import elsewhere", "lib/elsewhere.py"),
}


@pytest.mark.parametrize(("place", "imports", "changed"), IMPORTS.values(), ids=IMPORTS)
def test_all_that_a_policy_of_ones_own_imports_counts(
    place: str, imports: str, changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("parts", "parts/more", "lib"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "lib")
    (tmp_path / changed).write_text("key = 1\n")
    (tmp_path / place).write_text(f"{imports}\n\ndef mine(view, tasks, random):\n    return []\n")
    write_campaign(tmp_path)
    importlib.invalidate_caches()
    policy = place.removesuffix(".py").replace("/", ".")
    experiment = load_experiment(tmp_path / "experiment.yaml", [f"scheduler.task_eviction='{policy}:mine'"])
    before = Inputs().sha256(experiment)
    assert Inputs().sha256(experiment) == before
    (tmp_path / changed).write_text("key = 2\n")
    assert Inputs().sha256(experiment) != before


def test_runs_of_what_was_changed_are_made_anew(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("[srt, lrt]", "[srt, 'changing:first']").replace("20", "1")
    campaign, out = write_campaign(tmp_path, text.replace("hadoop-0.23", "slow.yaml")), tmp_path / "out"
    (tmp_path / "changing.py").write_text(
        "import changing_too\n\ndef first(view, tasks, random):\n    return [task.container for task in tasks]\n"
    )
    (tmp_path / "changing_too.py").write_text("")
    profile = {"name": "slow", "source": "nobody", "schedule_s": 1, "suspend_s": 1, "resume_s": 1}
    (tmp_path / "slow.yaml").write_text(json.dumps(profile))
    for said in ("2 runs\n", "2 of them were made before"):
        assert said in invoked("campaign", campaign, "--out", out).output
    rows = table(out)
    (tmp_path / "changing_too.py").write_text("# other\n")
    again = invoked("campaign", campaign, "--out", out)
    why = "a file that its experiment reads has changed, or was moved: a module, a trace, costs or a program;"
    assert f"set aside: task_eviction=changing_first/seed-1: {why}" in again.output
    assert "1 of them were made before" in again.output
    (tmp_path / "slow.yaml").write_text(json.dumps({**profile, "schedule_s": 5}))
    again = invoked("campaign", campaign, "--out", out)
    assert again.output.count(why) == 2
    assert not table(out).equals(rows)


@given(content=st.binary(max_size=60))
def test_any_file_of_digests_is_read(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    (folder / "digests.jsonl").write_bytes(content + b'\n["a", "b", "c"]\n')
    KeptRuns(folder)
    keep_digest(folder, "d", "e", "f")
    assert (folder / "digests.jsonl").read_bytes().endswith(b'["a", "b", "c"]\n["d", "e", "f"]\n')


BROKEN = "def broken(view, tasks, random):\n    return [task.containr for task in tasks]\n"


def test_runs_that_fail_are_kept_and_told_once_and_the_others_are_made(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("[srt, lrt]", "['failing:broken', srt]").replace("20", "3")
    campaign, out = write_campaign(tmp_path, text), tmp_path / "out"
    (tmp_path / "failing.py").write_text(BROKEN)
    result = run_natjam("campaign", campaign, "--keep-going", "--out", out, status=1)
    assert "natjam: 3 of 6 runs failed" in result.stderr
    (told,) = (line for line in result.output.splitlines() if line.startswith("failed: "))
    assert told.startswith("failed: 3 runs of 1 variant, such as task_eviction=failing_broken/seed-1: ")
    raised = "has no attribute 'containr'; did you mean 'container'?"
    assert f"{tmp_path / 'failing.py'}:2: task_eviction policy failing:broken raised AttributeError: " in told
    assert told.endswith(raised)
    (row,) = (line for line in result.output.splitlines() if "│ failing_broken" in line)
    assert [cell.strip() for cell in row.split("│")][1:5] == ["failing_broken", "0", "3", "failed"]
    failed = [row for row in table(out).to_pylist() if row["failure"]]
    assert [(row["seed"], row["job"]) for row in failed] == [(1, None), (2, None), (3, None)]
    assert raised in failed[0]["failure"]
    kept = out / "runs" / failed[0]["run"]
    assert raised in (kept / "failure.txt").read_text()
    assert {"experiment.yaml", "journal.jsonl.zst.unfinished"} <= {path.name for path in kept.iterdir()}


def test_a_variant_with_a_broken_policy_is_left_and_the_others_are_made(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("[srt, lrt]", "[srt, 'failing:broken']").replace("20", "40")
    campaign, out = write_campaign(tmp_path, text), tmp_path / "out"
    (tmp_path / "failing.py").write_text(BROKEN)
    result = run_natjam("campaign", campaign, "--out", out, status=1)
    made = Counter(row["variant"] for row in table(out).to_pylist() if row["job"] in (None, "research"))
    assert made["task_eviction=srt"] == 40
    assert 0 < made["task_eviction=failing_broken"] < 40
    left_out = counted(40 - made["task_eviction=failing_broken"], "more run")
    assert f"not made: {left_out} of these variants; --keep-going makes them" in result.output
    (tmp_path / "failing.py").write_text(BROKEN.replace("containr", "container"))
    again = run_natjam("campaign", campaign, "--out", out)
    assert "80 runs; 40 of them were made before" in again.output


def test_runs_of_another_campaign_are_not_reported_as_its_own(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("20", "1")
    campaign, out = write_campaign(tmp_path, text), tmp_path / "out"
    run_natjam("campaign", campaign, "--out", out)
    campaign.write_text(text.replace("lrt", "random"))
    result = run_natjam("campaign", campaign, "--out", out, status=2)
    other = "has 1 run that this campaign does not make, such as task_eviction=lrt/seed-1; name another directory"
    assert result.stderr == f"natjam: {out}: {other}\n"
    campaign.write_text(text.replace("lrt", "lrt, random").replace("seeds: 1", "seeds: 2"))
    assert "6 runs; 2 of them were made before" in run_natjam("campaign", campaign, "--out", out).output


def test_what_a_campaign_tells_while_it_runs_adds_up(tmp_path: Path) -> None:
    told: list[WorkStatus] = []
    runs = planned_runs(load_campaign(write_campaign(tmp_path, CAMPAIGN.replace("20", "4"))).variants)
    with CampaignDirectory(tmp_path / "out").held() as directory:
        run_campaign("small", runs, directory, run_experiment, told.append, slots=1)
    done = [status.done for status in told]
    assert (done[0], done[-1]) == (0, 1)
    assert done == sorted(done)
    assert [status.counts for status in told] == [f"{8 * share:.0f} of 8 runs" for share in done]
    assert [status.left_real_s for status in told if status.done == 0] == [None] * done.count(0)
    first = min(status.done for status in told if status.done)
    assert all(status.left_real_s is not None for status in told if status.done > first)
    assert {status.left_real_s for status in told if status.done == first} == {None}, "it has the start of the workers"
    assert told[-1].left_real_s == 0


def test_one_that_is_to_stop_has_the_runs_that_are_made_and_goes_on_later(tmp_path: Path) -> None:
    runs = planned_runs(load_campaign(write_campaign(tmp_path, CAMPAIGN)).variants)
    made: set[str] = set()

    def goes_on(so_far: Sequence[PlannedRun], failed: Mapping[str, str]) -> bool:
        made.clear()
        made.update(run.name for run in so_far)
        return not made

    with CampaignDirectory(tmp_path / "out").held() as directory:
        stopped = run_campaign("small", runs, directory, run_experiment, lambda status: None, slots=1, goes_on=goes_on)
        assert 0 < len(made) < len(runs)
        assert {run.name for run in stopped.runs} == made == set(table(tmp_path / "out")["run"].to_pylist())
        whole = run_campaign("small", runs, directory, run_experiment, lambda status: None)
    assert whole.found_done >= len(made)
    assert list(whole.runs) == runs


def test_directories_of_others_are_refused_and_kept(undisturbed: Path, tmp_path: Path) -> None:
    other = write_campaign(tmp_path, CAMPAIGN.replace("hadoop-0.23", "hadoop-0.23, heartbeat_s: 2"))
    rows = table(undisturbed)
    result = invoked("campaign", other, "--out", undisturbed)
    assert (result.exit_code, "was made from a different experiment" in result.stderr) == (2, True)
    assert table(undisturbed).equals(rows)
    (tmp_path / "others").mkdir()
    (tmp_path / "others/notes").write_text("others")
    result = invoked("campaign", other, "--out", tmp_path / "others")
    assert (result.exit_code, "is neither empty nor a directory of a campaign" in result.stderr) == (2, True)
    assert [path.name for path in (tmp_path / "others").iterdir()] == ["notes"]
    (undisturbed / "campaign.json").write_text("[]")
    result = invoked("campaign", other, "--out", undisturbed)
    assert (result.exit_code, "cannot be read as a campaign's plan" in result.stderr) == (2, True)


def test_one_campaign_at_a_time_in_a_directory(tmp_path: Path) -> None:
    directory = CampaignDirectory(tmp_path / "out")
    same = CampaignDirectory(tmp_path / "out")
    with directory.held(), pytest.raises(ConfigError, match="another natjam command is at work there"), same.held():
        pytest.fail("both hold it")
    with same.held():
        pass


def test_what_is_said_after_the_runs_is_still_said_of_a_held_directory(tmp_path: Path) -> None:
    campaign, out = write_campaign(tmp_path, CAMPAIGN.replace("seeds: 20", "seeds: 2")), tmp_path / "out"
    told = held_while_told(out, "campaign", campaign, "--out", out)
    assert told
    assert all(told)
    assert not is_held(out)


def test_a_missing_calibration_is_found_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nothing"))
    campaign = write_campaign(tmp_path, CAMPAIGN.replace("hadoop-0.23", "native"))
    result = invoked("campaign", campaign, "--out", tmp_path / "out")
    assert (result.exit_code, "natjam measure" in result.stderr) == (2, True)
    assert not (tmp_path / "out").exists()
