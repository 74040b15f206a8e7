"""Two undisturbed runs in one process: what they leave is what it should be, agrees with itself, and is all."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from emulator.records.replay import replay
from tests.live_runs import SMALL, NatjamRun
from tests.run_results import RunResults, job_of

# In place of `natjam run`: checkpoint, then suspend, and what the process has open and has been told.
TWICE = """
import json, os, sys
from pathlib import Path
from emulator.experiment.load import load_experiment
from analysis.whole_run import run_experiment
from tests.supervision import open_descriptors

file, out = Path(sys.argv[2]), Path(sys.argv[4])
facts = []
for mechanism in ("checkpoint", "suspend"):
    statuses = []
    experiment = load_experiment(file, [f"scheduler.mechanism={mechanism}"])
    run_experiment(experiment, out / mechanism, statuses.append)
    facts.append({
        "open": sorted(entry.partition(" ")[2] for entry in open_descriptors()),
        "variables": sorted(name for name in os.environ if name.startswith(("RAY_", "NATJAM_"))),
        "phases": list(dict.fromkeys(status.phase for status in statuses)),
        "containers": max(sum(status.containers_used_by_queue.values()) for status in statuses),
        "done": [sum(job.done for job in status.jobs) for status in statuses],
    })
(out / "facts.json").write_text(json.dumps(facts))
"""

NUMBER = (int, float)
OPTIONAL = (*NUMBER, type(None))
JOB_FIELDS = {
    **dict.fromkeys(("name", "queue", "state", "reason"), str),
    **dict.fromkeys(("submit_s", "start_s", "finish_s", "completion_s", "lost_work_s"), NUMBER),
    **dict.fromkeys(("deadline_s", "margin_s"), OPTIONAL),
    **dict.fromkeys(("attempts", "suspensions", "kills"), int),
}
FIELDS = {
    "disturbed": bool,
    **dict.fromkeys(("name", "engine", "state", "sha256"), str),
    **dict.fromkeys(("time_scale", "makespan_s", "real_s", "startup_real_s", "energy_j"), NUMBER),
    **dict.fromkeys(("seed", "swap_bytes", "checkpoint_bytes", "shuffle_http_bytes"), int),
    **dict.fromkeys(
        ("versions", "overheads", "work", "response", "storage", "deadlines", "lag", "output", "files"), dict
    ),
    **dict.fromkeys(("machines", "jobs"), list),
    "transactional": type(None),
}


@dataclass(frozen=True)
class Ended:
    """One of the two runs."""

    mechanism: str
    results: RunResults
    facts: dict[str, Any]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Both runs, by mechanism."""
    with NatjamRun(tmp_path_factory.mktemp("summary"), experiment=SMALL, program=TWICE) as run:
        assert run.wait() == 0, run.log
    facts = json.loads((run.out / "facts.json").read_text())
    return {
        mechanism: Ended(mechanism, RunResults(run.out / mechanism), mine)
        for mechanism, mine in zip(("checkpoint", "suspend"), facts, strict=True)
    }


@pytest.fixture(params=["checkpoint", "suspend"])
def ended(both: dict[str, Ended], request: pytest.FixtureRequest) -> Ended:
    """One of them."""
    return both[request.param]


def _check(found: dict[str, Any], fields: dict[str, Any]) -> None:
    assert set(found) == set(fields)
    for name, kind in fields.items():
        assert isinstance(found[name], kind), f"{name}: {found[name]!r}"
        assert not isinstance(found[name], bool) or kind is bool, name


def test_the_summary_has_every_field_and_no_other(ended: Ended) -> None:
    summary = ended.results.summary
    _check(summary, FIELDS)
    assert (summary["name"], summary["engine"], summary["time_scale"], summary["seed"]) == ("small", "live", 20, 1)
    assert {"natjam", "ray"} <= set(summary["versions"])
    (machine,) = summary["machines"]
    _check(machine, {"name": str, "clock_offset_ns": int, "hosts": list})
    assert machine["clock_offset_ns"] == 0
    for job in summary["jobs"]:
        _check(job, JOB_FIELDS)
        assert job["completion_s"] == pytest.approx(job["finish_s"] - job["submit_s"])
        assert job["submit_s"] < job["start_s"] < job["finish_s"]
        assert job["reason"] == ""
    assert [job["name"] for job in summary["jobs"]] == ["research", "production"]
    assert {"schedule_s", "suspend_s", "resume_s", "kill_s"} <= set(summary["overheads"])
    for cost in summary["overheads"].values():
        expected = dict.fromkeys(("mean", "p50", "p95", "p99"), NUMBER if cost["n"] else type(None))
        _check(cost, {"n": int, **expected, "overruns": int, "real_ms": dict})
        assert {"heartbeat", "key", "mechanism", "total"} == set(cost["real_ms"])
        assert all(set(part) == {"mean", "p50", "p99"} for part in cost["real_ms"].values())
    shares = ("wasted_fraction", "wasted_of_capacity", "overhead_fraction", "utilization")
    _check(summary["work"], dict.fromkeys(("useful_s", "lost_s", "overhead_s", *shares), NUMBER))
    _check(summary["storage"], {"peak_bytes": int, "mean_bytes": OPTIONAL, "io_fraction": OPTIONAL})
    assert {"p50_real_ms", "p99_real_ms", "max_real_ms", "p99_emulated_s"} <= set(summary["lag"])
    assert summary["startup_real_s"] < summary["real_s"]


