"""Connections between the hosts of a run: batches over TCP, accepted only from hosts that know the run's secret.

Theory of operation
-------------------
Ray's actors play the roles and start the hosts.  A message between machines would cost a millisecond of both cores as
an actor call; here it costs some tens of microseconds.  Every host listens on the address of its Ray node.  When it
learns the addresses of the others, it opens a link to each.  A link carries batches in one direction, each as a line of
JSON: all that one host sends another at a time.  Messages between machines have the form they have in a journal, and so
have the hosts' own notes.  Nothing that comes from a socket is ever unpickled.

First both ends prove that they know the secret, which itself is never sent.  Each answers the other's random challenge
with an HMAC of the challenge and of both names.  An end that fails is disconnected without having learned
anything.  Links are encrypted on machines that have certificates (``emulator.live.encryption``).

A link that breaks stays broken until the peer is connected again.  Either the peer has died, which the driver notices,
and may be replaced; or the network has failed, which ends the run.  Until then, messages to it are dropped.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import msgspec

from emulator.core.messages import Message
from emulator.errors import NatjamError
from emulator.files.json_values import decoded
from emulator.live import encryption
from emulator.live.hosts.plan import Note

Batch: TypeAlias = list[tuple[str, Message | Note]]
"""Messages for the machines of one host: (address, message); the address ``HOST`` is the host itself."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Batch)


class BatchError(NatjamError):
    """Bytes that are not a batch; the message says what is wrong with them."""


def encode_batch(batch: Batch) -> bytes:
    """One line, without the newline."""
    return _encoder.encode(batch)


def decode_batch(line: bytes) -> Batch:
    """The batch in one line.  Raises BatchError for anything else."""
    return decoded(line, _decoder.decode, BatchError)


Address = tuple[str, int]
"""Where a host listens: IP address and port."""

_HANDSHAKE_BYTES = 1024
_HANDSHAKE_TIMEOUT_REAL_S = 10.0
_BATCH_BYTES = 1 << 28


class LinkError(Exception):
    """A peer cannot be reached, or does not know the secret."""


class Links:
    """The links of one host.  ``deliver`` is called with every batch received; use it from one event loop only.

    ``fail(error)`` is called if a peer sends bytes that are not a batch, which can only be a bug.
    """

    def __init__(
        self, name: str, secret: str, deliver: Callable[[Batch], None], fail: Callable[[Exception], None]
    ) -> None:
        self.broken: set[str] = set()
        """Peers whose link is broken."""
        self._name = name
        self._secret = secret
        self._deliver = deliver
        self._fail = fail
        self._outgoing: dict[str, _Outgoing] = {}
        self._incoming: set[_Incoming] = set()
        self._server: asyncio.Server | None = None

    async def listen(self, ip_address: str) -> Address:
        """Accept links on a port of ``ip_address``; returns the address.  Raises OSError."""
        loop = asyncio.get_running_loop()
        encrypted = encryption.context(listens=True)
        self._server = await loop.create_server(self._accept, ip_address, 0, ssl=encrypted)
        host, port = self._server.sockets[0].getsockname()[:2]
        return host, port

    async def connect(self, peers: Mapping[str, Address]) -> None:
        """Open a link to every other host.  Raises LinkError."""
        await asyncio.gather(*(self._connect(peer, at) for peer, at in peers.items() if peer != self._name))

    async def _connect(self, peer: str, address: Address) -> None:
        ready = asyncio.get_running_loop().create_future()
        outgoing = _Outgoing(ready, _Proofs(self._secret, self._name, peer), partial(self._lost, peer))
        try:
            await asyncio.wait_for(_open(outgoing, address), _HANDSHAKE_TIMEOUT_REAL_S)
        except (OSError, LinkError) as error:
            raise LinkError(f"cannot reach {peer} at {address[0]}:{address[1]}: {error or 'no answer'}") from error
        self._outgoing[peer] = outgoing
        self.broken.discard(peer)

    def send(self, peer: str, batch: Batch) -> None:
        """Send to a connected peer.  Never blocks; drops the batch if the link is broken."""
        self._outgoing[peer].send(encode_batch(batch))

    def close(self) -> None:
        """Close everything."""
        if self._server is not None:
            self._server.close()
        for outgoing in self._outgoing.values():
            outgoing.close()
        for incoming in list(self._incoming):
            incoming.close()

    def _lost(self, peer: str, outgoing: _Outgoing) -> None:
        if self._outgoing.get(peer) is outgoing:
            self.broken.add(peer)

    def _accept(self) -> asyncio.Protocol:
        return _Incoming(_Proofs(self._secret, "", self._name), self._take, self._incoming)

    def _take(self, line: bytes) -> None:
        try:
            self._deliver(decode_batch(line))
        except BatchError as error:
            self._fail(error)


