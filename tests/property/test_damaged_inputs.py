"""Every file that natjam reads, damaged: it is taken or refused in words, never with a traceback, and soon.

``tests/damage.py`` says how to try many; traces are in ``test_broken_traces.py``.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.parquet
import pytest
import zstandard

from analysis.compare import compare_runs
from analysis.evictions import evictions
from analysis.explain import evictions_table, explain, notes
from analysis.load import load
from analysis.report.page import report_of
from analysis.verify_run import verify_runs
from emulator.campaign.definition import load_campaign
from emulator.campaign.directory import PLAN_NAME, CampaignDirectory
from emulator.chaos.runner import SavedFaults, replay_faults
from emulator.chaos.schedule import FaultKind, draw_faults
from emulator.costs.calibration import dump_calibration
from emulator.costs.calibration_file import load_calibration
from emulator.costs.overheads import load_overheads
from emulator.errors import NatjamError
from emulator.experiment.availability import read_steps
from emulator.experiment.expand import expand
from emulator.experiment.jobs_file import encode_jobs
from emulator.experiment.load import load_experiment
from emulator.records.replay import replay_journal
from emulator.resolved import resolve
from tests.calibrations import make_calibration
from tests.damage import PIECES, YAML_PIECES, damaged, try_many
from tests.simulated_runs import CATALOGUE, simulate

EXPERIMENTS = [
    path for path in sorted(CATALOGUE.glob("*.yaml")) if "large" not in path.stem and "small" not in path.stem
]
ALL_PIECES = [*PIECES, *YAML_PIECES]
TABLES = ("jobs", "tasks", "attempts", "operations", "decisions")
QUEUES = """\
name: small
engine: sim
overheads: hadoop-0.23
cluster: {nodes: 2, containers_per_node: 2}
scheduler:
  allocation: {name: two-queue, queues: {q: {capacity: 0.5}, production: {capacity: 0.25}, research: {capacity: 0.25}}}
"""
VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    2**31,
    2**63 - 1,
    -0.5,
    1e300,
    "",
    "x",
    "node-1",
    "\x00",
    [],
    {},
    [1],
    {"a": 1},
]


def yaml_damage(rng: random.Random, path: Path, whole: bytes) -> Path:
    path.write_bytes(damaged(rng, whole, ALL_PIECES))
    return path


def test_experiments(tmp_path: Path) -> None:
    texts = [path.read_bytes() for path in EXPERIMENTS]
    shutil.copytree(CATALOGUE.parent / "data", tmp_path.parent / "data", dirs_exist_ok=True)

    def one(rng: random.Random) -> None:
        experiment = load_experiment(yaml_damage(rng, tmp_path / "experiment.yaml", rng.choice(texts)))
        resolve(experiment, ())
        if experiment.workload.trace is None:
            expand(experiment, experiment.seed)

    try_many("experiments", one)


def test_profiles(tmp_path: Path) -> None:
    whole = b"name: mine\nsource: here\nschedule_s: 2.6\nsuspend_s: 2.5\nresume_s: 2.6\nheartbeat_s: 1.0\n"
    path = tmp_path / "profile.yaml"
    try_many("profiles", lambda rng: load_overheads(str(yaml_damage(rng, path, whole)), tmp_path))


def test_calibrations(tmp_path: Path) -> None:
    whole = dump_calibration(make_calibration()).encode()

    def one(rng: random.Random) -> None:
        path = yaml_damage(rng, tmp_path / "calibration.yaml", whole)
        load_calibration(path).described(path)

    try_many("calibrations", one)


def test_campaigns(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_bytes((CATALOGUE / "natjam-fig4.yaml").read_bytes())
    whole = (
        b"name: c\nexperiment: experiment.yaml\nset: {engine: sim}\n"
        b"grid: {scheduler.task_eviction: [srt, lrt], scheduler.mechanism: [kill, suspend]}\n"
        b"variants:\n  - {name: a}\n  - {name: b, set: {workload.jobs.1.submit_s: 10}}\nseeds: 3\n"
    )
    try_many("campaigns", lambda rng: load_campaign(yaml_damage(rng, tmp_path / "campaign.yaml", whole)))


def test_plans_of_campaigns(tmp_path: Path) -> None:
    entries = {f"a/seed-{seed}": {"variant": "a", "seed": seed, "sha256": "0" * 64} for seed in (1, 2)}
    whole = json.dumps({"natjam_campaign": 1, "name": "c", "runs": entries}).encode()
    for name in entries:
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "summary.json").write_text("{}")

    def one(rng: random.Random) -> None:
        CampaignDirectory(yaml_damage(rng, tmp_path / PLAN_NAME, whole).parent).made()

    try_many("plans of campaigns", one)


def test_files_of_jobs(tmp_path: Path) -> None:
    jobs = load_experiment(CATALOGUE / "natjam-fig4.yaml").workload.jobs
    whole = encode_jobs(jobs or ())
    experiment = tmp_path / "experiment.yaml"
    experiment.write_text(QUEUES + "workload: {jobs: {file: workload.jsonl}}\n")

    def one(rng: random.Random) -> None:
        yaml_damage(rng, tmp_path / "workload.jsonl", whole)
        expand(load_experiment(experiment), 1)

    try_many("files of jobs", one)


def test_availability(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    wholes = (b"time_s,containers\n0,8\n60.5,0\n3600,4\n", b"time_s,share\n0,1\n60.5,0\n3600,0.4\n")
    try_many("availability", lambda rng: read_steps(yaml_damage(rng, path, rng.choice(wholes)), 8, 7200.0))


def test_faults(tmp_path: Path) -> None:
    (tmp_path / "experiment.yaml").write_text(
        QUEUES + "workload: {jobs: [{name: j, queue: q, maps: 1, map_s: 1, reduces: 2, reduce_s: [3], key_s: 1}]}\n"
    )
    faults = draw_faults(1, 20 * 10**9, list(FaultKind))
    whole = msgspec.json.encode(SavedFaults(1, 20 * 10**9, faults, "as it was found"))
    try_many("faults", lambda rng: replay_faults(yaml_damage(rng, tmp_path / "faults.json", whole)))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small runs: a simulation of each mechanism."""
    directory = tmp_path_factory.mktemp("runs")
    small = (
        "workload.jobs.0.reduces=12",
        "workload.jobs.1.reduces=6",
        "cluster.nodes=2",
        "cluster.containers_per_node=6",
    )
    for mechanism in ("suspend", "kill"):
        simulate(directory, mechanism, f"scheduler.mechanism={mechanism}", *small)
    return directory


