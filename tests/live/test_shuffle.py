"""The shuffle service as a real process, its client, and everything that must be refused."""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.live.services.shuffle_service import parse_target
from emulator.live.tasks import records, shuffle
from emulator.live.tasks.records import Record
from emulator.live.tasks.shuffle import BadResponse, FetchFailed
from tests.examples import drawn
from tests.live_runs import gone, until

BOUND_S = 20.0
JOB = "a job/with: odd name"
SECRET = secrets.token_hex(16)


class Service:
    """A running service for two nodes below ``root``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "emulator.live.services.shuffle_service",
                "--root",
                str(root),
                "--nodes",
                "node-1,node-2",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(SECRET.encode() + b"\n")
        self.process.stdin.flush()
        self.port: int = json.loads(self.process.stdout.readline())["port"]

    def url(self, node: str) -> str:
        return f"http://127.0.0.1:{self.port}/{node}"

    def get(self, target: str, signed: bool = True, method: str = "GET") -> tuple[int, bytes]:
        """Status and body of one request."""
        proof = shuffle.signature(SECRET, target) if signed else "0" * 64
        return self.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\nNatjam-Signature: {proof}\r\n".encode())

    def send(self, head: bytes) -> tuple[int, bytes]:
        with socket.create_connection(("127.0.0.1", self.port), BOUND_S) as connection:
            connection.sendall(head + b"Connection: close\r\n\r\n")
            received = b""
            while block := connection.recv(1 << 16):
                received += block
        first, _, body = received.partition(b"\r\n\r\n")
        return int(first.split(b" ")[1]), body

    def close(self) -> dict[str, Any]:
        """End its input; what it says it has served."""
        out, _ = self.process.communicate(timeout=BOUND_S)
        assert self.process.returncode == 0
        return json.loads(out)["served"]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path)
    yield running
    if running.process.returncode is None:
        running.close()


@pytest.fixture(scope="module")
def module_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service for many tests, with a treasure outside its nodes and symbolic links to it inside."""
    root = tmp_path_factory.mktemp("guarded")
    outside = root / "outside" / "0"
    records.write_map_output(str(outside), [[(b"key", b"treasure")]])
    maps = root / "node-1" / "map"
    for m in "023":
        (maps / "j" / m).mkdir(parents=True)
    for name in (records.INDEX_NAME, records.DATA_NAME):
        (maps / "j" / "0" / name).write_bytes((outside / name).read_bytes())
    (maps / "linked").symlink_to(outside.parent)
    (maps / "j" / "1").symlink_to(outside)
    (maps / "j" / "2" / records.INDEX_NAME).symlink_to(outside / records.INDEX_NAME)
    (maps / "j" / "3" / records.INDEX_NAME).write_bytes((outside / records.INDEX_NAME).read_bytes())
    (maps / "j" / "3" / records.DATA_NAME).symlink_to(outside / records.DATA_NAME)
    running = Service(root)
    yield running
    running.close()


def write_map(root: Path, node: str, m: int, partitions: list[list[Record]]) -> Path:
    directory = records.map_directory(str(root / node), JOB, m)
    records.write_map_output(directory, partitions)
    return Path(directory)


def reduce_params(root: Path, node: str, task: int, maps: int, keys: int) -> dict[str, Any]:
    return {
        "job": JOB,
        "task": task,
        "maps": maps,
        "keys": keys,
        "node": node,
        "work_dir": str(root / node),
        "secret": SECRET,
        "network_bytes_real_s": 10**12,
        "container_id": "c1",
        "checkpoint": None,
        "save_period_ns": None,
    }


def walked(path: str) -> list[tuple[bytes, list[bytes]]]:
    with contextlib.closing(records.KeyReader(path)) as reader:
        return list(reader)


def test_fetch_from_two_nodes_and_the_own_disk(service: Service):
    root = service.root
    for m, node in enumerate(("node-1", "node-2", "node-2", "node-3")):
        write_map(root, node, m, [[(b"x", b"0")], [(b"a", b"a%d" % m), (b"k%d" % m, b"v"), (b"z", b"z%d" % m)]])
    outputs = [{"map": m, "url": service.url(n)} for m, n in ((2, "node-2"), (0, "node-1"), (1, "node-2"))]
    outputs.append({"map": 3, "url": "http://127.0.0.1:1/node-3"})  # on the own disk: nobody is asked
    params = reduce_params(root, "node-3", 1, 4, 6)
    path, keys = shuffle.fetch_and_merge(params, outputs)
    assert keys == 6
    assert [(key, values) for key, values in walked(path) if key in b"az"] == [
        (b"a", [b"a0", b"a1", b"a2", b"a3"]),
        (b"z", [b"z0", b"z1", b"z2", b"z3"]),
    ]
    assert os.listdir(Path(path).parent) == ["1"]
    served = service.close()
    assert served["requests"] == 1, "one for both nodes"
    directories = [records.map_directory(str(root / f"node-{1 + (m > 0)}"), JOB, m) for m in range(3)]
    sizes = [records.partition_of(directory, 1).length for directory in directories]
    assert served["bytes"] == sum(sizes) + 3 * shuffle.FRAME.size


