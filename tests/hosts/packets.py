"""What has gone over the links of the hosts, packet by packet.

Run as a program in the switch's network, it writes every frame that comes in at any port to a file, each after its
length, until its standard input ends.  Standard library only.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_ALL_PROTOCOLS = 3
_SO_RCVBUFFORCE = 33
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_LENGTH = struct.Struct(">I")
_IPV4, _TCP, _SYN = b"\x08\x00", 6, 2


@dataclass
class Stream:
    """One direction of one TCP connection."""

    source: tuple[str, int]
    target: tuple[str, int]
    first: int
    """Sequence number of its first byte."""
    pieces: dict[int, bytes] = field(default_factory=dict)

    def content(self) -> bytes:
        """Its bytes, as far as they have been seen, in order."""
        content, end = bytearray(), 0
        for at, piece in sorted(self.pieces.items()):
            content += piece[max(0, end - at) :]
            end = max(end, at + len(piece))
        return bytes(content)


def streams(file: Path) -> list[Stream]:
    """All TCP connections whose beginning has been captured, each as two streams."""
    found: list[Stream] = []
    current: dict[tuple[tuple[str, int], tuple[str, int]], Stream] = {}
    for frame in _frames(file):
        if frame[12:14] != _IPV4 or frame[23] != _TCP:
            continue
        packet = frame[14 : 14 + int.from_bytes(frame[16:18], "big")]
        segment = packet[(packet[0] & 15) * 4 :]
        source_port, target_port, number = struct.unpack_from(">HHI", segment)
        source = (socket.inet_ntoa(packet[12:16]), source_port)
        target = (socket.inet_ntoa(packet[16:20]), target_port)
        if segment[13] & _SYN:
            current[source, target] = Stream(source, target, number + 1)
            found.append(current[source, target])
        elif (source, target) in current and (payload := segment[(segment[12] >> 4) * 4 :]):
            stream = current[source, target]
            stream.pieces.setdefault((number - stream.first) % 2**32, payload)
    return found


def _frames(file: Path) -> Iterator[bytes]:
    captured = file.read_bytes()
    at = 0
    while len(captured) >= at + _LENGTH.size:
        (length,) = _LENGTH.unpack_from(captured, at)
        at += _LENGTH.size + length
        if at <= len(captured):  # else it is just being written
            yield captured[at - length : at]


def _capture(path: str) -> None:
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS)) as packets,
        open(path, "wb") as file,
    ):
        packets.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 1 << 28)
        packets.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([packets, sys.stdin], [], [], 0.2)[0]):
            if not ready:
                file.flush()
                continue
            frame = packets.recv(1 << 17)
            file.write(_LENGTH.pack(len(frame)) + frame)


if __name__ == "__main__":
    _capture(sys.argv[1])
