"""The input of reduces in virtual time: which map outputs a node knows, what is merged there, and who waits for it."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.core.effects import ProvideInput
from emulator.core.job import JobSpec
from emulator.sim.cost_model import DataSize
from emulator.sim.data import JobData
from emulator.sim.disks import VirtualDisks
from emulator.sim.tasks import VirtualTask

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
        """Those that run, in the order of their launch."""
        self._data: dict[str, JobData] = {}

    def add(self, reduce: VirtualTask) -> None:
        """A reduce is launched."""
        self._reduces.setdefault(_place_of(reduce), {})[reduce.launch.container] = reduce

    def remove(self, reduce: VirtualTask) -> None:
        """Its process has ended."""
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