def test_complete_input_is_used_again_without_any_request(service: Service):
    write_map(service.root, "node-1", 0, [[(b"a", b"1"), (b"b", b"2")]])
    params = reduce_params(service.root, "node-2", 0, 1, 2)
    path, _ = shuffle.fetch_and_merge(params, [{"map": 0, "url": service.url("node-1")}])
    resumed = {**params, "checkpoint": {"hostname": "node-2", "input_path": path}}
    assert shuffle.fetch_and_merge(resumed, []) == (path, 2)
    Path(path).write_bytes(Path(path).read_bytes()[:-1])
    with pytest.raises(FetchFailed, match="no output of it is known"):
        shuffle.fetch_and_merge(resumed, [])
    shuffle.fetch_and_merge(resumed, [{"map": 0, "url": service.url("node-1")}])
    assert service.close()["requests"] == 2


def test_big_partition_is_sent_and_merged_whole(service: Service):
    source = [(b"%05d" % n, os.urandom(1 << 16)) for n in range(300)]
    write_map(service.root, "node-1", 0, [source, [(b"k", b"v")]])
    write_map(service.root, "node-1", 1, [source[::2], []])
    outputs = [{"map": m, "url": service.url("node-1")} for m in range(2)]
    path, keys = shuffle.fetch_and_merge(reduce_params(service.root, "node-2", 0, 2, 300), outputs)
    expected = [(key, [value] * (1 + (n % 2 == 0))) for n, (key, value) in enumerate(source)]
    assert keys == 300
    assert walked(path) == expected
    assert os.listdir(Path(path).parent) == ["0"]


@pytest.mark.parametrize("megabytes", [2, 8])  # in memory, and through a file
def test_a_reduce_takes_what_comes_no_faster_than_its_nodes_network(service: Service, megabytes: int):
    values = [(b"%02d" % n, bytes(1_000_000)) for n in range(megabytes)]
    write_map(service.root, "node-1", 0, [values])
    params = reduce_params(service.root, "node-2", 0, 1, megabytes) | {"network_bytes_real_s": 20_000_000}
    began_real_s = time.monotonic()
    shuffle.fetch_and_merge(params, [{"map": 0, "url": service.url("node-1")}])
    assert time.monotonic() - began_real_s >= megabytes / 20
    own = reduce_params(service.root, "node-1", 0, 1, megabytes) | {"network_bytes_real_s": 1}
    shuffle.fetch_and_merge(own, [{"map": 0, "url": service.url("node-1")}])  # its own disk: no network


def test_many_maps_are_asked_for_in_several_requests(service: Service):
    maps = shuffle.MAPS_PER_REQUEST + 20
    for m in range(maps):
        write_map(service.root, "node-1", m, [[(b"k", b"%d" % m)]])
    outputs = [{"map": m, "url": service.url("node-1")} for m in range(maps)]
    path, _ = shuffle.fetch_and_merge(reduce_params(service.root, "node-2", 0, maps, 1), outputs)
    assert walked(path) == [(b"k", [b"%d" % m for m in range(maps)])]
    assert service.close()["requests"] == 2


def test_a_service_that_is_not_there_is_waited_for_only_until_there_is_another_list_of_outputs(tmp_path: Path):
    asked: list[bool] = []

    def is_outdated() -> bool:
        asked.append(len(asked) == 4)
        return asked[-1]

    outputs = [{"map": 0, "url": "http://127.0.0.1:1/node-1"}]
    with pytest.raises(FetchFailed, match=r"of map 0 from http://127.0.0.1:1/node-1: "):
        shuffle.fetch_and_merge(reduce_params(tmp_path, "node-2", 0, 1, 1), outputs, is_outdated)
    assert asked == [False] * 4 + [True]


