"""``natjam workload``: each command on traces that are shipped, and its refusals."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import Result

from tests.commands import invoked, run_natjam
from tests.simulated_runs import CATALOGUE
from tests.traces import FACEBOOK_DAY, FIRST_50, FIVE_JOBS, GOOGLE, SWF, SYNTH, TWO_JOBS, read
from workloads.adapt import Target, adapt
from workloads.errors import Problems
from workloads.importers import open_trace
from workloads.schema import TraceEntry


def workload(*arguments: object) -> Result:
    return invoked("workload", *arguments)


def done(*arguments: object) -> str:
    result = workload(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_help_has_an_example_of_every_command() -> None:
    for command in ("inspect", "validate", "convert", "scale", "generate"):
        assert f"    natjam workload {command}" in done(command, "--help")


def test_rigid_jobs_are_called_independent_tasks_in_the_first_line(tmp_path: Path) -> None:
    kept = tmp_path / "kept.parquet"
    said = [
        done("inspect", SWF),
        done("convert", SWF, kept),
        done("inspect", kept),
        done("scale", SWF, tmp_path / "scaled.parquet", "--production-fraction", 0.3),
    ]
    one_by_one = ("--set", "workload.trace.gangs=false")
    advised = run_natjam("advise", SWF, "--seeds", "1", *one_by_one, "--out", tmp_path / "advice")
    experiment, campaign = tmp_path / "advice/experiment.yaml", tmp_path / "campaign.yaml"
    campaign.write_text(f"name: two\nexperiment: {experiment}\ngrid: {{seed: [1, 2]}}\n")
    run = invoked("run", experiment, "--engine", "sim", *one_by_one, "--out", tmp_path / "run")
    runs = invoked("campaign", campaign, "--set", "engine=sim", *one_by_one, "--out", tmp_path / "runs")
    for result in (run, runs):
        assert result.exit_code == 0, result.output
        assert result.stderr.count("rigid") == 1
    for text in (*said, advised.stdout, run.stderr, runs.stderr):
        assert text.startswith("note: rigid parallel jobs are treated as independent tasks"), text
    assert "rigid" not in done("inspect", FIRST_50)


class TestInspect:
    def test_facebooks_day(self, tmp_path: Path) -> None:
        said = done("inspect", FACEBOOK_DAY, "--json", tmp_path / "day.json", "--png", tmp_path / "day.png")
        told = json.loads((tmp_path / "day.json").read_text())
        assert (tmp_path / "day.png").read_bytes().startswith(b"\x89PNG")
        assert told["jobs"] == told["jobs_without_tasks"] == sum(told["hourly_submissions"]) == 5894
        assert told["span_s"] == 86404 - 49
        assert told["hourly_submissions"][11] == 0
        assert told["hourly_max_over_min"] == 554 / 114
        assert told["columns"]["shuffle_bytes"] == {"source": "measured", "rule": "column 5"}
        assert told["columns"]["tasks"]["source"] == "not in it"
        shuffle = told["distributions"]["shuffle a job"]
        assert (shuffle["n"], shuffle["p50"]) == (5894, 0), "three quarters are map-only"
        for words in ("5,894", "submissions in each hour", "4,448", "column 5", "██"):
            assert words in said

    def test_what_is_measured_and_what_is_modelled(self, tmp_path: Path) -> None:
        done("inspect", GOOGLE, "--format", "google", "--json", tmp_path / "slice.json")
        told = json.loads((tmp_path / "slice.json").read_text())
        sources = {name: column["source"] for name, column in told["columns"].items()}
        assert sources["tasks.length_ns"] == "mixed"
        assert sources["tasks.kind"] == "modelled"
        assert sources["tasks.evictions"] == "measured"
        assert sources["input_bytes"] == "not in it"
        assert 0 < told["tasks_with_modelled_length"] < told["reduces"]
        assert told["facts"]["task events EVICT"] > 0

    def test_an_empty_workload(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty.jsonl"
        empty.write_text('{"natjam_workload": 1, "format": "x", "origin": "zero"}\n')
        assert "jobs" in done("inspect", empty, "--png", tmp_path / "empty.svg")


class TestValidate:
    def broken(self, folder: Path) -> Path:
        rows = FIRST_50.read_text().splitlines()
        rows[3] = rows[3].replace("\t", ",")
        rows[7] = "\t".join((rows[7].split("\t")[0], "-5", *rows[7].split("\t")[2:]))
        path = folder / "broken.tsv"
        path.write_text("\n".join(rows) + "\n")
        return path

    def test_each_broken_row_is_told_and_refused(self, tmp_path: Path) -> None:
        path = self.broken(tmp_path)
        result = workload("validate", path)
        assert result.exit_code == 2
        assert f"{path}:4: 1 tab-separated fields" in result.stderr
        assert f"{path}:8: submit time: '-5' is negative" in result.stderr
        assert "2 broken rows, 48 jobs" in result.stdout
        shown = workload("validate", path, "--show", 1).stderr
        assert "and 1 more" in shown
        assert f"{path}:8" not in shown

    def test_lenient_skips_and_counts(self, tmp_path: Path) -> None:
        path = self.broken(tmp_path)
        assert "2 broken rows, 48 jobs" in done("validate", path, "--lenient")
        assert workload("convert", path, tmp_path / "out.jsonl").exit_code == 2
        assert not (tmp_path / "out.jsonl").exists()
        lenient = workload("convert", path, tmp_path / "out.jsonl", "--lenient")
        assert lenient.exit_code == 0
        assert f"2 broken rows skipped; the first: {path}:4" in lenient.stderr
        assert len(read(tmp_path / "out.jsonl", "natjam").jobs) == 48

    def test_a_sound_file(self) -> None:
        assert "0 broken rows, 50 jobs and 0 tasks" in done("validate", FIRST_50)


class TestConvert:
    def test_round_through_every_kind_of_file(self, tmp_path: Path) -> None:
        original = read(TWO_JOBS, "rumen")
        chain = [tmp_path / name for name in ("a.parquet", "b.jsonl", "c.jsonl.gz", "d.parquet")]
        done("convert", TWO_JOBS, chain[0], "--format", "rumen")
        for source, target in pairwise(chain):
            done("convert", source, target)
        found = read(chain[-1], "natjam")
        assert found.jobs == original.jobs
        assert found.header.columns == original.header.columns
        assert found.header.history[0] == original.header.history[0]

    def test_a_trace_without_tasks_cannot_become_sls(self, tmp_path: Path) -> None:
        result = workload("convert", FIRST_50, tmp_path / "out.json")
        assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
        assert "has no tasks to export" in result.stderr


class TestScale:
    OPTIONS = ("--window-s", "[0, 3600]", "--production-fraction", "0.3", "--load", "1.3", "--seed", "5")

    def test_it_writes_what_an_experiment_with_the_same_trace_would_run(self, tmp_path: Path) -> None:
        said = done("scale", FACEBOOK_DAY, tmp_path / "small.parquet", *self.OPTIONS)
        entry = TraceEntry(
            format="swim", path=str(FACEBOOK_DAY), window_s=(0.0, 3600.0), production_fraction=0.3, load=1.3
        )
        wanted = adapt(lambda: open_trace(FACEBOOK_DAY, "swim", Problems()), entry, Target(6, 72), 5)
        found = read(tmp_path / "small.parquet", "natjam")
        assert found.jobs == list(wanted.jobs)
        assert wanted.factors is not None
        assert f"offered {wanted.factors.offered:.4g}" in said
        assert found.header.columns["tasks.length_ns"].source == "modelled"

    def test_deadlines_and_any_other_parameter(self, tmp_path: Path) -> None:
        for seed, name in ((1, "a"), (1, "b"), (2, "c")):
            options = ("--deadline-factor", "{uniform: [0, 2]}", "--production-fraction", 1, "--seed", seed)
            more = ("--set", "rates.map_overhead_s=7", "--set", "rates.byte_rules=swim")
            done("scale", FIRST_50, tmp_path / f"{name}.jsonl", *options, *more)
        found = {name: read(tmp_path / f"{name}.jsonl", "natjam").jobs for name in "abc"}
        assert found["a"] == found["b"]
        assert [job.deadline_ns for job in found["a"]] != [job.deadline_ns for job in found["c"]]
        assert all(job.deadline_ns and job.deadline_ns > job.submit_ns for job in found["a"])
        assert min(length for job in found["a"] for length in job.lengths_ns("map")) >= 7 * 10**9

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--load", "-1"), "load: must be greater than 0"),
            (("--window-s", "0"), "window_s"),
            (("--deadline-factor", "often"), "deadline_factor"),
            (("--set", "rates.maps=3"), "rates.maps: unknown key"),
            (("--production-fraction", "0.3", "--production-priority", "9"), "not both"),
            (("--overheads", "none-such"), "none-such"),
            ((), "give production_fraction or production_priority"),
        ],
    )
    def test_what_it_refuses(self, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
        result = workload("scale", FIRST_50, tmp_path / "x.jsonl", *options)
        assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
        assert message in result.stderr
        assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("inspect", "none.tsv"), "natjam: none.tsv: there is no such file"),
        (("inspect", "a.trace"), "there is no such file"),
        (("inspect", FIRST_50, "--format", "swm"), "did you mean 'swim'?"),
        (("inspect", FIVE_JOBS, "--format", "rumen", "--unfinished", "never"), "unfinished: must be"),
        (("inspect", FIRST_50, "--png", "a.exe"), "natjam: a.exe: must end in .png"),
        (("convert", FIRST_50, "a.csv"), "natjam: a.csv: must end in"),
        (("convert", FIRST_50, "/none/a.jsonl"), "natjam: /none/a.jsonl: cannot be written"),
        (("validate", SYNTH, "--format", "google"), "syn.json"),
        (("generate", "a.jsonl", "--jobs", "0"), "jobs: must be at least 1"),
        (("generate", "a.jsonl", "--arrivals", "bursty", "--span-s", "60"), "raise span_s or lower burst_period_s"),
        (("generate", "a.jsonl", "--set", "jobz=3"), "did you mean 'jobs'?"),
    ],
)
def test_bad_input_is_one_message(
    arguments: tuple[object, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = workload(*arguments)
    assert result.exit_code in (1, 2)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


class TestInspectAnExperiment:
    def test_requests_gangs_and_how_the_cluster_packs_the_most_that_is_wanted(self) -> None:
        said = done("inspect", "catalog:gangs")
        for words in (
            r"2 cpu, 4 memory_gb\W+1\W+6\W+3 of 3\W+10\W",  # four on each plain node, two beside the GPUs
            r"2 cpu, 8 memory_gb, 4 gpu\W+1\W+1\W+1 of 3\W+1\W",
            r"training\W+6\W+6\W+60\.0%\W+6\W",
            r"elastic\W+4\W+2\W+20\.0%\W+4\W",
            r"gpu\W+4\W+4\W+4\W+8\W+200%\W+20\.0\W",
            r"at 20\.0 s, when most gpu is wanted, 13 of 16 tasks find room; 0% cpu, 28% memory_gb, 0% gpu is",
        ):
            assert re.search(words, said), words

    def test_where_containers_have_one_size_they_are_what_is_wanted(self) -> None:
        said = done("inspect", "catalog:natjam-fig4")
        assert re.search(r"1 containers\W+2\W+66\W+6 of 6\W+48\W", said)
        assert "at 50.0 s, when most containers is wanted, 48 of 62 tasks find room" in said

    def test_what_fits_no_node_is_refused_with_what_it_lacks(self, tmp_path: Path) -> None:
        text = (CATALOGUE / "gangs.yaml").read_text().replace("{memory_gb: 8, gpu: 2}", "{memory_gb: 8, gpu: 9}")
        (tmp_path / "large.yaml").write_text(text)
        result = workload("inspect", tmp_path / "large.yaml")
        assert result.exit_code == 2
        assert "fits no empty node" in result.output
        assert "lacks 5 gpu" in result.output