def test_reduces_were_preempted_and_nothing_was_lost_by_it(ended: Ended) -> None:
    summary = ended.results.summary
    research, production = job_of(summary, "research"), job_of(summary, "production")
    assert research["state"] == production["state"] == "succeeded"
    assert research["suspensions"] > 0
    assert production["suspensions"] == research["kills"] == production["kills"] == 0
    assert research["lost_work_s"] == summary["work"]["lost_s"] == summary["work"]["wasted_fraction"] == 0
    assert summary["overheads"]["suspend_s"]["n"] == research["suspensions"]
    assert summary["overheads"]["resume_s"]["n"] == research["suspensions"]
    assert summary["work"]["useful_s"] >= 7 * 30 + 3 * 10
    tasks = 2 + 7 + 2 + 3
    resumed_anew = research["suspensions"] if ended.mechanism == "checkpoint" else 0
    assert research["attempts"] + production["attempts"] == tasks + resumed_anew
    assert (summary["checkpoint_bytes"] > 0) == (ended.mechanism == "checkpoint")


def test_the_output_is_verified(ended: Ended) -> None:
    output = ended.results.summary["output"]
    assert output["verified"] is True
    assert output["keys_expected"] == output["keys_written"] == 7 * 30 + 3 * 10
    assert output["keys_lost"] == output["keys_duplicated"] == output["files_differing"] == 0
    files = [path for path in (ended.results.out / "output").rglob("*") if path.is_file()]
    assert Counter(path.parent.name for path in files) == {"research": 7, "production": 3}


def test_both_mechanisms_write_the_same_bytes(both: dict[str, Ended]) -> None:
    def contents(ended: Ended) -> dict[str, bytes]:
        root = ended.results.out / "output"
        return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("part-*")}

    assert contents(both["checkpoint"]) == contents(both["suspend"]) != {}


def test_the_journal_replays(ended: Ended) -> None:
    records = ended.results.records()
    assert {"rm", "client", "am:research", "am:production", "nm:node-1", "nm:node-2"} == {r.actor for r in records}
    assert records == sorted(records, key=lambda record: (record.t_ns, record.actor, record.seq))
    assert replay(records, ended.results.machine) is None


def test_the_tables_agree_with_the_summary(ended: Ended) -> None:
    summary = ended.results.summary
    jobs, tasks, attempts = (ended.results.table(name) for name in ("jobs", "tasks", "attempts"))
    assert [{name: row[name] for name in JOB_FIELDS} for row in jobs] == summary["jobs"]
    work = [row for row in attempts if row["kind"] != "am"]
    for job in summary["jobs"]:
        mine = [row for row in work if row["job"] == job["name"]]
        assert job["attempts"] == len(mine)
        stops = sum(len(row["suspended_spans"]) + (row["outcome"] == "checkpointed") for row in mine)
        assert job["suspensions"] == stops == sum(row["suspensions"] for row in tasks if row["job"] == job["name"])
        assert job["start_s"] == min(row["first_key_s"] for row in mine)
    assert sum(row["useful_s"] for row in work) == pytest.approx(summary["work"]["useful_s"])
    assert sum(row["keys_total"] for row in tasks) == summary["output"]["keys_expected"]
    by_name = {row["attempt"]: row for row in work}
    for row in work:
        if row["resumed_from"] is not None:
            assert row["keys_start"] == by_name[row["resumed_from"]]["keys_done"]
        for span in row["suspended_spans"]:
            assert row["first_key_s"] < span["stopped_s"] < span["resumed_s"] < row["ended_s"]


def test_the_run_directory_holds_what_it_should(ended: Ended) -> None:
    assert {path.name for path in ended.results.out.iterdir()} == {
        *("experiment.yaml", "journal.jsonl.zst", "summary.json", "output"),
        *("jobs.parquet", "tasks.parquet", "attempts.parquet", "operations.parquet", "decisions.parquet"),
        *("report.html", "timeline.perfetto.json"),
    }


def test_the_display_was_told_all_along(ended: Ended) -> None:
    assert ended.facts["phases"] == [
        *("starting Ray", "starting hosts", "running", "closing", "verifying the output", "cleaning up")
    ]
    assert 0 < ended.facts["containers"] <= 8
    assert ended.facts["done"] == sorted(ended.facts["done"])
    assert ended.facts["done"][-1] == 2 + 7 + 2 + 3


def test_the_second_run_leaves_nothing_more_open_than_the_first(both: dict[str, Ended]) -> None:
    first, second = both["checkpoint"].facts, both["suspend"].facts
    for facts in (first, second):
        # The last log of Ray's core, whose name changes, and two sockets each time are Ray's own.
        facts["files"] = Counter(target for target in facts["open"] if "/natjam-" not in target and ":" not in target)
    assert first["files"] == second["files"]
    assert len(second["open"]) - len(first["open"]) <= 2
    assert set(first["variables"] + second["variables"]) <= {"RAY_CLIENT_MODE"}, "which Ray sets itself"
