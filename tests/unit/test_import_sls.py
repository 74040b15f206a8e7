"""SLS and SYNTH files: what they mean, the round trip through the exporter, and broken files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.traces import FIVE_JOBS, GOOGLE, SLS, SWF, SYNTH, TWO_JOBS, content, read, write
from workloads.errors import Problems, TraceError
from workloads.importers import open_trace
from workloads.importers.sls import export_sls
from workloads.schema import Format

MS = 10**6


def export(path: Path, format: Format, out: Path) -> int:
    return export_sls(out, open_trace(path, format, Problems()))


def test_the_sample_of_the_documentation():
    first, second = read(SLS, "sls").jobs
    assert (first.job, first.queue, first.submit_ns, first.finish_ns) == ("job_1", "sls_queue_1", 0, 95_375 * MS)
    assert [length // MS for length in first.lengths_ns("map")] == [17_043, 14_928, 17_843]
    assert (second.submit_ns, len(second.tasks or ())) == (105_204 * MS, 2)


def test_counts_durations_defaults_and_numbers_in_quotes(tmp_path: Path):
    nodes = {"num.nodes": 3, "num.racks": 1}
    job = {"job.start.ms": "5", "job.count": 2, "job.tasks": [{"count": 3, "duration.ms": "1500"}]}
    found = read(write(tmp_path, json.dumps(nodes).encode() + json.dumps(job).encode()), "sls")
    assert found.facts == nodes
    assert [job.job for job in found.jobs] == ["0", "1"]
    assert [job.lengths_ns("map") for job in found.jobs] == [(1500 * MS,) * 3] * 2


class TestExport:
    @pytest.mark.parametrize(
        ("path", "format"),
        [(TWO_JOBS, "rumen"), (FIVE_JOBS, "rumen"), (SYNTH, "synth"), (SWF, "swf"), (GOOGLE, "google"), (SLS, "sls")],
    )
    def test_nothing_is_lost_whatever_the_source(self, tmp_path: Path, path: Path, format: Format):
        before = read(path, format)
        assert export(path, format, tmp_path / "out.json") == len(before.jobs)
        assert read(tmp_path / "out.json", "sls").jobs == before.jobs


def task(**more: Any) -> dict[str, Any]:
    return {"container.start.ms": 10, "container.end.ms": 30, **more}


def job(**more: Any) -> bytes:
    return orjson.dumps({"job.id": "a", "job.start.ms": 5, "job.tasks": [task()], **more})


@pytest.mark.parametrize(
    ("raw", "column", "reason"),
    [
        (job() + job(), "job.id", "earlier job"),
        (job(**{"job.start.ms": 1.5}), "job.start.ms", "not a whole number"),
        (job(**{"job.end.ms": 4}), "job.end.ms", "before"),
        (job(**{"job.tasks": []}), "job.tasks", "at least one"),
        (job(**{"job.tasks": [task(**{"container.end.ms": 9})]}), "job.tasks[0].container.end.ms", "before"),
        (job(**{"job.tasks": [{}]}), "job.tasks[0]", "neither"),
        (job(**{"job.tasks": [task(**{"container.type": "stream"})]}), "job.tasks[0].container.type", "neither map"),
        (job(**{"job.tasks": [task(count=0)]}), "job.tasks[0].count", "is not 1 to"),
        (job(natjam=[]), "natjam", "not an object"),
        (job(natjam={"deadline_ns": 3}), "natjam.deadline_ns", "before"),
        (job(**{"job.tasks": [task(natjam={"length_ns": -3})]}), "job.tasks[0].natjam.length_ns", "negative"),
    ],
)
def test_broken_sls(tmp_path: Path, raw: bytes, column: str, reason: str):
    with pytest.raises(TraceError) as caught:
        read(write(tmp_path, raw), "sls")
    assert (caught.value.line, caught.value.column) == (1, column)
    assert reason in caught.value.reason


class TestSynth:
    def test_draws_follow_the_file_and_are_the_same_each_time(self):
        found = read(SYNTH, "synth")
        assert len(found.jobs) == 10
        assert read(SYNTH, "synth").jobs == found.jobs
        assert all(1 <= job.submit_ns / 1e9 < 60 for job in found.jobs)
        assert {job.queue for job in found.jobs} == {"sls_queue_1"}
        assert {job.user for job in found.jobs} == {"foobar"}
        assert 0 < sum(job.deadline_ns is not None for job in found.jobs) < 10
        assert {provenance.source for provenance in found.header.columns.values()} == {"modelled"}

    def test_means_and_deviations(self, tmp_path: Path):
        value = json.loads(SYNTH.read_bytes()) | {"num_jobs": 2000}
        jobs = read(write(tmp_path, json.dumps(value).encode()), "synth").jobs
        maps = [length / 1e9 for job in jobs for length in job.lengths_ns("map")]
        reduces = [length / 1e9 for job in jobs for length in job.lengths_ns("reduce")]
        assert len(maps) / len(jobs) == pytest.approx(5, rel=0.02)
        assert sum(maps) / len(maps) == pytest.approx(10, rel=0.02)
        assert sum(reduces) / len(reduces) == pytest.approx(20, rel=0.02)
        mean = sum(maps) / len(maps)
        assert (sum((value - mean) ** 2 for value in maps) / len(maps)) ** 0.5 == pytest.approx(2, rel=0.1)
        share = sum(job.deadline_ns is not None for job in jobs) / len(jobs)
        assert share == pytest.approx(0.5, abs=0.05)

    def test_the_newer_keys_say_the_same(self, tmp_path: Path):
        chosen = {
            "class_name": "new",
            "class_weight": 1,
            "tasks": [{"type": "reduce", "count": {"val": 3}, "time": {"discrete": ["2", 5], "weights": [1, 0]}}],
        }
        workload = {"workload_weight": 1, "job_classes": [chosen], "time_distribution": [{"time": 7, "weight": 1}]}
        raw = json.dumps({"num_jobs": 2, "workloads": [workload]}).encode()
        jobs = read(write(tmp_path, raw), "synth").jobs
        assert [(job.job, job.submit_ns, job.lengths_ns("reduce")) for job in jobs] == [
            (f"new-{number}", 7 * 10**9, (2 * 10**9,) * 3) for number in range(2)
        ]

    @pytest.mark.parametrize(
        ("old", "new", "reason"),
        [
            (b'"num_jobs": 10', b'"num_jobs": 0', "num_jobs: 0 is not 1 to"),
            (b'"mtasks_avg": 5', b'"mtasks_avg": -5', "negative"),
            (b'"mtasks_avg": 5', b'"mtasks_avg": 1e9', "draws"),
            (b'"mtime_avg": 10', b'"mtime_avg": NaN', "not JSON"),
            (b'"mtime_stddev": 2', b'"mtime_stddev": 1e17', "too large"),
            (b'"weight": 100', b'"weight": 0', "more than 0"),
            (b'"job_classes"', b'"classes"', "job_classes: is missing"),
            (b'"num_nodes"', b'"num_nodes', "not JSON"),
        ],
    )
    def test_broken(self, tmp_path: Path, old: bytes, new: bytes, reason: str):
        assert old in content(SYNTH)
        with pytest.raises(TraceError, match=reason):
            read(write(tmp_path, content(SYNTH).replace(old, new)), "synth")
