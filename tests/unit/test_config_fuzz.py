"""Experiment files: whatever is in them, only a ConfigError is raised; and dumping and loading are inverse."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import yaml
from experiment_files import VALID, complaints, write
from hypothesis import example, given
from hypothesis import strategies as st

from emulator.experiment.load import load_experiment
from emulator.experiment.model import dump_experiment
from emulator.files.yaml_values import dump_yaml
from tests.examples import drawn

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just([1, "a"]),
)


def locations(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, item in inside for place in locations(item, (*here, key)))]


VALID_DATA = yaml.safe_load(VALID)


@given(location=st.sampled_from([place for place in locations(VALID_DATA) if place]), value=LEAVES)
@example(location=("scheduler", "job_eviction"), value=" \x85")
def test_any_value_anywhere_raises_only_config_errors(tmp_path: Path, location: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(VALID_DATA)
    container = data
    for part in location[:-1]:
        container = container[part]
    container[location[-1]] = value
    path = write(tmp_path, dump_yaml(data))
    assert all(line.startswith(f"{path}:") for line in complaints(path))


@given(text=st.text(max_size=40))
def test_any_override_raises_only_config_errors(tmp_path: Path, text: str) -> None:
    path = write(tmp_path, VALID)
    for override in (text, f"seed={text}", f"{text}=1", f"workload.jobs.{text}=1"):
        complaints(path, override)


lengths = st.floats(0.01, 1000)
times = st.floats(0, 1e6)


@st.composite
def experiments(draw: st.DrawFn) -> dict[str, Any]:
    """Valid experiments, as data."""
    capacity = draw(st.floats(0.1, 0.8))
    names = draw(
        st.lists(st.from_regex(r"[a-zA-Z0-9][ -~éßЖ]{0,12}", fullmatch=True), min_size=1, max_size=4, unique=True)
    )
    reduce_s = st.one_of(
        lengths,
        st.lists(lengths, min_size=1, max_size=4),
        st.fixed_dictionaries({"uniform": st.just([0.25, 1.0]), "longest": lengths}),
    )
    job = st.fixed_dictionaries(
        {"queue": st.sampled_from(["production", "research"]), "maps": st.integers(1, 9), "reduces": st.integers(0, 9)},
        optional={
            "submit_s": times,
            "map_s": lengths,
            "reduce_s": reduce_s,
            "key_s": lengths,
            "priority": st.integers(-9, 9),
            "memory_mb": st.integers(1, 1024),
            "shuffle_mb": st.floats(0, 1e6),
        },
    )
    protocol = st.fixed_dictionaries(
        {},
        optional={
            "preemptor_period_s": st.one_of(st.none(), lengths),
            "news": st.sampled_from(("heartbeat", "out-of-turn", "at-once")),
            "expired_s": times,
            "slow_start": st.floats(0, 1),
        },
    )
    return {
        "name": draw(st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "time_scale": draw(st.floats(1e-3, 1e6)),
        "heartbeat_s": draw(lengths),
        "overheads": draw(st.sampled_from(["native", "hadoop-0.23"])),
        "protocol": draw(protocol),
        "cluster": {"nodes": draw(st.integers(25, 90)), "containers_per_node": draw(st.integers(1, 16))},
        "scheduler": {
            "allocation": {
                "name": draw(st.sampled_from(["two-queue", "soft-cap", "hard-cap"])),
                "queues": {
                    "production": {"capacity": capacity},
                    "research": {"capacity": draw(st.floats(0.05, 1 - capacity))},
                },
            },
            "job_eviction": draw(st.sampled_from(["mr", "lr", "pr"])),
            "task_eviction": draw(st.sampled_from(["srt", "lrt", "random"])),
        },
        "workload": {"jobs": [{"name": name, **draw(job)} for name in names]},
    }


@drawn
@given(data=experiments())
def test_a_dumped_experiment_loads_back_equal(tmp_path: Path, data: dict[str, Any]) -> None:
    experiment = load_experiment(write(tmp_path, dump_yaml(data)))
    dumped = dump_experiment(experiment)
    again = load_experiment(write(tmp_path, dumped, "resolved.yaml"))
    assert again == experiment
    assert dump_experiment(again) == dumped


def test_the_catalogue_is_valid_and_loads_back_equal(tmp_path: Path) -> None:
    files = sorted((Path(__file__).resolve().parents[2] / "workloads/catalog").glob("*.yaml"))
    assert files
    for file in files:
        experiment = load_experiment(file)
        assert load_experiment(write(tmp_path, dump_experiment(experiment))) == experiment