def test_what_cannot_be_fetched_names_the_map(service: Service):
    write_map(service.root, "node-1", 0, [[(b"a", b"1")]])
    directory = write_map(service.root, "node-1", 1, [[(b"a", b"2")]])
    params = reduce_params(service.root, "node-2", 0, 3, 1)
    outputs = [{"map": m, "url": service.url("node-1")} for m in range(3)]
    with pytest.raises(FetchFailed, match=r"404: no such map output") as caught:
        shuffle.fetch_and_merge(params, outputs)
    assert (caught.value.map_index, caught.value.url) == (2, service.url("node-1"))
    write_map(service.root, "node-1", 2, [])
    with pytest.raises(FetchFailed, match=r"404.*map 2 has 0 partitions"):
        shuffle.fetch_and_merge(params, outputs)
    write_map(service.root, "node-1", 2, [[]])
    with pytest.raises(FetchFailed, match=r"of map 1 from http://127.0.0.1:1/node-1: "):
        shuffle.fetch_and_merge(params, [outputs[0], {"map": 1, "url": "http://127.0.0.1:1/node-1"}, outputs[2]])
    data = directory / records.DATA_NAME
    data.write_bytes(data.read_bytes()[:-1] + b"!")
    with pytest.raises(FetchFailed, match=r"of map 1 from .*damaged \(CRC\)"):
        shuffle.fetch_and_merge(params, outputs)
    index = directory / records.INDEX_NAME
    index.write_bytes(index.read_bytes()[:-1] + b"!")
    with pytest.raises(FetchFailed, match=r"of map 1 from .*HTTP status 500: .*index of map 1"):
        shuffle.fetch_and_merge(params, outputs)
    assert list(service.root.glob("node-2/local/*/*")) == []


def test_damage_on_the_own_disk_names_the_map(service: Service):
    write_map(service.root, "node-2", 0, [[(b"a", b"1")]])
    data = write_map(service.root, "node-2", 1, [[(b"a", b"2")]]) / records.DATA_NAME
    data.write_bytes(data.read_bytes()[:-1] + b"!")
    with pytest.raises(FetchFailed, match="CRC") as caught:
        shuffle.fetch_and_merge(
            reduce_params(service.root, "node-2", 0, 2, 1), [{"map": m, "url": service.url("node-2")} for m in range(2)]
        )
    assert caught.value.map_index == 1


def test_wrong_number_of_keys_is_an_error(service: Service):
    write_map(service.root, "node-2", 0, [[(b"a", b"1")]])
    with pytest.raises(records.RecordError, match="1 keys after the merge, expected 2"):
        shuffle.fetch_and_merge(
            reduce_params(service.root, "node-2", 0, 1, 2), [{"map": 0, "url": service.url("node-2")}]
        )
    assert list(service.root.glob("node-2/local/*/*")) == []


