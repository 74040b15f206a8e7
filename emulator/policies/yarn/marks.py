"""The list of containers that YARN's preemption policy wants: each is killed when it has been wanted long enough."""

from __future__ import annotations

from collections.abc import Iterable


class Marks:
    """Since when each container has been on the list.

    It is taken if it is chosen again when its mark is ``wait_ns`` old or older.  A mark lapses after twice that time,
    not when a round passes the container over.
    """

    def __init__(self, interval_ns: int, wait_ns: int) -> None:
        """``interval_ns``: time between two rounds."""
        self._interval_ns = interval_ns
        self._wait_ns = wait_ns
        self.since_ns: dict[str, int] = {}

    def round(self, chosen: Iterable[str], now_ns: int) -> list[str]:
        """The containers of ``chosen`` that are due; the others go on the list, or stay on it."""
        # Forget what the round before this one would have forgotten, even if that round was skipped.
        oldest_ns = now_ns - self._interval_ns - 2 * self._wait_ns
        self.since_ns = {container: since for container, since in self.since_ns.items() if since >= oldest_ns}
        due: list[str] = []
        for container in chosen:
            since_ns = self.since_ns.get(container)
            if since_ns is None:
                self.since_ns[container] = now_ns
            elif since_ns + self._wait_ns <= now_ns:
                del self.since_ns[container]
                due.append(container)
        return due
