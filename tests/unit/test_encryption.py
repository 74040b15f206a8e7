"""Between machines with certificates nothing goes in clear text, and who has none of the cluster's is not let in."""

from __future__ import annotations

import asyncio
import shutil
import stat
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from emulator.live import encryption
from emulator.live.hosts import links
from emulator.live.hosts.links import Address, Batch, LinkError, Links
from emulator.live.hosts.plan import HOST, ProgressReadings
from emulator.live.services.service_process import ShuffleProcess
from emulator.live.tasks import records, shuffle
from tests.certificates import certificates_in

SECRET = "a secret of this run"
BOUND_S = 20
BATCH: Batch = [(HOST, ProgressReadings((("container-of-a-job", 1, 2),)))]
WORD = b"container-of-a-job"


pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return certificates_in(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def of_another_cluster(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return certificates_in(tmp_path_factory.mktemp("other-home"))


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[dict[str, str]], None]]:
    """Makes this process one of a machine with these certificates."""

    def set_to(variables: dict[str, str]) -> None:
        for name in (encryption.SWITCH, encryption.CERTIFICATE, encryption.KEY, encryption.AUTHORITY):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        encryption.context.cache_clear()

    yield set_to
    encryption.context.cache_clear()


def _with_a_listener(scenario: Callable[[list[Batch], Address], Awaitable[None]], at: str = "127.0.0.1") -> None:
    """Run a scenario with a host ``b`` that listens; it is told what ``b`` gets."""

    async def main() -> None:
        got: list[Batch] = []
        end = Links("b", SECRET, got.append, _fail)
        try:
            await asyncio.wait_for(scenario(got, await end.listen(at)), BOUND_S)
        finally:
            end.close()

    asyncio.run(main())


async def _cannot_connect(_: list[Batch], address: Address) -> None:
    end = Links("a", SECRET, lambda batch: None, _fail)
    with pytest.raises(LinkError, match="cannot reach b"):
        await end.connect({"b": address})
    end.close()


def _fail(error: Exception) -> None:
    raise error


def _overheard() -> bytes:
    """What goes over a link, both ways, that brings the batch to its end."""
    seen = bytearray()

    async def scenario(got: list[Batch], address: Address) -> None:
        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while block := await source.read(1 << 16):
                seen.extend(block)
                target.write(block)

        async def between(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, onward = await asyncio.open_connection(*address)
            await asyncio.gather(pass_on(reader, onward), pass_on(there, writer), return_exceptions=True)
            onward.close()
            writer.close()

        server = await asyncio.start_server(between, "127.0.0.1", 0)
        end = Links("a", SECRET, lambda batch: None, _fail)
        await end.connect({"b": server.sockets[0].getsockname()[:2]})
        end.send("b", BATCH)
        while not got:
            await asyncio.sleep(0.001)
        assert got == [BATCH]
        end.close()
        server.close()

    _with_a_listener(scenario)
    return bytes(seen)


def test_with_certificates_a_link_says_nothing_in_clear_text(
    certificates: dict[str, str], become: Callable[[dict[str, str]], None]
) -> None:
    become({})
    assert WORD in _overheard()
    become(certificates)
    overheard = _overheard()
    assert len(overheard) > 1000
    assert WORD not in overheard


@pytest.mark.parametrize("has", ["none", "another cluster's"])
def test_a_link_is_only_for_who_has_a_certificate_of_the_authority(
    certificates: dict[str, str],
    of_another_cluster: dict[str, str],
    become: Callable[[dict[str, str]], None],
    monkeypatch: pytest.MonkeyPatch,
    has: str,
) -> None:
    async def scenario(got: list[Batch], address: Address) -> None:
        monkeypatch.setattr(links, "_HANDSHAKE_TIMEOUT_REAL_S", 0.3)  # both sides may wait for the other
        become({} if has == "none" else of_another_cluster)
        await _cannot_connect(got, address)
        assert not got

    become(certificates)
    _with_a_listener(scenario)


def test_who_is_told_to_encrypt_does_not_talk_in_clear_text(
    certificates: dict[str, str], become: Callable[[dict[str, str]], None]
) -> None:
    async def scenario(got: list[Batch], address: Address) -> None:
        become(certificates)
        await _cannot_connect(got, address)

    become({})
    _with_a_listener(scenario)


def test_a_certificate_is_good_for_its_own_machines_addresses_only(
    certificates: dict[str, str], become: Callable[[dict[str, str]], None]
) -> None:
    become(certificates)
    _with_a_listener(_cannot_connect, at="127.0.0.2")


def test_map_outputs_are_fetched_over_https(
    certificates: dict[str, str], become: Callable[[dict[str, str]], None], tmp_path: Path
) -> None:
    become(certificates)
    values = [b"small", b"x" * 700_000]  # the service has a way of its own for what is large
    for m, value in enumerate(values):
        records.write_map_output(records.map_directory(str(tmp_path / "node-1"), "job", m), [[(b"%016x" % m, value)]])
    params = {"job": "job", "task": 0, "maps": 2, "keys": 2, "node": "node-2", "work_dir": str(tmp_path / "node-2")}
    params |= {"secret": SECRET, "network_bytes_real_s": 10**12, "checkpoint": None, "save_period_ns": None}

    async def fetch() -> str:
        service = ShuffleProcess("a-run", SECRET, tmp_path, ["node-1"], "127.0.0.1")
        url = (await service.urls())["node-1"]
        try:
            assert url.startswith("https://127.0.0.1:")
            outputs = [{"map": m, "url": url} for m in range(2)]
            path, _ = await asyncio.to_thread(shuffle.fetch_and_merge, params, outputs)
            in_clear_text = [{**output, "url": output["url"].replace("https", "http")} for output in outputs]
            with pytest.raises(shuffle.FetchFailed, match="not an https://"):
                await asyncio.to_thread(shuffle.fetch_and_merge, {**params, "node": "node-3", "task": 1}, in_clear_text)
        finally:
            served = await service.served()
        assert served["requests"] == 1
        return path

    reader = records.KeyReader(asyncio.run(fetch()))
    assert [value for _, found in reader for value in found] == values
    reader.close()


def test_certificates_are_good_for_who_checks_them_by_the_letter(certificates: dict[str, str]) -> None:
    """As Python's default context does from 3.13 on."""
    strictly = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile"]
    done = subprocess.run(
        [*strictly, certificates[encryption.AUTHORITY], certificates[encryption.CERTIFICATE]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_keys_are_readable_for_their_owner_only(certificates: dict[str, str]) -> None:
    folder = Path(certificates[encryption.KEY]).parent
    keys = [folder / "machine.key", folder / "authority.key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
