"""Links between hosts: batches arrive whole and in order, and nobody is let in who does not know the secret."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.core.messages import ApplicationHeartbeat as Heartbeat
from emulator.core.messages import Ask, ContainerReport, ContainerState, NodeHeartbeat, ResumeAsk, StartContainer
from emulator.live.hosts.links import Address, Batch, BatchError, LinkError, Links, decode_batch, encode_batch
from emulator.live.hosts.plan import HOST, LaunchApplication, ProgressReadings
from emulator.vocabulary import MAP, REDUCE, KeyCheckpoint, TaskId

SECRET = "a secret of this run"
BATCH: Batch = [
    ("rm", NodeHeartbeat("node-1", 17, (ContainerReport("c", "j", MAP, "node-1", 3, ContainerState.DONE),))),
    ("rm", Heartbeat("j", 18, 2, Ask(((MAP, 1), (REDUCE, 2)), (ResumeAsk(TaskId(REDUCE, 0), "node-1", 5),)))),
    ("nm:node-1", StartContainer("c", "j", REDUCE, 4, "j/r004.1", 9, KeyCheckpoint(("b",), 3, "/in", "node-1"))),
    (HOST, LaunchApplication("job \u00e9\n", "c", "nodes-1", 1, 1 << 62)),
    (HOST, ProgressReadings((("c", 1, 2), ("d", 3, 4)))),
]


class End:
    """One host's links and what they have brought."""

    def __init__(self, name: str, secret: str = SECRET) -> None:
        self.batches: list[Batch] = []
        self.failures: list[Exception] = []
        self.links = Links(name, secret, self.batches.append, self.failures.append)

    async def brought(self, count: int) -> list[Batch]:
        await _until(lambda: len(self.batches) >= count)
        return self.batches


async def _until(true: Callable[[], bool]) -> None:
    async def ask() -> None:
        while not true():
            await asyncio.sleep(0.001)

    await asyncio.wait_for(ask(), 20)


def _run(scenario: Callable[[End, Address], Awaitable[None]]) -> None:
    """Run a scenario with a host ``b`` that listens."""

    async def main() -> None:
        end = End("b")
        try:
            await scenario(end, await end.links.listen("127.0.0.1"))
        finally:
            end.links.close()

    asyncio.run(main())


def test_a_batch_comes_back_as_it_was() -> None:
    assert decode_batch(encode_batch(BATCH)) == BATCH


def test_batches_arrive_whole_and_in_order() -> None:
    readings = [ProgressReadings(tuple((f"c{n}", n, k) for n in range(2000))) for k in range(30)]

    async def scenario(end: End, address: Address) -> None:
        sender = End("a")
        await sender.links.connect({"a": ("127.0.0.1", 1), "b": address})
        sender.links.send("b", BATCH)
        for message in readings:
            sender.links.send("b", [(HOST, message)])
        assert await end.brought(31) == [BATCH, *([(HOST, message)] for message in readings)]
        assert not end.failures
        sender.links.close()

    _run(scenario)


def test_a_link_that_breaks_is_known_and_takes_no_more() -> None:
    async def scenario(end: End, address: Address) -> None:
        sender = End("a")
        await sender.links.connect({"b": address})
        assert not sender.links.broken
        end.links.close()
        await _until(lambda: sender.links.broken == {"b"})
        sender.links.send("b", BATCH)
        sender.links.close()

    _run(scenario)


@pytest.mark.parametrize(("name", "secret"), [("a", "another secret"), ("a\nb", SECRET), ("x" * 2000, SECRET)])
def test_who_has_not_the_secret_or_no_proper_name_is_cut_off(name: str, secret: str) -> None:
    async def scenario(end: End, address: Address) -> None:
        stranger = End(name, secret)
        with pytest.raises(LinkError, match=r"cannot reach b at 127\.0\.0\.1:"):
            await stranger.links.connect({"b": address})
        assert not end.batches
        stranger.links.close()

    _run(scenario)


def test_a_host_does_not_talk_to_who_has_not_the_secret() -> None:
    async def main() -> None:
        heard = asyncio.get_running_loop().create_future()

        async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"0" * 32 + b"\n")
            await reader.readline()
            writer.write(b"0" * 64 + b"\n")
            heard.set_result(await reader.read())
            writer.close()

        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        end = End("a")
        with pytest.raises(LinkError, match="cannot reach b"):
            await end.links.connect({"b": server.sockets[0].getsockname()[:2]})
        assert await asyncio.wait_for(heard, 20) == b""
        server.close()

    asyncio.run(main())


@pytest.mark.parametrize("said", [b"[]\n", b"a 0 0\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"x" * 4096, b""])
def test_a_stranger_gets_a_challenge_and_nothing_else(said: bytes) -> None:
    async def scenario(end: End, address: Address) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(said)
        if not said:
            writer.write_eof()
        answer = b""
        with suppress(ConnectionError):
            while block := await asyncio.wait_for(reader.read(1000), 20):
                answer += block
        assert len(answer) <= 33
        assert not end.batches
        writer.close()

    _run(scenario)


def test_a_proof_is_good_for_one_connection_only() -> None:
    """What was seen of one handshake does not open another: the challenge is a new one."""

    async def scenario(end: End, address: Address) -> None:
        seen: list[bytes] = []

        async def eavesdropper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, onward = await asyncio.open_connection(*address)
            writer.write(await there.readline())
            seen.append(await reader.readline())
            onward.write(seen[0])
            writer.write(await there.readline())
            await reader.read()
            onward.close()

        server = await asyncio.start_server(eavesdropper, "127.0.0.1", 0)
        friend = End("a")
        await friend.links.connect({"b": server.sockets[0].getsockname()[:2]})
        reader, writer = await asyncio.open_connection(*address)
        await reader.readline()
        writer.write(seen[0])
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        friend.links.close()
        server.close()

    _run(scenario)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary(max_size=200) | st.lists(st.tuples(st.text(max_size=5), _JSON, _JSON), max_size=3))
def test_what_is_no_batch_is_refused_with_its_own_error(given: object) -> None:
    import orjson

    line = given if isinstance(given, bytes) else orjson.dumps(given, option=orjson.OPT_NON_STR_KEYS)
    with suppress(BatchError):
        decode_batch(line)


def test_what_is_nested_too_deeply_is_refused_with_its_own_error() -> None:
    with pytest.raises(BatchError, match=r"recursion|Stack overflow"):  # before 3.14; since
        decode_batch(b'[["am:j",{"report":' + b"[" * 1_000_000)