async def _open(outgoing: _Outgoing, address: Address) -> None:
    encrypted = encryption.context(listens=False)
    await asyncio.get_running_loop().create_connection(lambda: outgoing, *address, ssl=encrypted)
    await outgoing.ready


class _Proofs:
    """The proofs of the secret that both ends of a link, from ``client`` to ``server``, exchange."""

    def __init__(self, secret: str, client: str, server: str) -> None:
        self.client = client
        self._key = secret.encode()
        self._server = server

    def of(self, side: str, challenges: bytes) -> str:
        """The answer of ``side`` to both challenges, the server's first."""
        text = f"natjam/1/link/{side}/{self.client}/{self._server}/".encode()
        return hmac.digest(self._key, text + challenges, "sha256").hex()

    def hold(self, side: str, challenges: bytes, given: bytes) -> bool:
        """Whether ``given`` is that answer."""
        return hmac.compare_digest(self.of(side, challenges).encode(), given)


class _Lines(asyncio.Protocol):
    """Splits the input into lines; a line longer than ``_longest_bytes`` ends the connection."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._longest_bytes = _HANDSHAKE_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(_HANDSHAKE_TIMEOUT_REAL_S, self.close)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if b"\n" in data:
            *lines, rest = bytes(self._buffer).split(b"\n")
            self._buffer = bytearray(rest)
            for line in lines:
                if len(line) > self._longest_bytes:
                    self.close()
                if not self._transport.is_closing():
                    self._line(line)
        if len(self._buffer) > self._longest_bytes:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()

    def close(self) -> None:
        """Cut the connection."""
        self._transport.abort()

    def _write(self, *parts: bytes) -> None:
        self._transport.write(b" ".join(parts) + b"\n")

    def _established(self) -> None:
        self._deadline.cancel()
        self._longest_bytes = _BATCH_BYTES

    def _line(self, line: bytes) -> None:
        raise NotImplementedError


class _Incoming(_Lines):
    """The accepting end of a link: sends its challenge, then takes batches."""

    def __init__(self, proofs: _Proofs, take: Callable[[bytes], None], connected: set[_Incoming]) -> None:
        super().__init__()
        self._proofs = proofs
        self._take = take
        self._connected = connected
        self._challenge = secrets.token_hex(16).encode()
        self._known = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connected.add(self)
        self._write(self._challenge)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connected.discard(self)

    def _line(self, line: bytes) -> None:
        if self._known:
            self._take(line)
            return
        name, _, rest = line.partition(b" ")
        challenge, _, proof = rest.partition(b" ")
        challenges = self._challenge + challenge
        self._proofs.client = name.decode("ascii", "replace")
        if not self._proofs.hold("client", challenges, proof):
            self.close()
            return
        self._known = True
        self._established()
        self._write(self._proofs.of("server", challenges).encode())


class _Outgoing(_Lines):
    """The connecting end of a link: proves itself, checks the other end's proof, then sends."""

    def __init__(self, ready: asyncio.Future[None], proofs: _Proofs, lost: Callable[[_Outgoing], None]) -> None:
        super().__init__()
        self.ready = ready
        self._proofs = proofs
        self._lost = lost
        self._challenge = secrets.token_hex(16).encode()
        self._challenges: bytes | None = None

    def send(self, line: bytes) -> None:
        """Send one line."""
        if not self._transport.is_closing():
            self._transport.write(line + b"\n")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.ready.done():
            self.ready.set_exception(LinkError("it has closed the connection"))
        self._lost(self)

    def _line(self, line: bytes) -> None:
        if self._challenges is None:
            self._challenges = line + self._challenge
            proof = self._proofs.of("client", self._challenges).encode()
            self._write(self._proofs.client.encode(), self._challenge, proof)
        elif self.ready.done() or not self._proofs.hold("server", self._challenges, line):
            self.close()
        else:
            self._established()
            self.ready.set_result(None)
