"""The map task: writes real, seeded, random keys and values to a partitioned, sorted file on the node's disk.

Everything a job's data consists of follows from (data seed, job, numbers of maps, keys of the reduces,
sizes), so a rerun map writes the same bytes, and a verifier can recompute them.  The generator, in full:

- ``T`` is the number of keys of all reduces; key ``i`` of reduce ``r`` is number ``g = i + keys of the
  reduces before r``.  ``K`` is the number of keys of ``r``, ``M`` the number of maps, but at least 1.
- Key material of ``r`` comes in blocks of 256 keys; block ``b`` is SHAKE-128 of the text
  ``natjam/1/keys/<seed>/<r>/<b>/<job>``, 21 bytes a key: ``u64, owner u32, second u32, third u32, extra u8``,
  big-endian.
- The key is ``i*(2^64 // K) + u64 % (2^64 // K)`` as 16 hexadecimal digits.  So keys rise with ``i`` and
  never repeat.
- The maps that emit it: ``owner % M``; where ``extra % 3 >= 1`` also ``second % M``; where ``extra % 3 == 2``
  also ``third % M``; each map once, in rising order.
- With a shuffle size of ``S`` bytes, key ``g`` has ``B = S*(g+1)//T - S*g//T`` bytes of values, and the
  ``j``-th of its ``n`` maps emits ``B*(j+1)//n - B*j//n`` of them; without one, every map emits 100 bytes.
  These are cut into values of 65,536 bytes and a rest (one empty value where there are no bytes).
- Value ``p`` of map ``m`` is SHAKE-128 of ``natjam/1/value/<seed>/<r>/<i>/<m>/<p>/<job>``.
- Map ``m`` of a map-only job writes ``O*(m+1)//M - O*m//M`` bytes, 100 where no output size ``O`` is given: a
  block of 65,536 bytes, SHAKE-128 of ``natjam/1/map-output/<seed>/<m>/<job>``, again and again, the first 8
  bytes of each replaced by its big-endian number, the last one cut.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import shake_128
from typing import Any, TypeVar

from emulator.live.tasks import partial_output, records
from emulator.live.tasks.kept_files import KeptFiles, kept_files
from emulator.live.tasks.records import Record
from emulator.live.tasks.task import SUSPEND, TaskProcess, stop_until_continued, take_signal
from emulator.storage.local import atomic_file

DEFAULT_VALUE_BYTES = 100
StepT = TypeVar("StepT")
_VALUE_BYTES = 1 << 16
_BLOCK_KEYS = 256
_KEY_MATERIAL = struct.Struct(">QIIIB")


@dataclass(frozen=True, slots=True)
class JobData:
    """Everything that the data of one job is computed from."""

    seed: int
    job: str
    maps: int
    reduce_keys: tuple[int, ...]
    shuffle_bytes: int | None

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> JobData:
        """From launch parameters of kind "map"."""
        return cls(
            params["seed"],
            params["job"],
            max(1, params["maps"]),
            tuple(params["reduce_keys"]),
            params["shuffle_bytes"],
        )

    def partition(self, map_index: int, reduce_index: int) -> Iterator[Record]:
        """The records that one map emits for one reduce, sorted by key."""
        before, total = sum(self.reduce_keys[:reduce_index]), sum(self.reduce_keys)
        for number, key, holders in self._keys(reduce_index):
            if map_index not in holders:
                continue
            size = DEFAULT_VALUE_BYTES
            if self.shuffle_bytes is not None:
                size = _share(
                    _share(self.shuffle_bytes, before + number, total), holders.index(map_index), len(holders)
                )
            for piece in range(max(1, -(-size // _VALUE_BYTES))):
                name = f"natjam/1/value/{self.seed}/{reduce_index}/{number}/{map_index}/{piece}/{self.job}"
                length = min(_VALUE_BYTES, size - piece * _VALUE_BYTES)
                yield key, shake_128(name.encode()).digest(length)

    def _keys(self, reduce_index: int) -> Iterator[tuple[int, bytes, list[int]]]:
        """Number, key and emitting maps of every key of one reduce."""
        count, maps = self.reduce_keys[reduce_index], self.maps
        step = (1 << 64) // count
        for first in range(0, count, _BLOCK_KEYS):
            keys = min(_BLOCK_KEYS, count - first)
            name = f"natjam/1/keys/{self.seed}/{reduce_index}/{first // _BLOCK_KEYS}/{self.job}"
            material = shake_128(name.encode()).digest(keys * _KEY_MATERIAL.size)
            for number, (random, owner, second, third, extra) in enumerate(_KEY_MATERIAL.iter_unpack(material), first):
                holders = sorted({map_ % maps for map_ in (owner, second, third)[: 1 + extra % 3]})
                yield number, b"%016x" % (number * step + random % step), holders


def _share(total: int, index: int, count: int) -> int:
    """Part ``index`` of ``total`` cut into ``count`` parts that add up and differ by at most one."""
    return total * (index + 1) // count - total * index // count


def run_map(params: dict[str, Any], services: TaskProcess) -> None:
    """Run one map in its own process: write, wait until its duration is over, publish.

    ``params`` are the launch parameters of kind "map": job, task, maps (in the job), reduces, reduce_keys, seed,
    shuffle_bytes, output_bytes, map_only, work_dir, output_dir, duration_ns and first_key_at_ns (emulated).  The
    duration counts from the launch, or from first_key_at_ns if that is later.  It includes the time for writing, but
    not time in which the map is stopped (SIGTSTP).  The map stops between two partitions, or when all is written and
    no file is open.  With ``only_partition`` it runs :func:`localise_without_maps` instead.

    Raises OSError.
    """
    time_spent = _ActiveTime(services, params["first_key_at_ns"])
    duration_real_ns = services.clock.to_real_duration_ns(params["duration_ns"])

    def wait() -> None:
        ready_real_ns = time.monotonic_ns()
        services.report("settled")
        time_spent.wait_first_key()
        services.report(
            "first_key",
            real_ns=time_spent.first_key_real_ns,
            input_ready_real_ns=min(ready_real_ns, time_spent.first_key_real_ns),
            waited=False,
        )
        if services.memory is not None:
            services.use_memory(services.memory.write, time_spent.give_way)
            time_spent.work_from_now()
        time_spent.wait(duration_real_ns)
        if services.memory is not None:
            services.use_memory(services.memory.check, time_spent.give_way)

    if params.get("only_partition") is not None:
        localise_without_maps(params)
        wait()
    elif params["map_only"]:
        kept = kept_files(params, lambda: services.slot.alive(time.monotonic_ns()))
        _write_map_only_output(params, wait, kept)
    else:
        data = JobData.from_params(params)
        directory = records.map_directory(params["work_dir"], data.job, params["task"])
        partitions = time_spent.between(data.partition(params["task"], r) for r in range(len(data.reduce_keys)))
        records.write_map_output(directory, partitions, wait)


class _ActiveTime:
    """The time of a map's first key, and how long the map works from then on; it stops meanwhile when ordered to."""

    def __init__(self, services: TaskProcess, first_key_at_ns: int) -> None:
        self._services = services
        self.first_key_real_ns = max(time.monotonic_ns(), services.clock.to_real_ns(first_key_at_ns))
        self._done_real_ns = services.clock.to_real_duration_ns(services.params.get("in_key_ns", 0))
        """Work done before, according to its image."""
        self._stopped_real_ns = -self._done_real_ns
        """Time since the first key in which no key was worked on, minus the work done before."""

    def between(self, steps: Iterable[StepT]) -> Iterator[StepT]:
        """The steps of the work; between two steps the map stops if it was ordered to."""
        for step in steps:
            self._obey_pending()
            yield step

    def give_way(self) -> None:
        """Give a sign of life, and stop here if ordered to."""
        self._services.slot.alive(time.monotonic_ns())
        self._obey_pending()

    def _obey_pending(self) -> None:
        while taken := take_signal(0):
            self._obey(taken)

    def work_from_now(self) -> None:
        """Do not count the time since the first key as work on the keys."""
        self._stopped_real_ns = time.monotonic_ns() - self.first_key_real_ns - self._done_real_ns

    def wait_first_key(self) -> None:
        """Sleep until the first key."""
        while taken := self._services.wait(self.first_key_real_ns):
            self._obey(taken)

    def wait(self, duration_real_ns: int) -> None:
        """Sleep until this much time has been spent on the keys."""
        while taken := self._services.wait(self.first_key_real_ns + duration_real_ns + self._stopped_real_ns):
            self._obey(taken)

    def _obey(self, taken: int) -> None:
        if taken != SUSPEND:
            return
        stopped_real_ns, went_on_real_ns = stop_until_continued()
        if stopped_real_ns < self.first_key_real_ns:
            self.first_key_real_ns = max(self.first_key_real_ns, went_on_real_ns)
        else:
            self._stopped_real_ns += went_on_real_ns - stopped_real_ns


