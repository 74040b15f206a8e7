"""The readings of reduces' heartbeats, kept until their ApplicationMaster reads them."""

from __future__ import annotations

_KEPT = 1000

Reading = tuple[int, int]
"""When a key ended, in emulated nanoseconds, and how many were done then."""


class Readings:
    """Readings by container, oldest first."""

    def __init__(self) -> None:
        self._readings: dict[str, list[Reading]] = {}

    def add(self, container: str, at_ns: int, keys_done: int) -> None:
        """Add a reading; if very many are unread, every other one is dropped."""
        readings = self._readings.setdefault(container, [])
        if len(readings) >= _KEPT:
            del readings[1::2]  # a rate over longer times is as good
        readings.append((at_ns, keys_done))

    def read(self, container: str, since_ns: int) -> tuple[Reading, ...]:
        """All readings; those later than ``since_ns`` are kept and returned again.

        An ApplicationMaster leaves readings after its last refresh for the next one (natjam, section 3.2), so it must
        get them again; readings that it already used change no estimate.
        """
        readings = self._readings.pop(container, [])
        later = [reading for reading in readings if reading[0] > since_ns]
        if later:
            self._readings[container] = later
        return tuple(readings)

    def forget(self, container: str) -> None:
        """Drop the readings of a container that nobody will read any more."""
        self._readings.pop(container, None)
