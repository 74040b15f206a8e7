"""SWIM traces: the byte rules against hand-computed values and SWIM's own scripts, and broken files."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.config import load_experiment
from emulator.core.job import JobSpec
from workloads.errors import TraceError
from workloads.expand import expand
from workloads.schema import SwimRates, TraceEntry
from workloads.swim import import_swim, read_rows

ROOT = Path(__file__).resolve().parents[2]
FIRST_50 = ROOT / "workloads" / "data" / "FB-2009_samples_24_times_1hr_0_first50jobs.tsv"
GOOD = b"job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t0\t432269\n"


def trace(path: Path, **fields) -> TraceEntry:
    return TraceEntry(format="swim", path=str(path), **fields)


def jobs_of(path: Path, *, nodes: int = 3, containers: int = 24, seed: int = 1, **fields) -> dict[str, JobSpec]:
    entry = trace(path, **fields)
    jobs = import_swim(path, entry, nodes=nodes, containers=containers, memory_bytes=2**30, seed=seed)
    return {job.name: job for job in jobs}


def write(folder: Path, raw: bytes) -> Path:
    path = folder / "trace.tsv"
    path.write_bytes(raw)
    return path


class TestRules:
    def test_rows_of_the_shipped_file(self):
        rows = list(read_rows(FIRST_50))
        assert len(rows) == 50
        assert (rows[0].submit_s, rows[-1].submit_s) == (49, 2826)
        assert sum(row.input_bytes for row in rows) == 16_208_585_408
        assert sum(row.shuffle_bytes for row in rows) == 19_133_284_339
        assert sum(row.output_bytes for row in rows) == 154_932_355_988
        assert sum(row.shuffle_bytes == 0 for row in rows) == 18

    def test_tasks_are_those_of_swims_own_replay_scripts(self):
        """SWIM's repository holds scripts made from this file for 10 nodes and 64 MiB a map and a reduce."""
        jobs = jobs_of(FIRST_50, nodes=10, containers=1000)
        tasks = {name: (len(job.map_ns), len(job.reduce_ns)) for name, job in jobs.items()}
        assert tasks.pop("job17") == (3, 4)
        assert tasks.pop("job19") == (2, 1)
        assert set(tasks.values()) == {(1, 1), (1, 0)}
        assert sum(reduces == 0 for _, reduces in tasks.values()) == 18

    def test_bytes_are_scaled_truncated_and_floored(self):
        jobs = jobs_of(FIRST_50)
        assert jobs["job17"].shuffle_bytes == 13_024_975_762 * 3 // 600 == 65_124_878
        assert jobs["job17"].output_bytes == 18_004_085
        assert jobs["job0"].shuffle_bytes == 11_697
        assert jobs["job3"].shuffle_bytes == 1024  # 42 bytes recorded: scaled to nothing, but shuffled
        assert jobs["job41"].output_bytes == 1024
        assert (jobs["job38"].shuffle_bytes, jobs["job38"].output_bytes) == (0, 429_496_719)

    def test_lengths_follow_the_rates(self):
        rates = SwimRates(
            source_nodes=3,
            bytes_per_map=1_000_000,
            bytes_per_reduce=1_000_000,
            map_mb_s=0.5,
            reduce_mb_s=0.25,
            write_mb_s=2.0,
            map_overhead_s=3.0,
            reduce_overhead_s=10.0,
            key_s=4.0,
        )
        jobs = jobs_of(FIRST_50, rates=rates)
        shuffled = jobs["job25"]  # 23.0 MB in, 44.8 MB shuffled, 71.7 MB out
        assert len(shuffled.map_ns) == 24
        assert set(shuffled.map_ns) == {5_000_000_000}
        assert len(shuffled.reduce_ns) == 23  # 116 by bytes: all containers but one
        seconds = 10 + (44_795_750 / 0.25e6 + 71_684_305 / 2e6) / 23
        assert abs(shuffled.reduce_ns[0] - seconds * 1e9) <= 1
        assert shuffled.reduce_keys[0] == round(seconds / 4)
        map_only = jobs["job36"]  # 271 MB out of one map
        assert abs(map_only.map_ns[0] - (5 + 271_001_141 / 2e6) * 1e9) <= 1
        assert map_only.reduce_ns == map_only.reduce_keys == ()

    def test_default_rates_give_the_published_medians(self):
        rates = SwimRates()
        full_map_s = rates.map_overhead_s + rates.bytes_per_map / rates.map_mb_s / 1e6
        full_reduce_s = rates.reduce_overhead_s + rates.bytes_per_reduce / rates.reduce_mb_s / 1e6
        assert full_map_s == pytest.approx(19, abs=0.01)
        assert full_reduce_s == pytest.approx(231, abs=0.01)

    @pytest.mark.parametrize(("shuffle_bytes", "reduces"), [(1, 1), (148_975, 1), (148_976, 2), (248_976, 3)])
    def test_reduces_are_rounded_half_up(self, tmp_path: Path, shuffle_bytes: int, reduces: int):
        path = write(tmp_path, b"j\t0\t0\t0\t%d\t0\n" % shuffle_bytes)  # the output's floor adds 1,024 bytes
        rates = SwimRates(source_nodes=1, bytes_per_reduce=100_000)
        assert len(jobs_of(path, nodes=1, rates=rates)["j"].reduce_ns) == reduces

    def test_data_scale_changes_real_bytes_only(self):
        whole, tenth = jobs_of(FIRST_50), jobs_of(FIRST_50, data_scale=0.1)
        for name, job in whole.items():
            assert tenth[name].reduce_ns == job.reduce_ns
            assert tenth[name].map_ns == job.map_ns
            assert tenth[name].reduce_keys == job.reduce_keys
        assert tenth["job17"].shuffle_bytes == 6_512_487
        assert tenth["job3"].shuffle_bytes == 1024
        assert tenth["job34"].shuffle_bytes == 0

    def test_the_split_is_by_seed_and_name(self, tmp_path: Path):
        half = {name: job.queue for name, job in jobs_of(FIRST_50, seed=7).items()}
        assert set(half.values()) == {"production", "research"}
        fewer = write(tmp_path, b"".join(FIRST_50.read_bytes().splitlines(keepends=True)[20:]))
        assert {name: job.queue for name, job in jobs_of(fewer, seed=7).items()}.items() <= half.items()
        assert half != {name: job.queue for name, job in jobs_of(FIRST_50, seed=8).items()}
        assert {job.queue for job in jobs_of(FIRST_50, production_fraction=0.0).values()} == {"research"}
        assert {job.queue for job in jobs_of(FIRST_50, production_fraction=1.0).values()} == {"production"}

    def test_a_path_column_is_accepted(self, tmp_path: Path):
        path = write(tmp_path, b"job0\t1\t1\t5\t6\t7\tinputPath9\njob1\t1\t0\t5\t6\t7\tinputPath9\t\t\n")
        assert [row.output_bytes for row in read_rows(path)] == [7, 7]

    def test_a_missing_last_line_end_is_accepted(self, tmp_path: Path):
        assert len(list(read_rows(write(tmp_path, GOOD.removesuffix(b"\n"))))) == 2


