"""An experiment, an attempt, and the tables of records, shared by tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from emulator.core.job import JobSpec
from emulator.core.messages import Outcome
from emulator.core.settings import NodeSettings
from emulator.experiment.load import load_experiment
from emulator.experiment.model import Experiment
from emulator.records.history import AttemptRow, History, HistoryBuilder, SuspendedSpan
from emulator.records.journal import Record
from emulator.vocabulary import REDUCE

_TINY = """
name: tiny
cluster: {nodes: 2, containers_per_node: 2}
scheduler:
  allocation: {name: two-queue, queues: {production: {capacity: 0.5, maximum: 1}, research: {capacity: 0.5}}}
workload:
  jobs: [{name: j, queue: research, submit_s: 0, maps: 1, map_s: 1, reduces: 1, reduce_s: [2], key_s: 1}]
"""

ATTEMPT = AttemptRow(
    job="j",
    queue="research",
    kind=REDUCE,
    task=0,
    attempt="j/r000.0",
    container="container-000002",
    node="node-1",
    outcome=Outcome.SUCCEEDED,
    reason="",
    ready_ns=1_500_000_000,
    launched_ns=1_600_000_000,
    first_key_ns=1_700_000_000,
    input_ready_ns=None,
    suspend_asked_ns=2_000_000_000,
    ended_ns=9_000_000_000,
    slot_freed_ns=9_500_000_000,
    keys_start=0,
    keys_done=2,
    keys_total=2,
    resumed_from=None,
    suspended_spans=(
        SuspendedSpan(2_100_000_000, 3_000_000_000, 2_000_000_000, 2_500_000_000, 2_900_000_000),
        SuspendedSpan(4_000_000_000, None, 3_900_000_000, None, None),
    ),
    busy_ns=6_500_000_000,
    active_ns=6_400_000_000,
    useful_ns=6_400_000_000,
    lost_ns=0,
)


def tiny(folder: Path, *overrides: str) -> Experiment:
    """The least experiment, whose file is written into the folder."""
    (folder / "tiny.yaml").write_text(_TINY)
    return load_experiment(folder / "tiny.yaml", overrides)


def node(name: str, containers: int) -> NodeSettings:
    """A node with so many containers of one size."""
    return NodeSettings(name, "rack-1", containers, 2**30, containers * 2**30, 0, 8)


def fold(records: Iterable[Record], jobs: Iterable[JobSpec]) -> History:
    """The tables of the records of a whole run; ``jobs`` is its workload."""
    builder = HistoryBuilder(jobs)
    for record in records:
        builder.add(record)
    return builder.finish()
