"""Process images of memory only: the pages that a stopped process has written to, read from outside, without root.

It serves natjam's own tasks, whose state is a few counters: the task is launched again from them.  The cost of an image
(the bytes of its memory, written and read) is real.  Only private memory that differs from the program's files counts,
as in criu.  Root may read a process; so may its parent, where the system lets debuggers attach to their children.
"""

from __future__ import annotations

import array
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from emulator.live.dumpers import DumpError
from emulator.storage.images import PAGE_BYTES

PAGES_FILE = "pages-1.img"
REGIONS_FILE = "regions.json"
_MAP_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \S+\s*(.*)")
_PRESENT, _SWAPPED, _OF_A_FILE = 1 << 63, 1 << 62, 1 << 61
_GUARD = 1 << 58
"""It cannot be read, though it shows as swapped: the end of a thread's stack, from glibc 2.42 on.  Since Linux 6.15."""
_CHUNK_PAGES = 256
_UNREADABLE = ("[vvar]", "[vvar_vclock]", "[vdso]", "[vsyscall]")


class PagesDumper:
    """The dumper ``pages``; see the module's text and ``emulator.live.dumpers.Dumper``."""

    name = "pages"

    def dump(self, pid: int, directory: Path) -> None:
        """See ``Dumper.dump``; saves the process only, not its children."""
        regions = []
        try:
            with (
                open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
                open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap,
                open(directory / PAGES_FILE, "wb") as pages,
            ):
                for start, end in _private_regions(pid):
                    runs = list(_written_runs(pagemap.fileno(), start, end))
                    for first, count in runs:
                        _copy(memory.fileno(), pages.fileno(), first, count)
                    if runs:
                        regions.append([start, end, runs])
        except PermissionError:
            raise DumpError(f"the memory of process {pid} may not be read here without root") from None
        except (FileNotFoundError, ProcessLookupError):
            raise DumpError(f"process {pid} is gone") from None
        (directory / REGIONS_FILE).write_text(json.dumps(regions))

    def restore(self, directory: Path) -> int | None:
        """See ``Dumper.restore``; nothing is left to do, the memory has been read back already."""
        return None


def _private_regions(pid: int) -> Iterator[tuple[int, int]]:
    """The mappings that may hold private data, not in any file."""
    for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines():
        if (found := _MAP_LINE.match(line)) and found[3].endswith("p") and found[4] not in _UNREADABLE:
            yield int(found[1], 16), int(found[2], 16)


def _written_runs(pagemap: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Address and number of pages of each run of the process's own pages, in memory or swapped."""
    first, count = start, 0
    for begin in range(start, end, _CHUNK_PAGES * 64 * PAGE_BYTES):
        stop = min(end, begin + _CHUNK_PAGES * 64 * PAGE_BYTES)
        entries = array.array("Q", os.pread(pagemap, (stop - begin) // PAGE_BYTES * 8, begin // PAGE_BYTES * 8))
        for place, entry in enumerate(entries):
            address = begin + place * PAGE_BYTES
            if not entry & (_PRESENT | _SWAPPED) or entry & (_OF_A_FILE | _GUARD):
                continue
            if count and first + count * PAGE_BYTES == address:
                count += 1
                continue
            if count:
                yield first, count
            first, count = address, 1
    if count:
        yield first, count


def _copy(memory: int, pages: int, first: int, count: int) -> None:
    for place in range(0, count, _CHUNK_PAGES):
        wanted = min(_CHUNK_PAGES, count - place) * PAGE_BYTES
        data = os.pread(memory, wanted, first + place * PAGE_BYTES)
        if len(data) != wanted:
            raise OSError(f"{wanted} bytes of memory at {first + place * PAGE_BYTES:#x} could not be read")
        os.write(pages, data)