def test_journals(runs: Path, tmp_path: Path) -> None:
    whole = (runs / "suspend/journal.jsonl.zst").read_bytes()
    lines = zstandard.ZstdDecompressor().decompressobj().decompress(whole)
    shutil.copy(runs / "suspend/experiment.yaml", tmp_path)
    journal = tmp_path / "journal.jsonl.zst"

    def one(rng: random.Random) -> None:
        packed = rng.random() < 0.3
        journal.write_bytes(damaged(rng, whole) if packed else zstandard.compress(damaged(rng, lines)))
        if journal.read_bytes() != whole:
            assert replay_journal(journal).difference is None

    try_many("journals", one)


def test_run_directories(runs: Path, tmp_path: Path) -> None:
    other, run = runs / "kill", tmp_path / "run"
    shutil.copytree(runs / "suspend", run)
    files = {
        path.name: path.read_bytes() for path in run.iterdir() if path.suffix in (".json", ".yaml", ".parquet", ".zst")
    }
    tables = {name: pyarrow.parquet.read_table(run / f"{name}.parquet") for name in TABLES}
    uses: list[Callable[[], object]] = [
        lambda: load(run),
        lambda: evictions(run),
        lambda: (found := explain(run), evictions_table(found), notes(found)),
        lambda: compare_runs(run, other),
        lambda: report_of([run]),
        lambda: report_of([run, other]),
        lambda: [checked.findings for checked in verify_runs(run)],
    ]

    def one(rng: random.Random) -> None:
        name = rng.choice([*files, *(f"{table}.parquet" for table in TABLES)])
        if name.endswith(".parquet") and rng.random() < 0.8:
            altered_table(rng, tables[name.removesuffix(".parquet")], run / name)
        elif name == "summary.json" and rng.random() < 0.7:
            (run / name).write_text(json.dumps(altered(rng, json.loads(files[name]))))
        elif rng.random() < 0.05:
            (run / name).unlink()
        else:
            (run / name).write_bytes(damaged(rng, files[name], ALL_PIECES))
        try:
            rng.choice(uses)()
        finally:
            (run / name).write_bytes(files[name])

    try_many("run directories", one)


