"""Whatever is asked in whatever order: one completion a command, `exited` last, nothing left, the right bytes."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.live.tasks.containers import parse_command
from tests.examples import drawn
from tests.supervision import COMPLETIONS, Host

_OPERATIONS = ["suspend", "resume", "checkpoint", "kill"]
_NAMES = ["c1", "c2", "c3"]
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["launch", *_OPERATIONS, "suspend", "resume"]), st.sampled_from(_NAMES)),
        st.tuples(st.just("pause"), st.sampled_from([0.0, 0.001, 0.005, 0.02])),
    ),
    max_size=25,
)


@given(steps=_STEPS)
@drawn
def test_every_command_has_exactly_one_completion(steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_run(Path(directory), steps))


async def _run(directory: Path, steps: list[tuple[str, Any]]) -> None:
    asked: Counter[tuple[str, str]] = Counter()
    async with Host(directory, slots=64, ahead=16) as host:
        for op, argument in steps:
            if op == "pause":
                await asyncio.sleep(argument)
                continue
            if op == "launch":
                # A job of its own for each launch: ids may come back, outputs may not.
                host.client.send(host.reduce(argument, keys=3, key_s=0.004, job=f"job {sum(asked.values())}"))
            else:
                host.client.send({"op": op, "id": argument})
            asked[op, argument] += 1
        # Whatever is stopped now stays so: close ends it.
        await host.until(lambda: _completions(host) == asked)
        await host.client.close()
        assert _completions(host) == asked
        for name in _NAMES:
            _check_lives([event["event"] for event in host.events if event["id"] == name])


def _completions(host: Host) -> Counter[tuple[str, str]]:
    operation_of = {event: op for op, events in COMPLETIONS.items() for event in events}
    return Counter(
        (operation_of[event["event"]], event["id"]) for event in host.events if event["event"] in operation_of
    )


def _check_lives(events: list[str]) -> None:
    """Lives of one id come one after the other; a success happens only inside one, and stop and go alternate."""
    alive = stopped = False
    for event in events:
        if event in ("launched", "exited"):
            assert alive == (event == "exited")
            alive, stopped = not alive, False
        elif event in ("suspended", "resumed"):
            assert alive
            assert stopped == (event == "resumed")
            stopped = not stopped
        elif not event.endswith("_failed"):
            assert alive
    assert not alive


_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)
_NEARLY = st.fixed_dictionaries(
    {"op": st.one_of(st.sampled_from(["launch", "input", "close", *_OPERATIONS]), _VALUES)},
    optional={"id": _VALUES, "kind": _VALUES, "slot": _VALUES, "params": _VALUES, "outputs": _VALUES},
)


@given(message=st.one_of(_VALUES, _NEARLY))
def test_a_command_is_well_formed_or_says_what_is_wrong(message: object) -> None:
    message = msgpack.unpackb(msgpack.packb(message) or b"", strict_map_key=False)
    try:
        command = parse_command(message)
    except ValueError as error:
        assert str(error)  # noqa: PT017 - either way is right
        return
    if command["op"] != "close":
        assert isinstance(command["id"], str)


@pytest.mark.parametrize("op", ["launch", "input", *_OPERATIONS])
def test_a_command_without_its_fields_is_malformed(op: str) -> None:
    with pytest.raises(ValueError, match="id must be str"):
        parse_command({"op": op})
