"""The on-demand checkpoint of a reduce task: the four items of natjam, section 3.1, and nothing else.

The state is small because the rest is already on disks: the localised input, and the partial outputs of all past
attempts.  The file is msgpack; our code never unpickles bytes from a file or a socket.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from emulator.storage.local import atomic_file

VERSION = 1
_MAXIMUM_BYTES = 16 << 20


class CheckpointError(Exception):
    """A checkpoint that cannot be used; the message names its source, the wrong field, and the problem."""

    def __init__(self, source: str, field: str, problem: str) -> None:
        super().__init__(f"checkpoint {source}: field {field!r}: {problem}")
        self.source = source
        self.field = field
        self.problem = problem


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """What a suspended reduce leaves for the attempt that continues it (natjam, section 3.1)."""

    past_containers: tuple[str, ...]
    """Ids of the containers of all suspended attempts so far, the latest last; outputs are committed in this order."""
    keys_done: int
    """Key counter: keys fully processed, whose output is in the partial outputs of ``past_containers``."""
    input_path: str
    """The localised, merged input on the disk of ``hostname``."""
    hostname: str
    """Node of the last suspended attempt; resuming there needs no network."""

    def to_dict(self) -> dict[str, Any]:
        """The message form, as sent to the ApplicationMaster and in launch parameters."""
        return {
            "version": VERSION,
            "past_containers": list(self.past_containers),
            "keys_done": self.keys_done,
            "input_path": self.input_path,
            "hostname": self.hostname,
        }

    @classmethod
    def from_dict(cls, data: object, source: str = "message") -> CheckpointFile:
        """Read the message form.  Raises :class:`CheckpointError` naming ``source`` and the first wrong field."""
        if not isinstance(data, dict):
            raise CheckpointError(source, "(whole)", f"expected a map, found {type(data).__name__}")
        expected = {"version", "past_containers", "keys_done", "input_path", "hostname"}
        for field in sorted(expected - data.keys()):
            raise CheckpointError(source, field, "missing")
        for field in data.keys() - expected:
            raise CheckpointError(source, str(field), "unknown")
        if type(data["version"]) is not int or data["version"] != VERSION:
            raise CheckpointError(source, "version", f"expected {VERSION}, found {data['version']!r}")
        past = data["past_containers"]
        if not isinstance(past, (list, tuple)) or not past or not all(isinstance(c, str) and c for c in past):
            raise CheckpointError(source, "past_containers", "expected a list of one or more container ids")
        if len(set(past)) != len(past):
            raise CheckpointError(source, "past_containers", "a container id occurs twice")
        if type(data["keys_done"]) is not int or data["keys_done"] < 0:
            raise CheckpointError(source, "keys_done", f"expected a count, found {data['keys_done']!r}")
        for field in ("input_path", "hostname"):
            if not isinstance(data[field], str) or not data[field] or "\0" in data[field]:
                raise CheckpointError(source, field, "expected a non-empty string")
        return cls(tuple(past), data["keys_done"], data["input_path"], data["hostname"])


def write(path: str, checkpoint: CheckpointFile) -> int:
    """Write a checkpoint: temporary file, fsync, rename, fsync of the directory.  Returns its size in bytes.

    Raises OSError; an earlier checkpoint at ``path`` is then unchanged.
    """
    packed: Any = msgpack.packb(checkpoint.to_dict())
    with atomic_file(path) as file:
        file.write(packed)
    return len(packed)


def read(path: str) -> CheckpointFile:
    """Read a checkpoint.  Raises :class:`CheckpointError` if it is malformed, OSError if it cannot be read."""
    with open(path, "rb") as file:
        packed = file.read(_MAXIMUM_BYTES + 1)
    if len(packed) > _MAXIMUM_BYTES:
        raise CheckpointError(path, "(whole)", f"larger than {_MAXIMUM_BYTES} bytes")
    try:
        data = msgpack.unpackb(packed)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise CheckpointError(path, "(whole)", f"not msgpack ({type(error).__name__})") from None
    return CheckpointFile.from_dict(data, path)
