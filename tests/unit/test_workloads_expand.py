"""Jobs of an experiment file become frozen jobs: same draws everywhere, exactly one longest task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from emulator.errors import ConfigError
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.files.times import seconds_to_ns
from workloads.draws import lengths_ns
from workloads.schema import JobEntry, UniformLengths

ROOT = Path(__file__).resolve().parents[2]
CATALOG = ROOT / "workloads" / "catalog"


def experiment(*jobs: dict[str, Any]) -> Experiment:
    queues = {name: {"capacity": 0.5, "maximum": 1.0} for name in ("production", "research")}
    return Experiment.model_validate(
        {
            "name": "unit",
            "cluster": {"nodes": 2, "containers_per_node": 4, "container_memory_gb": 0.5, "memory_gb": 4.0},
            "scheduler": {"allocation": {"name": "two-queue", "queues": queues}, "mechanism": "checkpoint"},
            "workload": {"jobs": tuple(jobs)},
        }
    )


def job(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "queue": "research", "maps": 1, "reduces": 3, **fields}


def test_lists_are_cycled_and_times_are_exact_nanoseconds():
    (a,) = expand(experiment(job(reduces=5, reduce_s=(0.1, 2.3), submit_s=1234567.123456789, map_s=0.7)), 1)
    assert a.reduce_ns == (100_000_000, 2_300_000_000, 100_000_000, 2_300_000_000, 100_000_000)
    assert a.submit_ns == 1_234_567_123_456_789
    assert a.map_ns == (700_000_000,)


def test_a_deadline_is_absolute_or_counts_from_the_submission():
    jobs = [job("a", submit_s=10.5, deadline_s=70.5), job("b", submit_s=10.5, deadline_after_s=60), job("c")]
    absolute, after, none = expand(experiment(*jobs), 1)
    assert absolute.facts.deadline_ns == after.facts.deadline_ns == 70_500_000_000
    assert none.facts.deadline_ns is None
    with pytest.raises(ValidationError, match="not both"):
        experiment(job(deadline_s=70, deadline_after_s=60))
    with pytest.raises(ValidationError, match="deadline_after_s counts from the submission"):
        experiment(job(submit_s=70, deadline_s=60))


def test_keys_follow_length_and_are_at_least_one():
    (a,) = expand(experiment(job(reduces=3, reduce_s=(0.4, 2.6, 60.0), key_s=1.0)), 1)
    assert a.reduce_keys == (1, 3, 60)


def test_memory_is_the_containers_unless_the_job_says_less():
    small, default = expand(experiment(job("a", memory_mb=100), job("b")), 1)
    assert small.facts.memory_bytes == 100 * 2**20
    assert default.facts.memory_bytes == 2**29


@given(
    low=st.floats(0, 0.99),
    width=st.floats(0.001, 1),
    longest=st.floats(0.001, 1e5),
    count=st.integers(0, 60),
    key=st.text(max_size=10),
)
def test_drawn_lengths_are_in_range_and_exactly_one_is_the_longest(low, width, longest, count, key):
    lengths = UniformLengths(uniform=(low, min(1.0, low + width)), longest=longest)
    drawn = lengths_ns(lengths, count, key)
    longest_ns = seconds_to_ns(longest)
    assert len(drawn) == count
    assert sum(length == longest_ns for length in drawn) == min(count, 1)
    others = [length for length in drawn if length != longest_ns]
    assert all(int(low * longest_ns) < length <= lengths.uniform[1] * longest_ns for length in others)


def test_draws_fill_the_interval():
    drawn = lengths_ns(UniformLengths(uniform=(0.5, 1.0), longest=10.0), 2000, "fill")
    assert min(drawn) < 5.05e9
    assert abs(sum(drawn) / 2000 - 7.5e9) < 0.1e9


def only(whole: Experiment, **part: tuple[str, ...]) -> Experiment:
    return Experiment.model_validate(whole.model_dump() | {"workload": {**whole.workload.model_dump(), "only": part}})


def test_a_part_of_a_workload_is_as_in_the_whole():
    form = {"uniform": (0.5, 1.0), "longest": 60.8}
    whole = experiment(job("a", reduce_s=form), job("b", queue="production", submit_s=7.0), job("c"))
    a, b, c = expand(whole, 3)
    assert expand(only(whole, queues=("research",)), 3) == (a, c)
    assert expand(only(whole, jobs=("b", "c")), 3) == (b, c)
    assert expand(only(whole, queues=("research",), jobs=("b", "c")), 3) == (c,)


def test_a_part_of_a_trace_must_be_there():
    whole = load_experiment(CATALOG / "facebook-50.yaml")
    jobs = expand(whole, 1)
    production = expand(only(whole, queues=("production",)), 1)
    assert 0 < len(production) < len(jobs)
    assert set(production) <= set(jobs)
    assert expand(only(whole, jobs=(jobs[7].name,)), 1) == (jobs[7],)
    with pytest.raises(ConfigError, match=r"workload\.only\.jobs: the trace has no job 'x'"):
        expand(only(whole, jobs=(jobs[7].name, "x")), 1)
    other = "research" if jobs[7].queue == "production" else "production"
    with pytest.raises(ConfigError, match="leaves no job to run"):
        expand(only(whole, jobs=(jobs[7].name,), queues=(other,)), 1)


def test_adding_a_job_moves_no_other_draw():
    form = {"uniform": (0.5, 1.0), "longest": 60.8}
    a, b = job("a", reduce_s=form, map_s=form, maps=7), job("b", reduce_s=form)
    alone = expand(experiment(a), 5)
    both = expand(experiment(b, a), 5)
    assert alone[0] == both[1]
    assert both[0].reduce_ns != both[1].reduce_ns
    assert expand(experiment(a), 6) != alone
    assert alone[0].map_ns[:3] != alone[0].reduce_ns


def test_draws_of_release_one_stay():
    """A change here changes every published run: the draws are part of the contract of a seed."""
    drawn = lengths_ns(UniformLengths(uniform=(0.5, 1.0), longest=10.0), 4, "1:a:reduce-lengths")
    assert drawn == (5_909_434_153, 10_000_000_000, 9_135_301_709, 7_712_357_901)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reduce_s": {"uniform": (1.0, 0.5), "longest": 1.0}}, "below the second"),
        ({"reduce_s": {"uniform": (0.5, 1.5), "longest": 1.0}}, "less than or equal to 1"),
        ({"reduce_s": ()}, "at least 1 item"),
        ({"reduce_s": float("nan")}, "finite"),
        ({"reduce_s": -1.0}, "greater than"),
        ({"submit_s": -1.0}, "greater than"),
        ({"maps": 0, "reduces": 0}, "at least one map or one reduce"),
        ({"maps": -1}, "greater than"),
        ({"deadline_s": 5.0, "submit_s": 5.0}, "absolute"),
        ({"reduce_s": 1000.0, "key_s": 1e-6}, "keys"),
        ({"reduces": "3"}, "valid integer"),
        ({"extra": 1}, "not permitted"),
    ],
)
def test_bad_jobs_are_refused(fields: dict[str, Any], reason: str):
    with pytest.raises(ValidationError, match=reason):
        JobEntry.model_validate(job(**fields))


class TestCatalogue:
    def test_fig4_and_its_jobs_alone_have_the_same_lengths(self):
        research, production = expand(load_experiment(CATALOG / "natjam-fig4.yaml"), 1)
        assert (len(research.reduce_ns), max(research.reduce_ns)) == (47, 172_600_000_000)
        assert (len(production.reduce_ns), max(production.reduce_ns)) == (11, 57_700_000_000)
        assert production.submit_ns == 50_000_000_000
        for job in (research, production):
            alone = load_experiment(CATALOG / "natjam-fig4.yaml", [f"workload.only.jobs=[{job.name}]"])
            assert expand(alone, 1) == (job,)


def test_a_job_of_programs_is_one_of_reduces_for_the_machines() -> None:
    tasks = {"count": 2, "length_s": 30, "memory_gb": 0.5, "sha256": {"stdout": "0" * 64}}
    (spec,) = expand(experiment({"name": "a", "queue": "research", "tasks": tasks | {"command": ("sleep", "1")}}), 1)
    assert spec.program is not None
    assert spec.program.command == ("sleep", "1")
    assert (spec.reduce_ns, spec.reduce_keys, spec.map_ns) == ((30 * 10**9,) * 2, (1, 1), ())
    assert spec.facts.held_by("tasks", 1) == 1 << 29


@pytest.mark.parametrize("besides", [{"maps": 1}, {"reduces": 1}, {"memory_gb": 1}])
def test_programs_stand_in_place_of_maps_and_reduces(besides: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="tasks replaces maps"):
        JobEntry(name="a", queue="q", tasks={"command": ("true",), "length_s": 1}, **besides)  # type: ignore