def test_requests_without_the_secret_are_refused(service: Service):
    write_map(service.root, "node-1", 0, [[(b"key", b"treasure")]])
    target = shuffle.request_target(JOB, 0, [("node-1", 0)])
    status, body = service.get(target)
    assert status == 200
    assert b"treasure" in body
    other_target = shuffle.request_target(JOB, 1, [("node-1", 0)])
    for head in (
        f"GET {target} HTTP/1.1\r\nHost: x\r\n",
        f"GET {target} HTTP/1.1\r\nHost: x\r\nNatjam-Signature: \r\n",
        f"GET {target} HTTP/1.1\r\nHost: x\r\nNatjam-Signature: {SECRET}\r\n",
        f"GET {target} HTTP/1.1\r\nHost: x\r\nNatjam-Signature: {shuffle.signature('other', target)}\r\n",
        f"GET {target} HTTP/1.1\r\nHost: x\r\nNatjam-Signature: {shuffle.signature(SECRET, other_target)}\r\n",
    ):
        status, body = service.send(head.encode())
        assert status == 403
        assert b"treasure" not in body
    with pytest.raises(FetchFailed, match="403"):
        shuffle.fetch_and_merge(
            {**reduce_params(service.root, "node-2", 0, 1, 1), "secret": "another"},
            [{"map": 0, "url": service.url("node-1")}],
        )
    assert service.close()["refused"] == 8


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/node-1/map",
        "/shuffle",
        "/shuffle/",
        "/shuffle?job=j&reduce=0",
        "/shuffle?job=j&reduce=0&maps=",
        "/shuffle?job=j&reduce=0&maps=0",
        "/shuffle?job=j&reduce=0&maps=node-1",
        "/shuffle?job=j&reduce=0&maps=:0",
        "/shuffle?job=j&reduce=0&maps=node-1:0;",
        "/shuffle?job=j&reduce=0&maps=node-1:0;node-1:0",
        "/shuffle?job=outside&reduce=0&maps=..:0",
        "/shuffle?job=0&reduce=0&maps=outside:0",
        "/shuffle?job=0&reduce=0&maps=../outside:0",
        "/shuffle?job=0&reduce=0&maps=node-1/../outside:0",
        "/shuffle?job=j&reduce=0&maps=node-2:0",
        "/shuffle?job=j&reduce=0&maps=node-1:0;node-2:0",
        "/shuffle?job=j&reduce=-1&maps=node-1:0",
        "/shuffle?job=j&reduce=0&maps=node-1:0,",
        "/shuffle?job=j&reduce=0&maps=node-1:../0",
        "/shuffle?job=j&reduce=00&maps=node-1:0",
        "/shuffle?job=j&reduce=0&maps=node-1:0&maps=node-1:1",
        "/shuffle?job=..&reduce=0&maps=node-1:0",
        "/shuffle?job=.&reduce=0&maps=node-1:0",
        "/shuffle?job=&reduce=0&maps=node-1:0",
        "/shuffle?job=../outside&reduce=0&maps=node-1:0",
        "/shuffle?job=..%2Foutside&reduce=0&maps=node-1:0",
        "/shuffle?job=%2e%2e%2foutside&reduce=0&maps=node-1:0",
        "/shuffle?job=%252e%252e%252Foutside&reduce=0&maps=node-1:0",
        "/shuffle?job=/outside&reduce=0&maps=node-1:0",
        "/shuffle?job=%2Foutside&reduce=0&maps=node-1:0",
        "/shuffle?job=j%00&reduce=0&maps=node-1:0",
        "/shuffle?job=%ff&reduce=0&maps=node-1:0",
        "/../shuffle?job=outside&reduce=0&maps=node-1:0",
        "/shuffle/..%2f?job=outside&reduce=0&maps=node-1:0",
        "http://127.0.0.1/shuffle?job=outside&reduce=0&maps=node-1:0",
        "/shuffle?job=j&reduce=0&maps=node-1:" + ",".join(map(str, range(251))),
        "/shuffle?job=linked&reduce=0&maps=node-1:0",
        "/shuffle?job=j&reduce=0&maps=node-1:1",
        "/shuffle?job=j&reduce=0&maps=node-1:2",
        "/shuffle?job=j&reduce=0&maps=node-1:3",
    ],
)
def test_nothing_outside_the_node_is_served_even_when_signed(module_service: Service, target: str):
    status, body = module_service.get(target)
    assert status in (400, 404)
    assert b"treasure" not in body
    assert len(body) < 300


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
def test_only_get_is_answered(module_service: Service, method: str):
    assert module_service.get("/shuffle?job=j&reduce=0&maps=node-1:0")[0] == 200
    status, body = module_service.get("/shuffle?job=j&reduce=0&maps=node-1:0", method=method)
    assert status == 405
    assert b"treasure" not in body


def test_it_listens_on_loopback_only_and_shows_no_secret(service: Service):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", service.port), BOUND_S)
    process = Path("/proc", str(service.process.pid))
    assert SECRET.encode() not in (process / "cmdline").read_bytes() + (process / "environ").read_bytes()


def test_a_weak_or_missing_secret_and_bad_node_names_end_it(tmp_path: Path):
    for nodes, secret in (("node-1", b""), ("node-1", b"short\n"), ("../x", SECRET.encode() + b"\n")):
        ended = subprocess.run(
            [sys.executable, "-m", "emulator.live.services.shuffle_service", "--root", str(tmp_path), "--nodes", nodes],
            input=secret,
            capture_output=True,
            timeout=BOUND_S,
        )
        assert ended.returncode == 2
        assert b"Traceback" not in ended.stderr


