"""The journal: every message and effect survives the file, broken files are named, empty heartbeats are left out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import orjson
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.completions import Launched, RealCost
from emulator.core.effects import Effect, Send, SetTimer
from emulator.core.machine import StateMachine
from emulator.core.messages import (
    AllocateResponse,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    Ask,
    ContainerReport,
    ContainerState,
    Message,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    Start,
    Tick,
    TimerFired,
)
from emulator.records.journal import (
    JournalError,
    JournalHeader,
    JournalTail,
    JournalWriter,
    Record,
    Recorder,
    decode_record,
    encode_record,
    is_empty_heartbeat,
    merge,
    read_journal,
)
from emulator.sites.kubernetes import PodDetails
from emulator.sites.kueue import WorkloadDetails
from emulator.sites.slurm import SlurmDetails
from emulator.vocabulary import MAP, REDUCE, Details, Frozen
from tests.examples import drawn
from tests.memory import MIB, most_bytes_taken

HEADER = JournalHeader("live", 1, 20.0, "ab" * 32, {"natjam": "0.1.0"})


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Anything the annotation allows: written apart from the codec, so that it does not share its mistakes."""
    origin, parameters = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return st.one_of([st.none() if one is NoneType else values_of(one) for one in parameters])
    if origin is tuple and parameters[-1] is Ellipsis:
        return st.lists(values_of(parameters[0]), max_size=2).map(tuple)
    if origin in (dict, Mapping):
        return st.dictionaries(*map(values_of, parameters), max_size=2)
    if origin is tuple:
        return st.tuples(*map(values_of, parameters))
    if hint is Details:
        return st.one_of([objects_of(each) for each in (PodDetails, WorkloadDetails, SlurmDetails)])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and issubclass(hint, Frozen):
        return objects_of(hint)
    if isinstance(hint, type) and issubclass(hint, tuple):
        return st.builds(hint, **{name: values_of(one) for name, one in get_type_hints(hint).items()})
    return {int: st.integers(-(2**63), 2**63 - 1), str: st.text(max_size=8), bool: st.booleans()}[hint]


def objects_of(cls: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{field.name: values_of(hints[field.name]) for field in msgspec.structs.fields(cls)})


RECORDS = objects_of(Record)


def record(t_ns: int = 5, seq: int = 0, actor: str = "nm:node-1") -> Record:
    message = Launched("container-000001", RealCost(1200))
    report = ContainerReport("container-000001", "j", REDUCE, "node-1", 2, ContainerState.RUNNING)
    heartbeat = NodeHeartbeat("node-1", 7, (report,))
    return Record(t_ns, seq, actor, message, (Send("rm", heartbeat), SetTimer("heartbeat", 9, 0)))


def write(path: Path, records: list[Record]) -> Path:
    with JournalWriter(path, HEADER) as writer:
        for each in records:
            writer.write(each)
    return path


# ---- one record ----


@given(RECORDS)
@drawn
def test_a_record_reads_back_equal_and_of_the_same_types(original: Record) -> None:
    read = decode_record(encode_record(original))
    assert read == original
    assert repr(read) == repr(original)  # repr tells an enum from its value and a tuple from a list


def test_every_message_and_effect_is_known() -> None:
    for known in map(get_args, (Message, Effect)):
        bases = {one.__base__ for one in known}
        assert set(known) == {one for base in bases for one in base.__subclasses__()}


def test_a_line_can_be_searched_for_types_and_names() -> None:
    line = encode_record(record()).decode()
    assert '"actor":"nm:node-1"' in line
    assert '"message":{"type":"Launched","container":"container-000001"' in line
    assert '{"type":"Send","to":"rm","message":{"type":"NodeHeartbeat","node":"node-1"' in line
    assert '"state":"running"' in line
    assert "\n" not in line


LEAVES = st.none() | st.booleans() | st.integers(0, 9) | st.floats(allow_nan=False) | st.text(max_size=4)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))


@given(JSON, st.data())
@drawn
def test_any_other_value_in_any_place_is_a_journal_error_or_a_record(value: Any, data: st.DataObject) -> None:
    tree = orjson.loads(encode_record(record()))
    place, key = tree, data.draw(st.sampled_from(sorted(tree)))
    while isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
        place = place[key]
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
    place[key] = value
    with contextlib.suppress(JournalError):
        assert isinstance(decode_record(orjson.dumps(tree)), Record)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        (b'"t_ns":5', b'"t_ns":5.0', "Expected `int`, got `float` - at `$.t_ns`"),
        (b'"seq":0,', b"", "missing required field `seq`"),
        (b'"seq":0', b'"seq":0,"extra":1', "unknown field `extra`"),
        (b'"Launched"', b'"Lunched"', "Invalid value 'Lunched' - at `$.message.type`"),
        (b'"SetTimer"', b'"Message"', "Invalid value 'Message' - at `$.effects[1].type`"),
        (
            b'"mechanism_real_ns":1200',
            b'"mechanism_real_ns":true',
            "Expected `int`, got `bool` - at `$.message.cost.mechanism_real_ns`",
        ),
        (b'"state":"running"', b'"state":"walking"', "Invalid enum value 'walking' - at"),
        (b'"freed":[', b'"freed":[3,', "Expected `object`, got `int` - at `$.effects[0].message.freed[0]`"),
    ],
)
def test_what_is_wrong_with_a_line_is_named(before: bytes, after: bytes, problem: str) -> None:
    line = encode_record(record())
    assert before in line
    with pytest.raises(JournalError) as caught:
        decode_record(line.replace(before, after))
    assert problem in caught.value.message


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(JournalError, match=r"not JSON: (maximum recursion depth|Stack overflow)"):  # before 3.14; since
        decode_record(b'{"message":{"cost":' + b"[" * 1_000_000)


