"""Nothing that the hosts say to each other goes over their links in clear text.  Looks at all that has gone so far."""

from __future__ import annotations

import re
import secrets

import pytest

from tests.hosts.conftest import HEAD, WORKERS, Cluster
from tests.hosts.host_init import HOME
from tests.hosts.packets import Stream, streams
from tests.live_runs import until
from tests.run_results import RunResults

SSH = 22
RAY = 6379
KEY = re.compile(rb"(?=([0-9a-f]{16}))")
TLS_BEGINS = b"\x16\x03"
WORDS = (b"NodeHeartbeat", b"emulator.live", b"research-XL", b"Natjam-Signature", b"natjam-fig4")
BOUND_S = 20


@pytest.fixture(scope="module")
def seen(cluster: Cluster, fig4: RunResults) -> bytes:
    """Every packet since before Ray was brought up.  What is sent in clear text in the end, to see that it is found, is
    the last of it."""
    canary = secrets.token_hex(16)
    address = cluster.network.addresses[WORKERS[0]]
    cluster.network.hosts[HEAD].run("bash", "-c", f"exec 3<>/dev/tcp/{address}/{SSH}; echo {canary} >&3; read -u 3")
    packets = cluster.network.packets
    until(lambda: canary.encode() in packets.read_bytes(), "what was sent in clear text", BOUND_S)
    return packets.read_bytes()


@pytest.fixture(scope="module")
def connections(cluster: Cluster, seen: bytes) -> list[Stream]:
    return [stream for stream in streams(cluster.network.packets) if stream.pieces]


def test_every_connection_is_by_tls_or_ssh(connections: list[Stream]) -> None:
    in_clear_text = []
    for stream in connections:
        begins = stream.content()[:4]
        if not begins.startswith(b"SSH-" if SSH in (stream.source[1], stream.target[1]) else TLS_BEGINS):
            in_clear_text.append((stream.source, stream.target, stream.content()[:80]))
    assert len(in_clear_text) == 1, "but the one of this test, which is neither"
    assert in_clear_text[0][1][1] == SSH


def test_hosts_have_met_and_ray_too(cluster: Cluster, connections: list[Stream]) -> None:
    to_ray = {stream.source[0] for stream in connections if stream.target[1] == RAY}
    assert {cluster.network.addresses[name] for name in WORKERS} <= to_ray
    others = [stream for stream in connections if stream.target[1] not in (SSH, RAY)]
    pairs = {(stream.source[0], stream.target[0]) for stream in others}
    between_workers = {(a, b) for a, b in pairs if cluster.network.addresses[HEAD] not in (a, b)}
    assert between_workers, "workers fetch map outputs from each other"
    assert sum(len(stream.content()) for stream in others) > 1_000_000


def test_no_token_key_of_the_data_or_message_can_be_read(
    cluster: Cluster, fig4: RunResults, connections: list[Stream], seen: bytes
) -> None:
    token = cluster.laptop.run("cat", f"{HOME}/.ray/auth_token").strip().encode()
    files = [path for path in (fig4.out / "output").rglob("part-r-*") if path.is_file()]
    keys = {line.partition(b"\t")[0] for path in files for line in path.read_bytes().splitlines()}
    assert len(keys) > 1000
    contents = [stream.content() for stream in connections if SSH not in (stream.source[1], stream.target[1])]
    for text in (seen, *contents):
        assert token not in text
        assert not [word for word in WORDS if word in text]
        assert not keys.intersection(KEY.findall(text))
