"""Importer of SWIM workloads (github.com/SWIMProjectUCB/SWIM): one row of a ``.tsv`` file becomes one job.

A row holds, tab separated and without a header: job id, submit time (s), gap since the last submission (s),
map input bytes, shuffle bytes, reduce output bytes, and in some files an input path that is not used here.
The gap repeats what the submit times say and is only checked to be a number.

SWIM records no tasks and no lengths.  The rules for both, in the order they apply:

1. *Scale.*  Each byte column is multiplied by ``nodes / source_nodes`` and truncated.  Submit times stay.
2. *Map-only.*  A job whose recorded shuffle is 0 has no reduces.  (SWIM's replay gives it at least one, for
   its own floor of rule 4 makes the shuffle 1,024 bytes.)
3. *Maps.*  A map reads one whole split: ``ceil(input / bytes_per_map)`` maps, at least one, however small
   the input.  (SWIM takes the overhead of its sequence files off the split, 14%; there are no such files
   here.)
4. *Floors.*  Shuffle, where there is one, and output are at least 1,024 bytes.
5. *Reduces.*  ``(shuffle + output) / bytes_per_reduce`` rounded half up, at least one, and at most as many
   as run at once beside the ApplicationMaster: the cluster's containers less one.  (SWIM gives a job with
   more reduces than nodes a fifth of the nodes, which is none on fewer than five.)
6. *Lengths*, the same for all maps of a job and for all its reduces.  A map takes ``map_overhead_s`` and
   its split at ``map_mb_s``, in a map-only job also its share of the output at ``write_mb_s``.  A reduce
   takes ``reduce_overhead_s``, its share of the shuffle at ``reduce_mb_s`` and of the output at
   ``write_mb_s``, and walks ``round(length / key_s)`` keys.
7. *Real bytes.*  What is really shuffled and written is the bytes of rule 4 times ``data_scale``,
   truncated, and again at least 1,024.  It changes nothing above: tasks and lengths are those of the whole
   data.
8. *Queue.*  Each job goes to ``production`` with chance ``production_fraction``, else to ``research``, by a
   draw that depends on the seed and the job's id only.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from emulator.config import seconds_to_ns
from emulator.config_checks import LONGEST_FILE_NAME
from emulator.core.job import JobSpec
from workloads.errors import TraceError
from workloads.lengths import key_count
from workloads.schema import MAX_KEYS, MAX_SECONDS, MAX_TASKS, SwimRates, TraceEntry

COLUMNS = ("job id", "submit time", "gap", "map input bytes", "shuffle bytes", "reduce output bytes")
MAX_FIELDS = 9
"""Six columns, an input path, and two fields that the published files with paths leave empty."""
FLOOR_BYTES = 1024
MAX_LINE_BYTES = 64 * 1024
MAX_ID_CHARACTERS = 80
_WHOLE = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class SwimRow:
    """One row as recorded, before any scaling."""

    line: int
    job_id: str
    submit_s: int
    input_bytes: int
    shuffle_bytes: int
    output_bytes: int


def read_rows(path: Path) -> Iterator[SwimRow]:
    """Yield the rows of a SWIM file one by one, in file order, holding only the ids seen so far.

    Raises TraceError for a file that cannot be read or is empty, and for a line that breaks the format (see
    the module), is not sorted by submit time, or repeats a job id.
    """
    seen: set[str] = set()
    last_submit_s = 0
    for number, text in _lines(path):
        row = _parse(path, number, text)
        if row.job_id in seen:
            raise TraceError(
                path, number, "job id", f"{row.job_id!r} is the id of an earlier line too; make ids unique"
            )
        if row.submit_s < last_submit_s:
            reason = f"{row.submit_s} s is before the line above, {last_submit_s} s; sort the file by it"
            raise TraceError(path, number, "submit time", reason)
        seen.add(row.job_id)
        last_submit_s = row.submit_s
        yield row
    if not seen:
        raise TraceError(path, None, None, "the file is empty: a SWIM trace has one job a line")


def import_swim(
    path: Path, trace: TraceEntry, *, nodes: int, containers: int, memory_bytes: int, seed: int
) -> Iterator[JobSpec]:
    """Yield the jobs of a SWIM file, scaled to a cluster of ``nodes`` nodes and ``containers`` containers.

    ``memory_bytes`` is the memory of one container.  Raises TraceError, at the row it concerns.
    """
    for row in read_rows(path):
        queue_draw = random.Random(f"{seed}:{row.job_id}:queue").random()
        yield _job(
            path,
            row,
            trace,
            nodes=nodes,
            containers=containers,
            memory_bytes=memory_bytes,
            queue="production" if queue_draw < trace.production_fraction else "research",
        )


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open("rb") as stream:
            number = 0
            while raw := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(raw) > MAX_LINE_BYTES:
                    raise TraceError(path, number, None, "too long for a line of a SWIM trace")
                yield number, _decode(path, number, raw)
    except OSError as error:
        raise TraceError(path, None, None, f"cannot be read: {error.strerror or error}") from error


def _decode(path: Path, number: int, raw: bytes) -> str:
    if raw.endswith(b"\r\n"):
        raise TraceError(path, number, None, "ends in CR LF; convert the file to Unix line ends (LF)")
    try:
        return raw.removesuffix(b"\n").decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"byte {error.start + 1} (0x{raw[error.start]:02x}) is not UTF-8; save the file as UTF-8"
        raise TraceError(path, number, None, reason) from error


def _parse(path: Path, number: int, text: str) -> SwimRow:
    fields = text.split("\t")
    if not text.strip():
        raise TraceError(path, number, None, "the line is blank; delete it")
    if not len(COLUMNS) <= len(fields) <= MAX_FIELDS or any(fields[len(COLUMNS) + 1 :]):
        reason = f"{len(fields)} tab-separated fields, not {len(COLUMNS)} (or {len(COLUMNS) + 1}, with a path)"
        raise TraceError(path, number, None, f"{reason}; the columns are {', '.join(COLUMNS)}")
    job_id = fields[0]
    if problem := _id_problem(job_id):
        raise TraceError(path, number, "job id", f"{job_id[:40]!r} {problem}")
    submit_s, _gap_s, input_bytes, shuffle_bytes, output_bytes = (
        _whole(path, number, column, field) for column, field in zip(COLUMNS[1:], fields[1:], strict=False)
    )
    if submit_s > MAX_SECONDS:
        raise TraceError(path, number, "submit time", f"{submit_s} s is above {MAX_SECONDS:.0f} s")
    return SwimRow(number, job_id, submit_s, input_bytes, shuffle_bytes, output_bytes)


def _id_problem(job_id: str) -> str | None:
    """Why an id cannot name a job and, quoted, its files: the rules for the jobs of an experiment file."""
    if not job_id or len(job_id) > MAX_ID_CHARACTERS or not job_id.isprintable():
        return f"is not 1 to {MAX_ID_CHARACTERS} printable characters"
    if job_id.startswith((".", "_")):
        return "must not start with '.' or '_'"
    too_long = len(quote(job_id, safe="")) > LONGEST_FILE_NAME
    return "is too long for a file name; shorten it" if too_long else None


def _whole(path: Path, number: int, column: str, field: str) -> int:
    if _WHOLE.fullmatch(field):
        return int(field)
    is_negative = re.fullmatch(r"-[0-9]+", field)
    problem = "is negative" if is_negative else "is not a whole number of at most 18 digits"
    raise TraceError(path, number, column, f"{field[:40]!r} {problem}")


def _job(
    path: Path, row: SwimRow, trace: TraceEntry, *, nodes: int, containers: int, memory_bytes: int, queue: str
) -> JobSpec:
    rates = trace.rates
    input_bytes = _scaled(row.input_bytes, nodes, rates)
    output_bytes = max(FLOOR_BYTES, _scaled(row.output_bytes, nodes, rates))
    maps = max(1, -(-input_bytes // rates.bytes_per_map))
    if maps > MAX_TASKS:
        reason = f"{maps} maps of {rates.bytes_per_map} bytes, above {MAX_TASKS}; raise rates.bytes_per_map"
        raise TraceError(path, row.line, "map input bytes", reason)
    map_s = rates.map_overhead_s + rates.bytes_per_map / (rates.map_mb_s * 1e6)
    output_s = output_bytes / (rates.write_mb_s * 1e6)
    if row.shuffle_bytes == 0:
        reduces, shuffle_bytes, reduce_s = 0, 0, 0.0
        map_s += output_s / maps
    else:
        shuffle_bytes = max(FLOOR_BYTES, _scaled(row.shuffle_bytes, nodes, rates))
        reduces = _reduces(shuffle_bytes + output_bytes, rates.bytes_per_reduce, containers - 1)
        reduce_s = rates.reduce_overhead_s + (shuffle_bytes / (rates.reduce_mb_s * 1e6) + output_s) / reduces
    if reduce_s > MAX_KEYS * rates.key_s:
        reason = f"a reduce of {reduce_s:g} s would walk over {MAX_KEYS} keys; raise rates.key_s"
        raise TraceError(path, row.line, None, reason)
    if max(map_s, reduce_s) > MAX_SECONDS:
        reason = f"a task of this job would last over {MAX_SECONDS:.0f} s; see rates"
        raise TraceError(path, row.line, None, reason)
    reduce_ns = seconds_to_ns(reduce_s)
    return JobSpec(
        name=row.job_id,
        queue=queue,
        submit_ns=seconds_to_ns(row.submit_s),
        map_ns=(seconds_to_ns(map_s),) * maps,
        reduce_ns=(reduce_ns,) * reduces,
        reduce_keys=(key_count(reduce_ns, rates.key_s),) * reduces,
        memory_bytes=memory_bytes,
        shuffle_bytes=_real(shuffle_bytes, trace.data_scale) if reduces else 0,
        output_bytes=_real(output_bytes, trace.data_scale),
    )


def _scaled(recorded_bytes: int, nodes: int, rates: SwimRates) -> int:
    return recorded_bytes * nodes // rates.source_nodes


def _reduces(work_bytes: int, bytes_per_reduce: int, most: int) -> int:
    rounded_half_up = (2 * work_bytes + bytes_per_reduce) // (2 * bytes_per_reduce)
    return max(1, min(rounded_half_up, most))


def _real(whole_bytes: int, data_scale: float) -> int:
    return max(FLOOR_BYTES, int(whole_bytes * data_scale))