# ---- files ----


def test_a_journal_reads_back(tmp_path: Path) -> None:
    records = [record(t_ns, t_ns) for t_ns in range(5000)]
    header, read = read_journal(write(tmp_path / "journal.jsonl.zst", records))
    assert header == HEADER
    assert list(read) == records


def test_a_truncated_file_yields_what_it_has_then_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "j", [record(t_ns * 7919, t_ns) for t_ns in range(15_000)])
    path.write_bytes(path.read_bytes()[:-100])
    _, read = read_journal(path)
    assert [next(read).seq for _ in range(1000)] == list(range(1000))
    with pytest.raises(JournalError, match=r"j: line \d{5}: the file is truncated"):
        list(read)


@pytest.mark.parametrize("cut", [0, 3, 20])
def test_a_file_cut_in_its_header_says_so(tmp_path: Path, cut: int) -> None:
    path = write(tmp_path / "j", [record()])
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(JournalError, match="j: line 1: the file is truncated"):
        read_journal(path)


def test_the_broken_line_is_numbered(tmp_path: Path) -> None:
    path = write(tmp_path / "j", [record()])
    *lines, end = lines_of(path)
    path.write_bytes(zstandard.compress(b"".join([*lines, b'{"t_ns":\n', end])))
    _, read = read_journal(path)
    assert next(read) == record()
    with pytest.raises(JournalError, match="j: line 3: not JSON"):
        next(read)


def lines_of(path: Path) -> list[bytes]:
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()).splitlines(keepends=True)


MUTILATIONS: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "last record": (lambda lines: [*lines[:-2], lines[-1]], "has 3 records of nm:node-3, but 4 were written"),
    "second half": (lambda lines: [*lines[:7], lines[-1]], "has 2 records of nm:node-1, but 4 were written"),
    "all but the header": (lambda lines: [lines[0], lines[-1]], "has 0 records of nm:node-1, but 4 were written"),
    "no end mark": (lambda lines: lines[:-1], "line 14: the end mark is missing: the journal is truncated"),
    "the header alone": (lambda lines: lines[:1], "line 2: the end mark is missing: the journal is truncated"),
    "one machine": (lambda lines: [line for line in lines if b'"nm:node-2","m' not in line], "0 records of nm:node-2"),
    "reordered": (lambda lines: [*lines[:1], *lines[2:4], lines[1], *lines[4:]], "altered or reordered"),
    "a number": (lambda lines: [line.replace(b"1200", b"1201") for line in lines], "altered or reordered"),
    "the header": (
        lambda lines: [lines[0].replace(b'"seed":1', b'"seed":2'), *lines[1:]],
        "altered or reordered",
    ),
    "a record twice": (lambda lines: [*lines[:3], *lines[2:]], "has 5 records of nm:node-2, but 4 were written"),
    "records after the end": (lambda lines: [*lines, lines[1]], "more data after the end of the journal"),
    "two ends": (lambda lines: [*lines, lines[-1]], "more data after the end of the journal"),
    "an end of another journal": (
        lambda lines: [*lines[:-1], b'{"natjam_journal_end":{},"sha256":"00"}\n'],
        "has 4 records of nm:node-1, but 0 were written",
    ),
    "an end that is none": (
        lambda lines: [*lines[:-1], b'{"natjam_journal_end":{}}\n'],
        "missing required field `sha256`",
    ),
}


