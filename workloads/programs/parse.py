"""Parses tuples, as the synthetic mapper of os-assisted-preemption (section IV-A); it knows nothing of natjam.

    python workloads/programs/parse.py --tuples 80000 --memory-mb 100 --out sums

It makes its input as it goes, in blocks of a thousand tuples, parses it and adds it up; after each block it sleeps,
as the keys of SWIM's tasks do.  A stateful one holds memory: it writes random values to all of it at the start, and
reads them back at the end (section IV-C).  What it writes depends on its arguments alone, however often it was stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from pathlib import Path
from random import Random

BLOCK_TUPLES = 1000
_PAGE_BYTES = 1 << 20


def parse(number: int) -> int:
    """The sum of one block's values."""
    random = Random(number)
    lines = [f"key-{random.getrandbits(20)}\t{random.getrandbits(20)}" for _ in range(BLOCK_TUPLES)]
    return sum(int(line.partition("\t")[2]) for line in lines)


def main() -> int:
    """Parse all tuples; see the module's docstring."""
    parser = argparse.ArgumentParser(description="parse random tuples")
    parser.add_argument("--tuples", type=int, default=80_000)
    parser.add_argument("--block-ms", type=float, default=49.0, help="how long it sleeps after a thousand tuples")
    parser.add_argument("--memory-mb", type=float, default=0.0, help="memory it holds, in 2^20 bytes")
    parser.add_argument("--out", type=Path, default=Path("sums"))
    given = parser.parse_args()
    random = Random(1)
    held = [bytearray(random.randbytes(_PAGE_BYTES)) for _ in range(round(given.memory_mb))]
    sums = []
    for number in range(given.tuples // BLOCK_TUPLES):
        sums.append(parse(number))
        time.sleep(given.block_ms / 1000)
    digest = hashlib.sha256()
    for page in held:
        digest.update(page)
    given.out.write_text("".join(f"{value}\n" for value in sums) + f"{digest.hexdigest()}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