class TestFacebook50:
    """What the catalogue file says of itself."""

    def test_load_and_bytes(self):
        experiment = load_experiment(ROOT / "workloads" / "catalog" / "facebook-50.yaml")
        jobs = {job.name: job for job in expand(experiment, experiment.seed)}
        assert len(jobs) == 50
        assert [len(jobs["job17"].map_ns), len(jobs["job17"].reduce_ns)] == [13, 23]
        assert {jobs[name].queue for name in ("job17", "job19", "job31")} == {"research"}
        assert {jobs[name].queue for name in ("job18", "job20", "job22", "job26")} == {"production"}
        assert sum(job.shuffle_bytes or 0 for job in jobs.values()) == pytest.approx(9.6e6, rel=0.01)
        assert sum(job.output_bytes or 0 for job in jobs.values()) == pytest.approx(77.5e6, rel=0.01)

    def test_production_jobs_arrive_while_one_research_job_can_hold_the_whole_cluster(self):
        experiment = load_experiment(ROOT / "workloads" / "catalog" / "facebook-50.yaml")
        jobs = {job.name: job for job in expand(experiment, experiment.seed)}
        large = jobs["job17"]
        reduces_from_ns = large.submit_ns + large.map_ns[0]
        assert 1 + len(large.reduce_ns) == 24
        for name in ("job18", "job20", "job22"):
            assert reduces_from_ns < jobs[name].submit_ns < reduces_from_ns + min(large.reduce_ns)