def localise_without_maps(params: dict[str, Any]) -> int:
    """Make the input of reduce ``only_partition`` of a job without maps, as if there were one map; returns the number
    of its keys.

    The file goes to this node's :func:`records.input_path`.  So the reduce finds its input already localised, and never
    gets the seed.  Must be done on a node before the reduce is launched there.  Raises OSError.
    """
    data = JobData.from_params({**params, "maps": 1})
    reduce_index = params["only_partition"]
    return records.merge(
        [data.partition(0, reduce_index)], records.input_path(params["work_dir"], data.job, reduce_index)
    )


def _write_map_only_output(params: dict[str, Any], before_publishing: Callable[[], None], kept: KeptFiles) -> None:
    job, map_index, output_bytes = params["job"], params["task"], params["output_bytes"]
    left = DEFAULT_VALUE_BYTES if output_bytes is None else _share(output_bytes, map_index, params["maps"])
    name = f"natjam/1/map-output/{params['seed']}/{map_index}/{job}"
    body = shake_128(name.encode()).digest(_VALUE_BYTES)[8:]
    final = partial_output.final_path(params["output_dir"], job, map_index, "m")
    number = 0
    partial = partial_output.partial_path(final, params["container_id"])
    with atomic_file(final, partial, before_publishing=before_publishing) as file:
        while left > 0:
            block = (number.to_bytes(8, "big") + body)[:left]
            file.write(block)
            left -= len(block)
            number += 1
    partial_output.drop_partials(final)
    kept.put(final)
