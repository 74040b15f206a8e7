"""YAML: what values mean, where they stand, and what is refused before it takes long."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from experiment_files import VALID, refusal, write
from hypothesis import example, given
from hypothesis import strategies as st

from emulator.files.problems import MAX_PROBLEMS
from emulator.files.yaml_values import LARGEST_VALUE_COUNT, dump_yaml, lines_of, parse_yaml
from tests.refusals import refused


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-1_000", -1000),
        ("0o17", 15),
        ("0x1f", 31),
        ("0b11", 3),
        ("0", 0),
        ("'017'", "017"),
        ("1.5e3", 1500.0),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-.inf", -math.inf),
        ("~", None),
        ("Null", None),
        ("True", True),
        ("yes", "yes"),
        ("2020-01-01", "2020-01-01"),
        ("1:30", "1:30"),
        ("<<", "<<"),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("!!int '12'", 12),
        ("[a, {b: c}]", ("a", {"b": "c"})),
        ("{a: &x [1], b: *x}", {"a": (1,), "b": (1,)}),
    ],
)
def test_what_words_mean(text: str, value: Any) -> None:
    found = parse_yaml(text, "text")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 017", "text:1: '017' begins with 0: write it without"),
        ("a: -010", "text:1: '-010' begins with 0"),
        ("a: -_", "text:1: '-_' is no valid int"),
        ("\n0x" + "f" * 5000, "is no valid int"),
        ("1." + "0" * 5000, "is no valid float"),
        ("!!bool 3", "is no valid bool"),
        ("[*a]", "undefined alias 'a'"),
        ("{*a: 1}", "a key must be a plain word"),
        ("a: 1\n--- 2", "text:2: is not valid YAML: there is more than one document"),
        ("[" * 102 + "]" * 102, "too deeply"),
        ("a: &a [x, x]\nb: &b [*a, *a]\nc: [" + "*b, " * (LARGEST_VALUE_COUNT // 7 + 1) + "]", "aliases expanded"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    (line,) = refused(parse_yaml, text, "text").splitlines()
    assert words in line


def test_lines_of_what_an_alias_stands_for_are_those_it_was_written_on() -> None:
    text = "a: &x\n  - 1\n  - {b: 2}\nc:\n  d: *x\n"
    lines = lines_of(text)
    assert lines[("c", "d")] == 5
    assert lines[("c", "d", 1, "b")] == lines[("a", 1, "b")] == 3


def test_of_many_problems_the_first_are_told(tmp_path: Path) -> None:
    jobs = "".join(f"    - {{name: job-{number}, queue: reserch, maps: 1}}\n" for number in range(3 * MAX_PROBLEMS))
    path = write(tmp_path, VALID.partition("  jobs:")[0] + "  jobs:\n" + jobs)
    *told, last = refusal(path).splitlines()
    assert last == f"{path}: has more problems than these {MAX_PROBLEMS}"
    assert [int(line.split(":")[1]) for line in told] == list(range(18, 18 + MAX_PROBLEMS))


_KEYS = st.text(max_size=4)
_DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inside: st.lists(inside, max_size=3).map(tuple) | st.dictionaries(_KEYS, inside, max_size=3),
    max_leaves=8,
)
_LOOKS = st.sampled_from(["0o17", "1e3", "_1", "-_", "1_0", ".5", "~", "null", "yes", "<<", "=", "", "0b2", "*a", " x"])


@given(data=st.dictionaries(_KEYS | _LOOKS, _DATA | _LOOKS, max_size=4))
@example(data={"a": "\x85", "b": "\u2028", "c": "\n", "d": "1\n"})
def test_what_is_dumped_reads_back_the_same(data: dict[str, Any]) -> None:
    again = parse_yaml(dump_yaml(data), "text")
    assert again == data
    assert repr(again) == repr(data)