BROKEN = [
    (b"", None, None, "empty"),
    (b"\n", 1, None, "blank"),
    (GOOD + b"\n", 3, None, "blank"),
    (GOOD.replace(b"\n", b"\r\n"), 1, None, "CR LF"),
    (GOOD.replace(b"\t", b","), 1, None, "1 tab-separated fields"),
    (GOOD.replace(b"\t", b" "), 1, None, "1 tab-separated fields"),
    (b"job0\t49\t49\t7\t2\n", 1, None, "5 tab-separated fields"),
    (b"job0\t49\t49\t7\t2\t3\tpath\tmore\n", 1, None, "8 tab-separated fields"),
    (b"job0\t49\t49\tNaN\t2\t3\n", 1, "map input bytes", "not a whole number"),
    (b"job0\t49\t49\t7\tinf\t3\n", 1, "shuffle bytes", "not a whole number"),
    (b"job0\t49\t49\t7\t1e3\t3\n", 1, "shuffle bytes", "not a whole number"),
    (b"job0\t49\t49\t7\t2\t-3\n", 1, "reduce output bytes", "negative"),
    (b"job0\t-49\t49\t7\t2\t3\n", 1, "submit time", "negative"),
    (b"job0\t4.9\t49\t7\t2\t3\n", 1, "submit time", "not a whole number"),
    (b"job0\t49\t\t7\t2\t3\n", 1, "gap", "not a whole number"),
    (b"job0\t49\t49\t7\t\xd9\xa3\t3\n", 1, "shuffle bytes", "not a whole number"),
    (b"job0\t49\t49\t7\t" + b"9" * 5000 + b"\t3\n", 1, "shuffle bytes", "18 digits"),
    (b"job0\t" + b"9" * 18 + b"\t49\t7\t2\t3\n", 1, "submit time", "above"),
    (b"\t49\t49\t7\t2\t3\n", 1, "job id", "printable"),
    (b"a\x00b\t49\t49\t7\t2\t3\n", 1, "job id", "printable"),
    (b"\xef\xbb\xbfjob0\t49\t49\t7\t2\t3\n", 1, "job id", "printable"),
    (b"../x\t49\t49\t7\t2\t3\n", 1, "job id", "start with"),
    ("é".encode() * 80 + b"\t49\t49\t7\t2\t3\n", 1, "job id", "file name"),
    (GOOD + b"job0\t102\t1\t7\t2\t3\n", 3, "job id", "earlier line"),
    (GOOD + b"job2\t100\t1\t7\t2\t3\n", 3, "submit time", "before the line above"),
    (GOOD + b"job\xff\t102\t1\t7\t2\t3\n", 3, None, "byte 4 (0xff) is not UTF-8"),
    (GOOD + b"x" * 70_000, 3, None, "too long"),
    (b"job0\t49\t49\t" + b"9" * 18 + b"\t2\t3\n", 1, "map input bytes", "maps of"),
    (b"job0\t49\t49\t7\t0\t" + b"9" * 18 + b"\n", 1, None, "would last"),
    (b"job0\t49\t49\t7\t" + b"9" * 18 + b"\t3\n", 1, None, "keys"),
]


class TestBrokenFiles:
    @pytest.mark.parametrize(("raw", "line", "column", "reason"), BROKEN)
    def test_error_names_file_line_column_and_reason(self, tmp_path: Path, raw, line, column, reason):
        path = write(tmp_path, raw)
        with pytest.raises(TraceError) as caught:
            jobs_of(path)
        error = caught.value
        assert (error.path, error.line, error.column) == (path, line, column)
        assert reason in error.reason
        place = str(path) if line is None else f"{path}:{line}"
        assert error.message.startswith(f"{place}: ")
        assert len(error.message) < 500
        assert "\n" not in error.message

    def test_a_file_that_is_not_there_or_no_file(self, tmp_path: Path):
        for path in (tmp_path / "none.tsv", tmp_path):
            with pytest.raises(TraceError, match="cannot be read"):
                jobs_of(path)

    def test_rows_before_a_broken_one_are_delivered(self, tmp_path: Path):
        """The reader streams: it does not read ahead of the row it hands out."""
        rows = read_rows(write(tmp_path, GOOD + b"broken\n"))
        assert [next(rows).job_id, next(rows).job_id] == ["job0", "job1"]
        with pytest.raises(TraceError):
            next(rows)


PIECES = [b"\t", b"\n", b"\r\n", b"-1", b"NaN", b"\xff", b"\x00", b"9" * 30, b"job0", b" ", b".", b""]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    edits=st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 20), st.one_of(st.sampled_from(PIECES), st.binary(max_size=8))),
        min_size=1,
        max_size=6,
    )
)
def test_a_mutated_file_gives_jobs_or_a_trace_error(tmp_path: Path, edits):
    raw = b"".join(FIRST_50.read_bytes().splitlines(keepends=True)[12:22])
    for position, removed, inserted in edits:
        raw = raw[:position] + inserted + raw[position + removed :]
    path = write(tmp_path, raw)
    with contextlib.suppress(TraceError):
        jobs = jobs_of(path)
        assert 0 < len(jobs) <= raw.count(b"\n") + 1
        for job in jobs.values():
            assert job.map_ns
            assert min(job.map_ns + job.reduce_ns) > 0
            assert len(job.reduce_ns) <= 23
            assert min(job.reduce_keys, default=1) >= 1
            assert job.output_bytes is not None
            assert job.output_bytes >= 1024
