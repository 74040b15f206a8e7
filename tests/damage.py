"""Many damaged inputs: each belongs to a seed, so a failure can be repeated by its number.

``NATJAM_FUZZ=100000 pytest tests/property/test_damaged_inputs.py tests/property/test_broken_traces.py -n logical``
(or ``make fuzz``) runs that many of each kind; without it, a few.  ``NATJAM_FUZZ_FROM`` is the first seed.
"""

from __future__ import annotations

import os
import random
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from emulator.errors import NatjamError
from tests.examples import DAMAGED

TakenT = TypeVar("TakenT")
LONGEST_CPU_S = 2.0
PIECES = [
    *(b"\t", b"\n", b"\r\n", b"\r", b",", b" ", b"-1", b"-", b"0", b"1", b"9" * 19, b"9" * 400, b"1e400", b"0.5"),
    *(b"NaN", b"Infinity", b"null", b"true", b"[]", b"{}", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\u0000", b":"),
    *(b"\xff", b"\x00", b"\xed\xa0\x80", b".", b"_", b"/", b"job0", b";", b"#", b"'", b"", b"\xef\xbb\xbf"),
    b"x" * 70_000,
]
YAML_PIECES = [
    *(b": ", b"- ", b"  ", b"\n  ", b"&a ", b"*a", b"!!python/object:os.system ", b"? ", b"| ", b"> ", b"<<: ", b"%"),
    *(
        b".nan",
        b".inf",
        b"-.inf",
        b"1e-300",
        b"1e300",
        b"~",
        b"[[[[[[",
        b"{{{{{{",
        b"2020-01-01",
        b"0x10",
        b"0o9",
        b"1_0",
    ),
    *("é\u0085\u2028".encode(), b"on", b"a.b: 1", b"!!binary x", b"&a [*a]", b"--- ", b"...\n", b"\x07"),
]


def flip_a_bit(path: Path) -> None:
    """Change a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def seeds_of(kind: str) -> range:
    """Which to try: the first few, or what the environment says."""
    return range(int(os.environ.get("NATJAM_FUZZ_FROM", 0)), int(os.environ.get("NATJAM_FUZZ", DAMAGED[kind])))


def damaged(rng: random.Random, raw: bytes, pieces: list[bytes] = PIECES) -> bytes:
    """``raw`` with a few pieces overwritten, inserted, removed or duplicated, or with its end cut off."""
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        at = rng.randrange(len(raw) + 1)
        span = rng.choice((0, 1, 1, 3, 20, 300))
        kind = rng.randrange(6)
        if kind == 0:
            raw = raw[:at] + rng.choice(pieces) + raw[at + span :]
        elif kind == 1:
            raw = raw[:at] + rng.randbytes(rng.randrange(1, 5)) + raw[at + span :]
        elif kind == 2:
            raw = raw[:at] + raw[at + span :]
        elif kind == 3:
            raw = raw[:at] + raw[at : at + span] * 2 + raw[at + span :]
        elif kind == 4 and raw:  # change a number
            digits = [place for place in range(at, min(len(raw), at + 200)) if 48 <= raw[place] <= 57]
            if digits:
                raw = raw[: digits[0]] + rng.choice(pieces) + raw[digits[0] + 1 :]
        elif rng.random() < 0.3:
            raw = raw[:at]
    return raw


def taken_or_refused(
    read: Callable[[], TakenT], path: Path, secret: str = "SECRET-", refusal: type[NatjamError] = NatjamError
) -> TakenT | None:
    """What is read below ``path``; None: it is refused, in words that name it and can be shown."""
    try:
        return read()
    except refusal as error:
        said = error.message
    assert said.startswith(str(path)), said
    assert said.isprintable()
    assert len(said) < 1000
    assert secret not in said
    return None


def try_many(kind: str, one: Callable[[random.Random], object]) -> None:
    """Call ``one`` with the generator of each seed; NatjamError is a valid answer.

    Any other error, a warning of numpy and slowness fail.
    """
    seeds = seeds_of(kind)
    count, refused, failures = len(seeds), 0, []
    for seed in seeds:
        began_s = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                one(random.Random(f"{kind}-{seed}"))
        except NatjamError as error:
            refused += bool(error.message)
        except BaseException as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            failures.append(f"seed {seed}: {error!r:.200} at {frame.filename}:{frame.lineno}")
        took_s = time.process_time() - began_s
        if took_s > LONGEST_CPU_S:
            failures.append(f"seed {seed}: took {took_s:.1f} s")
    print(f"{kind}: {count} damaged, {refused} refused")
    assert not failures, f"{kind}: {len(failures)} of {count}:\n" + "\n".join(failures[:20])
    assert count < 30 or 0.02 * count <= refused < count, f"{kind}: {refused} of {count} refused"