def test_it_dies_with_its_parent(tmp_path: Path):
    """The parent is killed while the service's standard input stays open."""
    script = (
        "import subprocess, sys, time\n"
        "service = subprocess.Popen([sys.executable, '-m', 'emulator.live.services.shuffle_service',"
        " '--root', sys.argv[1], '--nodes', 'node-1'], stdin=0)\n"
        "print(service.pid, file=sys.stderr, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    assert parent.stderr is not None
    service_pid = int(parent.stderr.readline())
    parent.stdin.write(SECRET.encode() + b"\n")
    parent.stdin.flush()
    assert b"port" in parent.stdout.readline()
    parent.kill()
    parent.wait()
    until(lambda: gone([service_pid]), "its end")
    parent.stdin.close()
    parent.stdout.close()
    parent.stderr.close()


def test_a_client_that_goes_away_does_not_disturb_it(service: Service):
    write_map(service.root, "node-1", 0, [[(b"%05d" % n, bytes(1 << 16)) for n in range(200)]])
    target = shuffle.request_target(JOB, 0, [("node-1", 0)])
    head = f"GET {target} HTTP/1.1\r\nHost: x\r\nNatjam-Signature: {shuffle.signature(SECRET, target)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", service.port), BOUND_S) as connection:
        connection.sendall(head.encode())
        connection.recv(1000)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    status, body = service.get(target)
    assert status == 200
    assert len(body) == 200 * (1 << 16) + 200 * (8 + 5) + shuffle.FRAME.size
    descriptors = Path("/proc", str(service.process.pid), "fd")
    until(lambda: not any("file.out" in os.readlink(fd) for fd in list(descriptors.iterdir())), "its files closed")


@given(
    st.text(max_size=80) | st.from_regex(r"/shuffle\?job=[^&]{0,9}&reduce=.{0,4}&maps=[a:;,0-9]{0,9}", fullmatch=True)
)
def test_any_target(target: str):
    with contextlib.suppress(ValueError):
        job, reduce_index, outputs = parse_target(target)
        assert shuffle.request_target(job, reduce_index, outputs) == target


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), st.integers(0, 10**9 - 1))
def test_every_job_can_be_asked_for(job: str, number: int):
    outputs = [("node-1", number), ("node-1", 0), ("node-2", number)]
    assert parse_target(shuffle.request_target(job, number, outputs)) == (job, number, outputs)


@given(
    st.binary(max_size=100)
    | st.lists(
        st.sampled_from(
            [
                b"HTTP/1.1 200 OK",
                b"\r\n",
                b"Content-Length: ",
                b"12",
                b"-1",
                b"x",
                b"\n",
                b"HTTP/1.1 404",
                b": ",
                b"\xff",
            ]
        )
    ).map(b"".join)
)
def test_any_response_head(received: bytes):
    with contextlib.suppress(BadResponse):
        assert shuffle.read_response_head(io.BytesIO(received)) >= 0


@given(junk=st.binary(min_size=1, max_size=300), method=st.sampled_from([b"GET ", b"", b"get /shuffle?"]))
@drawn
def test_any_request(module_service: Service, junk: bytes, method: bytes):
    """Whatever is sent is answered with an error or not at all, and the service lives."""
    address = ("127.0.0.1", module_service.port)
    with contextlib.suppress(ConnectionError), socket.create_connection(address, BOUND_S) as connection:
        connection.sendall(method + junk + b"\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        received = connection.recv(1 << 16)
        assert received == b"" or received.split(b" ")[1][:1] in (b"4", b"5")
    assert module_service.get(shuffle.request_target("absent", 0, [("node-1", 0)]))[0] == 404


@given(answer=st.binary(max_size=60), framed=st.booleans())
@drawn
def test_any_answer_is_a_failed_fetch(answer: bytes, framed: bool, tmp_path_factory: pytest.TempPathFactory):
    """A server that answers nonsense three times."""
    if framed:
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for _ in range(3):
                connection, _ = server.accept()
                with connection, contextlib.suppress(ConnectionError):
                    connection.recv(1 << 16)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        root = tmp_path_factory.mktemp("client")
        url = f"http://127.0.0.1:{server.getsockname()[1]}/node-1"
        with pytest.raises(FetchFailed, match="output of map 0 from"):
            shuffle.fetch_and_merge(reduce_params(root, "node-2", 0, 1, 1), [{"map": 0, "url": url}])
        thread.join(BOUND_S)


def test_a_service_that_is_not_there_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    waits_s: list[float] = []
    monkeypatch.setattr(shuffle.time, "sleep", waits_s.append)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/node-1"
    with pytest.raises(FetchFailed, match="output of map 0 from"):
        shuffle.fetch_and_merge(reduce_params(tmp_path, "node-2", 0, 1, 1), [{"map": 0, "url": url}])
    assert sum(waits_s) > 1, "longer than it takes to start another one"


@pytest.mark.parametrize(
    "url",
    ["", "http://", "ftp://127.0.0.1:1/n", "http://127.0.0.1/n", "http://127.0.0.1:x/n", "http://[", "http://[/n"],
)
def test_malformed_urls(tmp_path: Path, url: str):
    with pytest.raises(FetchFailed):
        shuffle.fetch_and_merge(reduce_params(tmp_path, "node-2", 0, 1, 1), [{"map": 0, "url": url}])
