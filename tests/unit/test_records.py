"""Intermediate files: what is written is read, merges are sorted unions, damage is noticed."""

from __future__ import annotations

import itertools
import os
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.live.tasks import records
from emulator.live.tasks.records import Record, RecordError
from tests.map_outputs import read_partition

sorted_records = st.lists(st.tuples(st.binary(max_size=6), st.binary(max_size=40)), max_size=30).map(
    lambda found: sorted(found, key=lambda record: record[0])
)


@given(partitions=st.lists(sorted_records, max_size=5))
def test_partitions_come_back_as_written(partitions: list[list[Record]], tmp_path_factory: pytest.TempPathFactory):
    directory = str(tmp_path_factory.mktemp("map"))
    records.write_map_output(directory, partitions)
    assert [read_partition(directory, r) for r in range(len(partitions))] == partitions
    assert sorted(os.listdir(directory)) == [records.DATA_NAME, records.INDEX_NAME]


@given(sources=st.lists(sorted_records, max_size=5), data=st.data())
def test_merge_is_the_stable_sorted_union(
    sources: list[list[Record]], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    path = str(tmp_path_factory.mktemp("input") / "input")
    union = sorted(itertools.chain(*sources), key=lambda record: record[0])
    expected = [(key, [v for _, v in group]) for key, group in itertools.groupby(union, lambda record: record[0])]
    assert records.merge(sources, path) == len(expected) == records.input_keys(path)
    skip = data.draw(st.integers(0, len(expected)))
    reader = records.KeyReader(path, skip)
    assert list(reader) == expected[skip:]
    reader.close()


def test_reader_goes_on_after_close(tmp_path: Path):
    source = [(b"%03d" % n, b"v%d" % n) for n in range(50)]
    records.merge([source], str(tmp_path / "input"))
    reader = records.KeyReader(str(tmp_path / "input"), 10)
    seen = []
    for key, _ in reader:
        seen.append(key)
        reader.close()
    assert seen == [key for key, _ in source[10:]]


def test_values_larger_than_a_block(tmp_path: Path):
    source = [(b"a", os.urandom(1 << 20)), (b"a", os.urandom(700_001)), (b"b", b"")]
    directory = str(tmp_path / "0")
    records.write_map_output(directory, [source])
    assert read_partition(directory, 0) == source
    records.merge([source], str(tmp_path / "input"))
    reader = records.KeyReader(str(tmp_path / "input"))
    assert list(reader) == [(b"a", [source[0][1], source[1][1]]), (b"b", [b""])]


def test_nothing_is_visible_before_publishing(tmp_path: Path):
    seen: list[str] = []
    records.write_map_output(str(tmp_path), [[(b"k", b"v")]], lambda: seen.extend(os.listdir(tmp_path)))
    assert records.DATA_NAME not in seen
    assert records.INDEX_NAME not in seen


@pytest.mark.parametrize(
    "bad", [[(b"b", b""), (b"a", b"")], [(b"k", b"x" * (records.MAXIMUM_VALUE_BYTES + 1))]], ids=["order", "size"]
)
def test_bad_records_are_refused_and_leave_nothing(tmp_path: Path, bad: list[Record]):
    with pytest.raises(ValueError, match=r"comes after|too large"):
        records.write_map_output(str(tmp_path), [bad])
    assert os.listdir(tmp_path) == []


def test_every_flipped_byte_of_a_map_output_is_noticed(tmp_path: Path):
    directory = str(tmp_path)
    records.write_map_output(directory, [[(b"key1", b"value"), (b"key2", b"")], [(b"key3", b"x")]])
    for name in (records.DATA_NAME, records.INDEX_NAME):
        path = tmp_path / name
        whole = path.read_bytes()
        for position in range(len(whole)):
            path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
            with pytest.raises(RecordError):
                _ = [read_partition(directory, r) for r in range(2)]
        path.write_bytes(whole)


def test_a_partition_that_an_index_does_not_have(tmp_path: Path):
    records.write_map_output(str(tmp_path), [[(b"k", b"v")]] * 2)
    with pytest.raises(IndexError, match="has 2 partitions, none of number 2"):
        read_partition(str(tmp_path), 2)


@given(data=st.data())
def test_damaged_index(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory):
    directory = tmp_path_factory.mktemp("map")
    index = records.write_map_output(str(directory), [[(b"k%d" % n, b"v")] for n in range(4)])
    packed = bytearray((directory / records.INDEX_NAME).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    with suppress(RecordError):
        assert [records.partition_in(cut, number, "x") for number in range(4)] == index


@given(st.lists(st.binary(max_size=60), max_size=6))
def test_any_bytes_as_records(blocks: list[bytes]):
    try:
        found = list(records.records_from(blocks, "x"))
    except RecordError:
        return
    assert sum(8 + len(key) + len(value) for key, value in found) == sum(map(len, blocks))


@given(data=st.data())
def test_damaged_reduce_input(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory):
    path = tmp_path_factory.mktemp("input") / "input"
    records.merge([[(b"k%d" % n, b"value") for n in range(5)], [(b"k3", b"w")]], str(path))
    whole = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    with suppress(RecordError), closing(records.KeyReader(str(path))) as reader:
        list(reader)


def test_incomplete_input_is_not_taken_for_one(tmp_path: Path):
    path = tmp_path / "input"
    records.merge([[(b"k", b"v" * 100)]], str(path))
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordError, match="not a complete reduce input"):
        records.input_keys(str(path))
    with pytest.raises(FileNotFoundError):
        records.input_keys(str(tmp_path / "other"))


def test_failing_source_leaves_no_input(tmp_path: Path):
    directory = str(tmp_path / "map")
    records.write_map_output(directory, [[(b"k", b"value")]])
    path = os.path.join(directory, records.DATA_NAME)
    partition = records.partition_of(directory, 0)
    source = records.PartitionSource(path, partition, lambda size, at: b"\xff" * size)
    with pytest.raises(RecordError, match=path):
        records.merge([source], str(tmp_path / "input"))
    assert sorted(os.listdir(tmp_path)) == ["map"]
