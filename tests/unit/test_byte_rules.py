"""Tasks made of bytes: the rules against hand-computed values and SWIM's own scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.core.job import JobSpec
from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.model import Experiment
from tests.traces import FIRST_50, write
from workloads.schema import Rates


def jobs_of(
    path: Path, *, nodes: int = 3, containers: int = 24, seed: int = 1, rates: Rates | None = None, **fields
) -> dict[str, JobSpec]:
    """The jobs of a SWIM file in an experiment on ``nodes`` nodes with ``containers`` containers together."""
    queues = {name: {"capacity": 0.5} for name in ("production", "research")}
    trace = {"format": "swim", "path": str(path), "production_fraction": 0.5, "rates": rates or Rates(), **fields}
    experiment = Experiment.model_validate(
        {
            "name": "unit",
            "cluster": {"nodes": nodes, "containers_per_node": containers // nodes, "memory_gb": 1000.0},
            "scheduler": {"allocation": {"name": "two-queue", "queues": queues}, "mechanism": "checkpoint"},
            "workload": {"trace": trace},
        }
    )
    return {job.name: job for job in expand(experiment, seed)}


class TestRules:
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
        rates = Rates(
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
        rates = Rates()
        full_map_s = rates.map_overhead_s + rates.bytes_per_map / rates.map_mb_s / 1e6
        full_reduce_s = rates.reduce_overhead_s + rates.bytes_per_reduce / rates.reduce_mb_s / 1e6
        assert full_map_s == pytest.approx(19, abs=0.01)
        assert full_reduce_s == pytest.approx(231, abs=0.01)

    @pytest.mark.parametrize(("shuffle_bytes", "reduces"), [(1, 1), (148_975, 1), (148_976, 2), (248_976, 3)])
    def test_reduces_are_rounded_half_up(self, tmp_path: Path, shuffle_bytes: int, reduces: int):
        path = write(tmp_path, b"j\t0\t0\t0\t%d\t0\n" % shuffle_bytes)  # the output's floor adds 1,024 bytes
        rates = Rates(source_nodes=1, bytes_per_reduce=100_000)
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


class TestSwimsOwnRules:
    """What SWIM's replay scripts do (GenerateReplayScript.java), on its own example: 10 nodes, 64 MiB."""

    SWIM = Rates(byte_rules="swim")

    def test_tasks_are_those_of_the_scripts_in_its_repository(self):
        jobs = jobs_of(FIRST_50, nodes=10, containers=1000, rates=self.SWIM)
        tasks = {name: (len(job.map_ns), len(job.reduce_ns)) for name, job in jobs.items()}
        larger = {name: counts for name, counts in tasks.items() if counts != (1, 1)}
        shuffled = {"job17": (3, 4), "job19": (2, 1)}
        map_only = {"job34": (1, 5), "job37": (1, 2), "job38": (1, 2), "job39": (1, 2), "job40": (1, 6)}
        assert larger == {**shuffled, **map_only}

    def test_more_reduces_than_nodes_become_a_fifth_of_the_nodes(self, tmp_path: Path):
        path = write(tmp_path, b"j\t0\t0\t0\t%d\t0\n" % (64 * 2**20 * 11))
        rates = Rates(byte_rules="swim", source_nodes=10)
        assert len(jobs_of(path, nodes=10, containers=100, rates=rates)["j"].reduce_ns) == 2
        few = Rates(byte_rules="swim", source_nodes=3)
        assert len(jobs_of(path, nodes=3, containers=99, rates=few)["j"].reduce_ns) == 1

    def test_a_split_holds_86_percent_of_its_bytes(self, tmp_path: Path):
        path = write(tmp_path, b"j\t0\t0\t%d\t0\t0\n" % (64 * 2**20))
        assert len(jobs_of(path, nodes=600, containers=1200, rates=self.SWIM)["j"].map_ns) == 2


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (b"job0\t49\t49\t%d\t2\t3\n", "above 100000"),
        (b"job0\t49\t49\t7\t0\t%d\n", "would last"),
        (b"job0\t49\t49\t7\t%d\t3\n", "would last"),
    ],
)
def test_more_than_can_be(tmp_path: Path, row: bytes, reason: str):
    path = write(tmp_path, row % (10**18 - 1))
    with pytest.raises(ConfigError, match=reason):
        jobs_of(path)


def test_more_keys_than_can_be(tmp_path: Path):
    path = write(tmp_path, b"j\t0\t0\t0\t%d\t0\n" % 10**12)
    with pytest.raises(ConfigError, match=r"keys; raise rates\.key_s"):
        jobs_of(path, nodes=1, containers=2, rates=Rates(source_nodes=1, key_s=1e-3))
