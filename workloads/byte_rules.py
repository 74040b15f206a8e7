"""Tasks and lengths for jobs of which a trace records bytes only (SWIM): the model, with its parameters ``rates``.

The rules, in the order they apply:

1. *Scale.*  Each byte column is multiplied by ``nodes / source_nodes`` and truncated, unless the experiment's ``load``
   scales the number of tasks instead.
2. *Map-only.*  A job whose recorded shuffle is 0 has no reduces.
3. *Maps.*  A map reads one whole split: ``ceil(input / bytes_per_map)`` maps, at least one, however small the input.
4. *Floors.*  Shuffle, where there is one, and output are at least 1,024 bytes.
5. *Reduces.* ``(shuffle + output) / bytes_per_reduce`` rounded half up, at least one, and at most as many as run at
   once beside the ApplicationMaster: the cluster's containers less one.
6. *Lengths*, the same for all maps of a job and for all its reduces (but see ``spread``).  A map takes
   ``map_overhead_s`` and its split at ``map_mb_s``, in a map-only job also its share of the output at ``write_mb_s``.
   A reduce takes ``reduce_overhead_s``, its share of the shuffle at ``reduce_mb_s`` and of the output at
   ``write_mb_s``.

``byte_rules: swim`` counts tasks as SWIM's own replay scripts do (GenerateReplayScript.java): rule 2 is off, for SWIM
floors the shuffle of every job; a split holds what is left of ``bytes_per_map`` after the overhead of Hadoop's
sequence files, 14%, and is the least input; and a job with more reduces than nodes gets a fifth of the nodes (at
least one; SWIM: none on fewer than five).  Lengths follow rule 6.
"""

from __future__ import annotations

from dataclasses import dataclass

from emulator.errors import ConfigError
from emulator.experiment.times import seconds_to_ns
from workloads.record import WorkloadJob
from workloads.schema import MAX_SECONDS, Rates

FLOOR_BYTES = 1024
_RECORD_BYTES, _RECORD_FILE_BYTES = 100, 116
_MARKER_BYTES, _MARKER_RECORDS, _HEADER_BYTES = 20, 18, 96


@dataclass(frozen=True, slots=True)
class BytesModel:
    """What the rules make of one job."""

    maps: int
    map_ns: int
    reduces: int
    reduce_ns: int
    """0 where there are no reduces."""
    shuffle_bytes: int
    output_bytes: int


def has_bytes(job: WorkloadJob) -> bool:
    """Whether the rules can be applied: the trace records all three columns."""
    return None not in (job.input_bytes, job.shuffle_bytes, job.output_bytes)


def model_tasks(job: WorkloadJob, rates: Rates, nodes: int | None, most_reduces: int | None) -> BytesModel:
    """Tasks of a job with bytes.

    Args:
        job: ``has_bytes`` holds.
        rates: the model's parameters.
        nodes: of the cluster, that the bytes are scaled to; None: bytes stay those of the source.
        most_reduces: of rule 5; None: any number.

    Raises:
        ConfigError: a task would be longer than can be.
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
    if max(map_s, reduce_s) > MAX_SECONDS:
        raise ConfigError(f"job {job.job}: a task of this job would last over {MAX_SECONDS:.0f} s; see rates")
    reduce_ns = seconds_to_ns(reduce_s)
    return BytesModel(maps, seconds_to_ns(map_s), reduces, reduce_ns, shuffle_bytes, output_bytes)


def _reduces(work_bytes: int, rates: Rates, nodes: int | None, most: int | None) -> int:
    rounded_half_up = max(1, (2 * work_bytes + rates.bytes_per_reduce) // (2 * rates.bytes_per_reduce))
    if rates.byte_rules == "swim":
        nodes = rates.source_nodes if nodes is None else nodes
        return rounded_half_up if rounded_half_up <= nodes else max(1, nodes // 5)
    return rounded_half_up if most is None else max(1, min(rounded_half_up, most))


def _split_bytes(file_bytes: int) -> int:
    """What a sequence file of this size holds: records of 100 bytes that take 116, and a marker after every 18."""
    per_record = _RECORD_FILE_BYTES + _MARKER_BYTES / _MARKER_RECORDS
    return max(1, int((file_bytes - _HEADER_BYTES) / per_record)) * _RECORD_BYTES
