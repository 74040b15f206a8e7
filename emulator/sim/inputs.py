"""The input of reduces in virtual time: how much it is, which map outputs a node knows, what is merged there, and who
waits for it."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.core.effects import ProvideInput
from emulator.core.job import JobSpec
from emulator.sim.cost_model import DataSize
from emulator.sim.disks import VirtualDisks
from emulator.sim.tasks import VirtualTask


class JobData:
    """How much the tasks of one job read and write: what ``emulator.live.tasks.mapper`` really makes, computed once."""

    def __init__(self, job: JobSpec) -> None:
        self._job = job
        self._keys = sum(job.reduce_keys)
        self._maps = max(1, len(job.map_ns))
        self._outputs: tuple[str, ...] = ()
        """The nodes of the maps' outputs, as the last reduce has found them."""
        self._nodes: frozenset[str] = frozenset()
        """The nodes of ``_outputs``, each once."""

    def _records(self, keys: int) -> int:
        """Records of so many keys: one key in three is emitted by one map, one by two and one by three, drawn with
        replacement from ``m`` maps.  So a key has ``m * (1 - (1 - 1 / m) ** draws)`` in the mean, which adds up to
        ``6 - 4 / m + 1 / m**2`` for three keys."""
        return keys * (6 * self._maps**2 - 4 * self._maps + 1) // (3 * self._maps**2)

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


_Place = tuple[str, str]
"""A node, and a job."""


class VirtualInputs:
    """What each node has of each job's data."""

    def __init__(self, jobs: Mapping[str, JobSpec], disks: VirtualDisks) -> None:
        self._jobs = jobs
        self._disks = disks
        self._known: dict[_Place, ProvideInput] = {}
        """The nodes of the job's map outputs."""
        self._merged: dict[_Place, set[int]] = {}
        """Reduces whose merged input is there."""
        self._reduces: dict[_Place, dict[str, VirtualTask]] = {}
        """The reduces that run there, in the order of their launch."""
        self._data: dict[str, JobData] = {}

    def add(self, reduce: VirtualTask) -> None:
        """A reduce is launched."""
        self._reduces.setdefault(_place_of(reduce), {})[reduce.launch.container] = reduce

    def remove(self, reduce: VirtualTask) -> None:
        """The process of a reduce has ended."""
        place = _place_of(reduce)
        del self._reduces[place][reduce.launch.container]
        if not self._reduces[place]:
            del self._reduces[place]

    def provide(self, node: str, known: ProvideInput) -> list[str]:
        """The nodes of a job's map outputs are known on ``node``; the containers of the reduces that wait for them."""
        place = node, known.job
        self._known[place] = known
        return [container for container, reduce in self._reduces.get(place, {}).items() if reduce.awaits_input]

    def known_to(self, reduce: VirtualTask) -> ProvideInput | None:
        """What its node knows of its job's map outputs; None: nothing."""
        return self._known.get(_place_of(reduce))

    def first_missing(self, known: ProvideInput) -> int | None:
        """The first map whose output is not where it should be; None: all are there."""
        return self._disks.first_missing(known.job, known.nodes)

    def is_merged(self, reduce: VirtualTask) -> bool:
        """Whether its merged input is on its node: fetched by an earlier attempt or, in a job without maps, made."""
        return reduce.index in self._merged.get(_place_of(reduce), ())

    def fetched(self, reduce: VirtualTask, outputs: tuple[str, ...]) -> DataSize:
        """What a reduce brings to its node, where it then stays; ``outputs``: the node of each map's output."""
        self._merged.setdefault(_place_of(reduce), set()).add(reduce.index)
        return self.data_of(reduce.launch.job).reduce_input(reduce.index, reduce.node, outputs)

    def data_of(self, job: str) -> JobData:
        """How much the tasks of a job read and write."""
        data = self._data.get(job)
        if data is None:
            data = self._data[job] = JobData(self._jobs[job])
        return data

    def forget(self, node: str, job: str) -> None:
        """The node has nothing of a job any more."""
        self._known.pop((node, job), None)
        self._merged.pop((node, job), None)


def _place_of(reduce: VirtualTask) -> _Place:
    return reduce.node, reduce.launch.job
