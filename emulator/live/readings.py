"""What reduces' heartbeats have said of their progress, kept until their ApplicationMaster reads it."""

from __future__ import annotations

_KEPT = 1000

Reading = tuple[int, int]
"""When a key ended, in emulated nanoseconds, and how many were done then."""


class Readings:
    """Readings by container, oldest first."""

    def __init__(self) -> None:
        self._readings: dict[str, list[Reading]] = {}

    def add(self, container: str, at_ns: int, keys_done: int) -> None:
        """One more; of very many that nobody has read, every other one goes."""
        readings = self._readings.setdefault(container, [])
        if len(readings) >= _KEPT:
            del readings[1::2]  # a rate over longer spells is as good
        readings.append((at_ns, keys_done))

    def read(self, container: str, since_ns: int) -> tuple[Reading, ...]:
        """All that is there; what is later than ``since_ns`` stays, to be read again.

        An ApplicationMaster leaves readings later than its last refresh for the next one (natjam, section 3.2), so
        that they must come again; those that it knows already change no estimate.
        """
        readings = self._readings.pop(container, [])
        later = [reading for reading in readings if reading[0] > since_ns]
        if later:
            self._readings[container] = later
        return tuple(readings)

    def forget(self, container: str) -> None:
        """Nobody will read of it any more."""
        self._readings.pop(container, None)
