"""What the history of a run keeps while the run goes on: little for a container that is over, less for a job that is.

Most of the memory of a large run would be this.  A container that is over is packed, to a third; so are choices of
victims, some hundred at a time.  When all containers of a job that has ended are over, they are compressed together, to
a tenth: names and times repeat in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter

import msgspec

from emulator.records.history.attempt_names import compressed, decompress, pack
from emulator.records.history.containers import ContainerStory
from emulator.records.history.decisions import Explained

_CHOICES_A_PACK = 256
_unpack = msgspec.msgpack.Decoder(ContainerStory).decode
_unpack_all = msgspec.msgpack.Decoder(list[ContainerStory]).decode
Choice = tuple[int, str, Explained]
"""When a victim was chosen, by which actor, and why."""


class KeptStories:
    """What is known about each container of each job."""

    def __init__(self, jobs: Iterable[str]) -> None:
        self._stories: dict[str, ContainerStory | bytes] = {}
        """By container; of one that is over, packed."""
        self._containers: dict[str, list[str]] = {name: [] for name in jobs}
        """Those that were ordered to start, by job."""
        self._open: dict[str, int] = dict.fromkeys(self._containers, 0)
        """How many of them are not over."""
        self._ended: set[str] = set()
        """Jobs that have ended."""
        self._compressed: dict[str, bytes] = {}
        """All containers of a job."""
        self.started = 0
        """Number of containers that were ordered to start."""

    @property
    def jobs(self) -> Iterable[str]:
        """The jobs that were given, and any others that have containers."""
        return self._containers.keys()

    def of(self, container: str) -> ContainerStory:
        """What is known about a container, to add to it."""
        story = self._stories.get(container)
        if story is None:
            story = self._stories[container] = ContainerStory(container)
        elif isinstance(story, bytes):
            story = self._stories[container] = _unpack(story)
            if story.start is not None:
                self._open[story.start.job] += 1
        return story

    def start(self, job: str, container: str) -> None:
        """A container of the job was ordered to start, for the first time."""
        self._containers.setdefault(job, []).append(container)
        self._open[job] = self._open.get(job, 0) + 1
        self.started += 1

    def end(self, job: str) -> None:
        """The job has ended."""
        self._ended.add(job)

    def is_over(self, job: str) -> bool:
        """Whether the job and all its containers are over, so that there is nothing more to know about them."""
        return job in self._compressed

    def close(self, story: ContainerStory) -> None:
        """A container is over."""
        self._stories[story.container] = pack(story)
        if story.start is not None:
            job = story.start.job
            self._open[job] -= 1
            if not self._open[job] and job in self._ended:
                self._compress(job)

    def _compress(self, job: str) -> None:
        containers = self._containers[job]
        packed = map(self._stories.pop, containers)
        self._compressed[job] = compressed([msgspec.Raw(one) for one in packed if isinstance(one, bytes)])
        containers.clear()

    def all_of(self, job: str) -> list[ContainerStory]:
        """What is known about all containers of a job."""
        if job in self._compressed:
            return _unpack_all(decompress(self._compressed[job]))
        found = map(self._stories.__getitem__, self._containers[job])
        return [_unpack(one) if isinstance(one, bytes) else one for one in found]

    def forget(self, job: str) -> None:
        """Free what is kept of a job; nothing more of it is asked for."""
        self._compressed.pop(job, None)
        for container in self._containers[job]:
            del self._stories[container]


class KeptChoices:
    """The choices of victims."""

    def __init__(self) -> None:
        self._packs: list[bytes] = []
        self._last: list[Choice] = []
        self._newest = (0, "")
        """Time and actor of the last in the order of these."""
        self._came_in_order = True

    def add(self, choice: Choice) -> None:
        """Keep the next one."""
        self._came_in_order &= choice[:2] >= self._newest
        self._newest = max(choice[:2], self._newest)
        self._last.append(choice)
        if len(self._last) >= _CHOICES_A_PACK:
            self._packs.append(compressed(self._last))
            self._last.clear()

    def in_order(self) -> Iterator[Choice]:
        """All, by time, then actor, then as they came.  If they came in that order, few at a time are unpacked."""
        return iter(self) if self._came_in_order else iter(sorted(self, key=itemgetter(0, 1)))

    def __iter__(self) -> Iterator[Choice]:
        decoder = msgspec.msgpack.Decoder(list[Choice]) if self._packs else None
        for choices in self._packs:
            assert decoder is not None
            yield from decoder.decode(decompress(choices))
        yield from self._last
