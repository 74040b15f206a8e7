"""What a record costs to write and to read back: `pytest tests/benchmarks/test_journal_costs.py`."""

from __future__ import annotations

from pytest_benchmark.fixture import BenchmarkFixture

from emulator.core.completions import Exited
from emulator.core.effects import Launch, Send, SetTimer
from emulator.core.messages import ContainerReport, ContainerReported, ContainerState, Outcome, StartContainer
from emulator.core.saved import KeyCheckpoint
from emulator.records.journal import Record, decode_record, encode_record
from emulator.vocabulary import REDUCE

CHECKPOINT = KeyCheckpoint(("container-000007", "container-000101"), 63, "/tmp/natjam-1/node-3/local/r17", "node-3")
START = StartContainer("container-000123", "research-XL", REDUCE, 17, "research-XL/r017.2", 93_120_000_000, CHECKPOINT)
LAUNCH = Launch("container-000123", "research-XL", REDUCE, 17, "research-XL/r017.2", 97_000_000_000, CHECKPOINT)
REPORT = ContainerReport(
    "container-000123",
    "research-XL",
    REDUCE,
    "node-3",
    5,
    ContainerState.DONE,
    outcome=Outcome.SUCCEEDED,
    ready_ns=93_120_000_000,
    first_key_ns=97_004_000_000,
    input_ready_ns=93_200_000_000,
    keys_done=182,
)
RECORDS = [
    Record(93_500_000_000, 41, "nm:node-3", START, (LAUNCH,)),
    Record(
        191_000_000_000,
        42,
        "nm:node-3",
        Exited("container-000123", 0, None, 182),
        (Send("am:research-XL", ContainerReported(REPORT)), SetTimer("release container-000123", 191_500_000_000, 7)),
    ),
]
LINES = [encode_record(record) for record in RECORDS]


def test_encode(benchmark: BenchmarkFixture) -> None:
    """Two typical records, the larger kind."""
    assert benchmark(lambda: [encode_record(record) for record in RECORDS]) == LINES


def test_decode(benchmark: BenchmarkFixture) -> None:
    """The same two back."""
    assert benchmark(lambda: [decode_record(line) for line in LINES]) == RECORDS