@pytest.mark.parametrize("what", MUTILATIONS)
def test_a_mutilated_journal_is_said_to_be_so(tmp_path: Path, what: str) -> None:
    names = [f"nm:node-{number}" for number in (1, 2, 3)]
    path = write(tmp_path / "j", [record(t_ns, t_ns // 3, names[t_ns % 3]) for t_ns in range(12)])
    mutilate, said = MUTILATIONS[what]
    path.write_bytes(zstandard.compress(b"".join(mutilate(lines_of(path)))))
    with pytest.raises(JournalError) as caught:
        list(read_journal(path)[1])
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (b"", "empty"),
        (b"{}\n", "line 1: not the header of a natjam journal"),
        (b"[]\n", "line 1: not the header of a natjam journal"),
        (b'{"natjam_journal":1}\n', "this release reads version 5, found 1"),
        (b'{"natjam_journal":5,"engine":"live"}\n', "line 1: Object missing required field `seed`"),
        (b'{"natjam_journal":2', "line 1: the file is truncated"),
        (b"[" * 100_000 + b"\n", "line 1: not JSON: "),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, text: bytes, problem: str) -> None:
    (tmp_path / "j").write_bytes(zstandard.compress(text))
    with pytest.raises(JournalError) as caught:
        read_journal(tmp_path / "j")
    assert problem in caught.value.message
    assert str(tmp_path / "j") in caught.value.message


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello, this is no zstd data at all")
    with pytest.raises(JournalError, match="text: line 1: the compressed data is broken"):
        read_journal(tmp_path / "text")
    with pytest.raises(JournalError, match="missing: cannot be read: No such file"):
        read_journal(tmp_path / "missing")
    with pytest.raises(JournalError, match="cannot be read: Is a directory"):
        read_journal(tmp_path)
    path = write(tmp_path / "longer", [record()])
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(JournalError, match="more data after the end"):
        list(read_journal(path)[1])


# ---- order, and what is left out ----


def test_little_data_that_unpacks_to_very_much_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(b" " * (512 * MIB)))
    with most_bytes_taken(300 * MIB):
        with pytest.raises(JournalError, match="too long for a record"):
            read_journal(path)
        with contextlib.closing(JournalTail(path)) as tail, pytest.raises(JournalError, match="too long for a record"):
            tail.news()


def test_merge_is_by_time_then_actor_then_number() -> None:
    nm = [record(1, 0), record(3, 1), record(3, 2)]
    am = [record(2, 0, "am:j"), record(3, 1, "am:j")]
    assert [(r.t_ns, r.actor, r.seq) for r in merge([*nm, *am])] == [
        (1, "nm:node-1", 0),
        (2, "am:j", 0),
        (3, "am:j", 1),
        (3, "nm:node-1", 1),
        (3, "nm:node-1", 2),
    ]


REPORT = ContainerReport("c", "j", MAP, "node-1", 2, ContainerState.DONE)
TICK = Tick(5)


@pytest.mark.parametrize(
    ("message", "effects"),
    [
        (TICK, [Send("rm", NodeHeartbeat("node-1", 5))]),
        (TICK, [Send("rm", ApplicationHeartbeat("j", 5, 1))]),
        (TICK, []),
        (NodeHeartbeat("node-1", 5), [Send("nm:node-1", NodeHeartbeatResponse(5))]),
        (NodeHeartbeat("node-1", 5, (REPORT,)), [Send("nm:node-1", NodeHeartbeatResponse(5))]),  # heard before
        (ApplicationHeartbeat("j", 5, 1), [Send("am:j", ApplicationHeartbeatResponse(5))]),
        (NodeHeartbeatResponse(5), []),
        (ApplicationHeartbeatResponse(5), []),
    ],
)
def test_empty_heartbeats(message: Message, effects: list[Effect]) -> None:
    assert is_empty_heartbeat(message, effects, 7, 7)
    assert not is_empty_heartbeat(message, effects, 7, 8)


@pytest.mark.parametrize(
    ("message", "effects"),
    [
        (TICK, [Send("rm", NodeHeartbeat("node-1", 5, (REPORT,)))]),
        (TICK, [Send("rm", ApplicationHeartbeat("j", 5, 1, Ask(((MAP, 1),))))]),
        (TICK, [SetTimer("release c", 9, 1)]),
        (TICK, [Send("am:j", Start())]),
        (TimerFired("release c", 1, 5), []),
        (Start(), []),
        (Launched("c", RealCost(1)), []),
        (NodeHeartbeat("node-1", 5), [Send("nm:node-1", NodeHeartbeatResponse(5, ("j",)))]),
        (ApplicationHeartbeat("j", 5, 1), [Send("am:j", ApplicationHeartbeatResponse(5, AllocateResponse(1)))]),
        (ApplicationHeartbeat("j", 5, 1), [Send("am:j", ApplicationHeartbeatResponse(5, ended=True))]),
    ],
)
def test_heartbeats_that_say_something_and_other_messages(message: Message, effects: list[Effect]) -> None:
    assert not is_empty_heartbeat(message, effects, 7, 7)


class Counter(StateMachine):
    """A machine that notices every Start."""

    def __init__(self) -> None:
        super().__init__("counter")

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        self.revision += isinstance(message, Start)
        return [Send("rm", NodeHeartbeat("node-1", now_ns))]

    def validate_state(self) -> None:
        assert self.revision >= 0


def test_the_recorder_numbers_what_it_records_and_leaves_empty_heartbeats_out() -> None:
    records: list[Record] = []
    recorder = Recorder(Counter(), records.append)
    assert recorder.handle(Start(), 1) == [Send("rm", NodeHeartbeat("node-1", 1))]
    assert recorder.handle(TICK, 2) == [Send("rm", NodeHeartbeat("node-1", 2))]
    recorder.handle(Start("c"), 3)
    assert records == [
        Record(1, 0, "counter", Start(), (Send("rm", NodeHeartbeat("node-1", 1)),)),
        Record(3, 1, "counter", Start("c"), (Send("rm", NodeHeartbeat("node-1", 3)),)),
    ]
