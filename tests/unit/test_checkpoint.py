"""Checkpoints: round trip, atomicity, and a named field for whatever is wrong."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgpack
import pytest
from full_disk import file_size_limit
from hypothesis import given
from hypothesis import strategies as st

from emulator.live.tasks import checkpoint
from emulator.live.tasks.checkpoint import CheckpointError, CheckpointFile

GOOD: dict[str, Any] = {
    "version": 1,
    "past_containers": ["container_1", "container_2"],
    "keys_done": 12,
    "input_path": "/w/node-1/local/job/3/input",
    "hostname": "node-1",
}


def test_file_round_trip_and_replacement(tmp_path: Path):
    path = str(tmp_path / "checkpoint.msgpack")
    first = CheckpointFile.from_dict(GOOD)
    second = CheckpointFile.from_dict({**GOOD, "keys_done": 13})
    assert checkpoint.write(path, first) == os.stat(path).st_size
    checkpoint.write(path, second)
    assert checkpoint.read(path) == second
    assert os.listdir(tmp_path) == ["checkpoint.msgpack"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("version", 2),
        ("version", True),
        ("past_containers", []),
        ("past_containers", "container_1"),
        ("past_containers", ["a", "a"]),
        ("past_containers", ["a", 1]),
        ("keys_done", -1),
        ("keys_done", 1.0),
        ("keys_done", True),
        ("input_path", ""),
        ("input_path", b"/w"),
        ("input_path", "/w\0"),
        ("hostname", None),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, field: str, value: object):
    path = tmp_path / "checkpoint.msgpack"
    path.write_bytes(msgpack.packb({**GOOD, field: value}))  # type: ignore
    with pytest.raises(CheckpointError) as caught:
        checkpoint.read(str(path))
    assert caught.value.field == field
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("field", sorted(GOOD))
def test_a_missing_field_is_named(field: str):
    with pytest.raises(CheckpointError, match=f"{field}.*missing"):
        CheckpointFile.from_dict({key: value for key, value in GOOD.items() if key != field})


def test_an_unknown_field_is_named():
    with pytest.raises(CheckpointError, match=r"seed.*unknown"):
        CheckpointFile.from_dict({**GOOD, "seed": 1})


def test_failed_write_keeps_the_old_checkpoint(tmp_path: Path):
    path = str(tmp_path / "checkpoint.msgpack")
    checkpoint.write(path, CheckpointFile.from_dict(GOOD))
    with file_size_limit(10), pytest.raises(OSError, match=rf"File too large: '{path}'"):
        checkpoint.write(path, CheckpointFile.from_dict({**GOOD, "keys_done": 99}))
    assert checkpoint.read(path).keys_done == 12
    assert os.listdir(tmp_path) == ["checkpoint.msgpack"]


scalar = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
values = st.recursive(scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner))


@given(packed=st.one_of(st.binary(max_size=100), values.map(lambda value: msgpack.Packer().pack(value))))
def test_any_file(packed: bytes, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("fuzz") / "checkpoint.msgpack"
    path.write_bytes(packed)
    with pytest.raises(CheckpointError):
        checkpoint.read(str(path))


@given(field=st.sampled_from(sorted(GOOD)), value=values)
def test_any_value_in_a_field(field: str, value: object):
    changed = {**GOOD, field: value}
    try:
        outcome: object = CheckpointFile.from_dict(changed).to_dict()
    except CheckpointError as error:
        outcome = error.field
    assert outcome in (field, changed)
