"""What the jobs of each queue hold and want together, kept as it changes: an allocation need not count it anew."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from emulator.core.applications import Application
from emulator.core.settings import QueueSettings
from emulator.policies.views import QueueView


@dataclass(slots=True)
class _Counts:
    used: int = 0
    pending: int = 0


class QueueLedger:
    """Part of the ResourceManager; ``note`` must follow every change of what a job holds or wants."""

    def __init__(self, queues: tuple[QueueSettings, ...]) -> None:
        self.pending = 0
        """Containers that all jobs together ask for."""
        self._queues = queues
        self._of_queue: dict[str, _Counts] = {queue.name: _Counts() for queue in queues}
        self._of_job: dict[str, _Counts] = {}

    def note(self, application: Application) -> None:
        """Take what ``application`` holds and wants now."""
        self._count(application, application.slots, application.requests.pending)

    def forget(self, application: Application) -> None:
        """It has ended."""
        self._count(application, 0, 0)
        del self._of_job[application.name]

    def _count(self, application: Application, used: int, pending: int) -> None:
        of_queue = self._of_queue.setdefault(application.queue, _Counts())
        of_job = self._of_job.setdefault(application.name, _Counts())
        of_queue.used += used - of_job.used
        of_queue.pending += pending - of_job.pending
        self.pending += pending - of_job.pending
        of_job.used, of_job.pending = used, pending

    def views(self) -> tuple[QueueView, ...]:
        """The queues as policies see them."""
        counts = self._of_queue
        return tuple(
            QueueView(q.name, q.rank, q.capacity, q.maximum, counts[q.name].used, counts[q.name].pending)
            for q in self._queues
        )

    def validate(self, applications: Iterable[Application]) -> None:
        """Raise AssertionError where a change has not been noted."""
        found: dict[str, tuple[int, int]] = dict.fromkeys(self._of_queue, (0, 0))
        for application in applications:
            used, pending = found[application.queue]
            found[application.queue] = used + application.slots, pending + application.requests.pending
        assert found == {name: (counts.used, counts.pending) for name, counts in self._of_queue.items()}
        assert self.pending == sum(counts.pending for counts in self._of_queue.values())