def altered(rng: random.Random, value: Any) -> Any:
    """A value of JSON with something in it changed, added, renamed or gone."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.1:
        return rng.choice(VALUES)
    places: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    place = rng.choice(places)
    kind = rng.random()
    if kind < 0.75:
        value[place] = altered(rng, value[place])
    elif kind < 0.85 and isinstance(value, dict):
        value[f"{place}x"] = value.pop(place)
    elif kind < 0.95:
        del value[place]
    elif isinstance(value, list):
        value.append(value[place])
    return value


def altered_table(rng: random.Random, table: pyarrow.Table, path: Path) -> None:
    """Write a table with a column changed, renamed or gone, with other rows, or with another value somewhere."""
    place = rng.randrange(table.num_columns)
    name, column = table.column_names[place], table.column(place)
    kind = rng.randrange(6)
    if kind == 0:
        table = table.drop_columns([name])
    elif kind == 1:
        table = table.rename_columns(
            [other if other != name else rng.choice(("", "x", "run")) for other in table.column_names]
        )
    elif kind == 2:
        with contextlib.suppress(pyarrow.ArrowException):
            table = table.set_column(
                place, name, column.cast(rng.choice((pyarrow.string(), pyarrow.int32(), pyarrow.float32())))
            )
    elif kind == 3 and len(table):
        rows = [rng.randrange(len(table)) for _ in range(rng.choice((0, 1, len(table))))]
        table = table.take(pyarrow.array(rows, pyarrow.int64()))
    elif len(table):
        values = column.to_pylist()
        for _ in range(rng.choice((1, 1, 3))):
            row = rng.randrange(len(values))
            values[row] = rng.choice([None, *rng.sample(values, min(3, len(values))), *_others(values[row])])
        with contextlib.suppress(pyarrow.ArrowException, TypeError, OverflowError, AttributeError):
            table = table.set_column(place, name, pyarrow.chunked_array([pyarrow.array(values, column.type)]))
    pyarrow.parquet.write_table(table, path)


def _others(value: Any) -> list[Any]:
    if isinstance(value, str):
        return ["", "x", "\x00", "node-9", "reduce", "killed", "kill"]
    if isinstance(value, list):
        return [[], [dict.fromkeys(("stopped_s", "resumed_s", "asked_s", "freed_s", "resume_ready_s"), 1.0)]]
    return [0, -1, 7, 1e9, 1e300, math.nan, math.inf, 2**31, -0.5]


def test_a_refusal_names_the_file_and_the_column(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(runs / "suspend", run)
    table = pyarrow.parquet.read_table(run / "attempts.parquet")
    for change, said in (
        (table.drop_columns(["node"]), "attempts.parquet: column 'node' is missing; it was altered since the run"),
        (
            table.rename_columns([name.replace("ended_s", "end_s") for name in table.column_names]),
            "column 'ended_s' is m",
        ),
        (
            table.set_column(3, "task", table.column("task").cast(pyarrow.string())),
            "column 'task' is string, not int64",
        ),
        (
            table.set_column(3, "task", pyarrow.array([None] * len(table), pyarrow.int64())),
            "column 'task' lacks values",
        ),
        (
            table.set_column(3, "task", pyarrow.array([-1] * len(table), pyarrow.int64())),
            "column 'task' holds -1, which",
        ),
        (table.take([0, 0]), "column 'attempt' has a value twice"),
        (
            table.set_column(table.column_names.index("outcome"), "outcome", pyarrow.array(["x"] * len(table))),
            "column 'outcome' holds 'x', which is none of ",
        ),
    ):
        pyarrow.parquet.write_table(change, run / "attempts.parquet")
        with pytest.raises(NatjamError) as refused:
            load(run)
        assert said in refused.value.message
        assert "\n" not in refused.value.message
    pyarrow.parquet.write_table(table, run / "attempts.parquet")
    decisions = pyarrow.parquet.read_table(run / "decisions.parquet")
    place = decisions.column_names.index("by")
    for by, said in (("reduce", "column 'by' holds 'reduce'"), ("preemptor", "column 'kind' does not fit column 'by'")):
        altered_by = decisions.set_column(place, "by", pyarrow.array([by] * len(decisions)))
        pyarrow.parquet.write_table(altered_by, run / "decisions.parquet")
        with pytest.raises(NatjamError, match=said):
            evictions(run)
    one = decisions.set_column(
        decisions.column_names.index("decision"), "decision", pyarrow.array([1] * len(decisions))
    )
    pyarrow.parquet.write_table(one, run / "decisions.parquet")
    with pytest.raises(NatjamError, match="candidates of one decision differ in a column that they share"):
        evictions(run)
    pyarrow.parquet.write_table(decisions, run / "decisions.parquet")
    whole = (run / "jobs.parquet").read_bytes()
    (run / "jobs.parquet").write_bytes(whole.replace(b"attempts", b"\xdbttempts"))
    with pytest.raises(NatjamError, match=r"jobs.parquet: cannot be read: .*'utf-8' codec"):
        load(run)
    (run / "jobs.parquet").write_bytes(whole)
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps({**summary, "makespan_s": "long"}))
    with pytest.raises(NatjamError, match=r"summary.json: Expected `float \| null`, got `str` - at `\$.makespan_s`"):
        load(run)
    (run / "summary.json").write_text(json.dumps(summary))
    text = (run / "experiment.yaml").read_text()
    (run / "experiment.yaml").write_text(text[: len(text) // 2])
    with pytest.raises(NatjamError, match=r"experiment.yaml:"):
        load(run)
