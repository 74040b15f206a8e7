"""How much data the tasks of a job read and write: computes what ``emulator.live.tasks.mapper`` really makes."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property

from emulator.core.job import JobSpec
from emulator.sim.cost_model import DataSize


class JobData:
    """The data of one job, computed once for all tasks."""

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._keys = sum(job.reduce_keys)
        self._maps = max(1, len(job.map_ns))
        self._outputs: tuple[str, ...] = ()
        """The nodes of the maps' outputs, as the last reduce has found them."""
        self._nodes: frozenset[str] = frozenset()
        """The same, each once."""

    @cached_property
    def _records_per_key(self) -> tuple[int, int]:
        """Numerator and denominator: one key in three is emitted by one map, one by two and one by three, drawn with
        replacement."""
        missed = 1 - Fraction(1, self._maps)
        per_key = sum((self._maps * (1 - missed**draws) for draws in (1, 2, 3)), Fraction(0)) / 3
        return per_key.as_integer_ratio()

    def _records(self, keys: int) -> int:
        numerator, denominator = self._records_per_key
        return keys * numerator // denominator

    def map_output(self) -> DataSize:
        """The output of one map."""
        if not self._job.reduce_ns:
            return DataSize(0, (self._job.output_bytes or 0) // self._maps)
        return DataSize(self._records(self._keys) // self._maps, (self._job.shuffle_bytes or 0) // self._maps)

    def reduce_input(self, reduce: int, node: str, outputs: tuple[str, ...]) -> DataSize:
        """The input of a reduce on ``node``; ``outputs``: the node of each map's output; empty: made on ``node``."""
        if outputs is not self._outputs:
            self._outputs, self._nodes = outputs, frozenset(outputs)
        size_bytes = self._share(reduce, self._job.shuffle_bytes)
        remote_bytes = size_bytes * (len(outputs) - outputs.count(node)) // max(1, len(outputs))
        records = self._records(self._job.reduce_keys[reduce])
        return DataSize(records, size_bytes, remote_bytes, len(self._nodes) - (node in self._nodes))

    def reduce_output_bytes(self, reduce: int) -> int:
        """Bytes of output of a reduce."""
        return self._share(reduce, self._job.output_bytes)

    def _share(self, reduce: int, job_bytes: int | None) -> int:
        return (job_bytes or 0) * self._job.reduce_keys[reduce] // self._keys
