"""Tasks and lengths of jobs for which a trace records only bytes (SWIM): the model, with its parameters ``rates``.

The rules, in the order in which they apply:

1. *Scale.*  Each byte column is multiplied by ``nodes / source_nodes`` and truncated, unless the experiment's ``load``
   scales the number of tasks instead.
2. *Map-only.*  A job whose recorded shuffle is 0 has no reduces.
3. *Maps.*  A map reads one whole split: ``ceil(input / bytes_per_map)`` maps, at least one, however small the input.
4. *Floors.*  Shuffle, where there is one, and output are at least 1,024 bytes.
5. *Reduces.* ``(shuffle + output) / bytes_per_reduce`` rounded half up, at least one, and at most as many as run at
   once beside the ApplicationMaster: the cluster's containers minus one.
6. *Lengths* are the same for all maps of a job, and for all its reduces (but see ``spread``).  A map takes
   ``map_overhead_s``, plus its split at ``map_mb_s``, plus in a map-only job its share of the output at
   ``write_mb_s``.  A reduce takes ``reduce_overhead_s``, plus its share of the shuffle at ``reduce_mb_s``, plus its
   share of the output at ``write_mb_s``.

``byte_rules: swim`` counts tasks in the same way as SWIM's own replay scripts (GenerateReplayScript.java).  Rule 2 is
off, because SWIM applies the floor to the shuffle of every job.  A split holds ``bytes_per_map`` minus 14%, the
overhead of Hadoop's sequence files, and the input is at least one split.  A job with more reduces than nodes gets a
fifth of the nodes as reduces (at least one; in SWIM none on fewer than five nodes).  Lengths follow rule 6.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.errors import ConfigError
from emulator.files.times import LARGEST_TIME_S, seconds_to_ns
from workloads.record import WorkloadJob
from workloads.schema import Rates

FLOOR_BYTES = 1024
_RECORD_BYTES, _RECORD_FILE_BYTES = 100, 116
_MARKER_BYTES, _MARKER_RECORDS, _HEADER_BYTES = 20, 18, 96


@dataclass(frozen=True, slots=True)
class BytesModel:
    """The result of the rules for one job."""

    maps: int
    map_ns: int
    reduces: int
    reduce_ns: int
    """0 if there are no reduces."""
    shuffle_bytes: int
    output_bytes: int


def has_bytes(job: WorkloadJob) -> bool:
    """Whether the rules apply: the trace records all three columns of bytes."""
    return None not in (job.input_bytes, job.shuffle_bytes, job.output_bytes)


def model_tasks(job: WorkloadJob, rates: Rates, nodes: int | None, most_reduces: int | None) -> BytesModel:
    """The tasks of a job with bytes.

    Args:
        job: must satisfy ``has_bytes``.
        rates: the model's parameters.
        nodes: of the cluster to which the bytes are scaled; None: bytes are not scaled.
        most_reduces: the limit of rule 5; None: no limit.

    Raises:
        ConfigError: a task would be too long.
    """

    def scaled(recorded_bytes: int | None) -> int:
        return (recorded_bytes or 0) * (rates.source_nodes if nodes is None else nodes) // rates.source_nodes

    is_swim = rates.byte_rules == "swim"
    split_bytes = _split_bytes(rates.bytes_per_map) if is_swim else rates.bytes_per_map
    maps = max(1, -(-scaled(job.input_bytes) // split_bytes))
    output_bytes = max(FLOOR_BYTES, scaled(job.output_bytes))
    map_s = rates.map_overhead_s + split_bytes / (rates.map_mb_s * 1e6)
    output_s = output_bytes / (rates.write_mb_s * 1e6)
    if job.shuffle_bytes == 0 and not is_swim:
        reduces, shuffle_bytes, reduce_s = 0, 0, 0.0
        map_s += output_s / maps
    else:
        shuffle_bytes = max(FLOOR_BYTES, scaled(job.shuffle_bytes))
        reduces = _reduces(shuffle_bytes + output_bytes, rates, nodes, most_reduces)
        reduce_s = rates.reduce_overhead_s + (shuffle_bytes / (rates.reduce_mb_s * 1e6) + output_s) / reduces
    if max(map_s, reduce_s) > LARGEST_TIME_S:
        raise ConfigError(f"job {job.job}: a task of this job would last over {LARGEST_TIME_S:.0f} s; see rates")
    reduce_ns = seconds_to_ns(reduce_s)
    return BytesModel(maps, seconds_to_ns(map_s), reduces, reduce_ns, shuffle_bytes, output_bytes)


def _reduces(work_bytes: int, rates: Rates, nodes: int | None, most: int | None) -> int:
    rounded_half_up = max(1, (2 * work_bytes + rates.bytes_per_reduce) // (2 * rates.bytes_per_reduce))
    if rates.byte_rules == "swim":
        nodes = rates.source_nodes if nodes is None else nodes
        return rounded_half_up if rounded_half_up <= nodes else max(1, nodes // 5)
    return rounded_half_up if most is None else max(1, min(rounded_half_up, most))


def _split_bytes(file_bytes: int) -> int:
    """Bytes of data in a sequence file of this size: a record of 100 bytes takes 116, with a marker after every 18."""
    per_record = _RECORD_FILE_BYTES + _MARKER_BYTES / _MARKER_RECORDS
    return max(1, int((file_bytes - _HEADER_BYTES) / per_record)) * _RECORD_BYTES
