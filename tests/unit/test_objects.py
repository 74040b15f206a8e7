"""Object stores, and the service that tasks use them by."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from fsspec.implementations.webhdfs import WebHDFS
from fsspec.registry import _registry
from hypothesis import given
from hypothesis import strategies as st

from emulator.errors import RunError
from emulator.live.services.service_process import StoreProcess
from emulator.live.services.store_service import parse_request
from emulator.live.tasks.kept_files import KeptFiles, kept_files
from emulator.live.tasks.partial_output import OutputError
from emulator.storage import hdfs, objects
from emulator.storage.objects import ObjectStore, StoreError
from emulator.storage.places import place_at
from tests.hdfs_server import DATA_NODE, NAME_NODE, STORES, HdfsServer
from tests.live_runs import until
from tests.object_server import BUSY, CUT, FORBIDDEN, FULL, ObjectServer


@pytest.fixture(scope="module", params=STORES)
def running(request: pytest.FixtureRequest) -> Iterator[ObjectServer]:
    with request.param() as server:
        yield server


@pytest.fixture
def server(running: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    for name, value in running.variables.items():
        monkeypatch.setenv(name, value)
    running.answer = lambda method, path: None
    store = ObjectStore(place_in(running))
    store.remove(store.names())
    running.requests.clear()
    return running


def place_in(server: ObjectServer) -> str:
    """The URL of the objects."""
    return f"{server.url}/some/where"


def test_objects_come_back_as_they_were(server: ObjectServer, tmp_path: Path) -> None:
    store, file = ObjectStore(place_in(server)), tmp_path / "file"
    names = {"job%20one/part-r-00000": b"x" * 100_000, "_partial/job/part.c1": b"", "\u00e9": b"y"}
    for name, data in names.items():
        file.write_bytes(data)
        store.put(str(file), name)
        store.put(str(file), name)  # once more is the same
    assert sorted(store.names()) == sorted(names)
    for name, data in names.items():
        assert store.get(name, str(tmp_path / "new" / "copy"))
        assert (tmp_path / "new" / "copy").read_bytes() == data
    store.remove(["\u00e9", "is not there"])
    assert len(store.names()) == 2
    assert not store.get("\u00e9", str(tmp_path / "none"))
    assert os.listdir(tmp_path / "new") == ["copy"]
    assert not (tmp_path / "none").exists()


def test_what_may_pass_is_tried_again(server: ObjectServer, tmp_path: Path) -> None:
    """A store that is busy, and an answer that is cut off in the middle."""
    left = {"PUT": [BUSY, BUSY], "GET": [CUT]}
    server.answer = lambda method, path: left[method].pop() if left.get(method) else None
    store, file, copy = ObjectStore(place_in(server)), tmp_path / "file", tmp_path / "copy"
    file.write_bytes(b"data" * 1000)
    store.put(str(file), "name")
    assert store.get("name", str(copy))
    assert copy.read_bytes() == file.read_bytes()
    assert left == {"PUT": [], "GET": []}


@pytest.mark.parametrize("refusal", [FORBIDDEN, FULL])
def test_what_is_refused_is_not_tried_again(server: ObjectServer, tmp_path: Path, refusal: str) -> None:
    server.answer = lambda method, path: refusal if method == "PUT" else None
    (tmp_path / "file").write_bytes(b"data")
    with pytest.raises(
        StoreError, match=rf"{place_in(server)}: name: cannot be written: .*{refusal.partition(' ')[2]}"
    ):
        ObjectStore(place_in(server)).put(str(tmp_path / "file"), "name")
    assert tuple(method for method, _ in server.requests) == server.one_upload


def test_a_store_that_never_answers_is_given_up(
    server: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "_BOUND_REAL_S", 1)
    monkeypatch.setattr(hdfs, "_TIMEOUTS_REAL_S", (1, 1))
    given_up = threading.Event()
    server.answer = lambda method, path: FORBIDDEN if given_up.wait(60) else None
    (tmp_path / "file").write_bytes(b"data")
    with pytest.raises(StoreError, match="name: cannot be written: not done within 1 s"):
        ObjectStore(place_in(server)).put(str(tmp_path / "file"), "name")
    given_up.set()


def test_a_place_that_cannot_be_used_is_said_before_anything_runs(server: ObjectServer, tmp_path: Path) -> None:
    server.answer = lambda method, path: FORBIDDEN if method == "PUT" else None
    with pytest.raises(StoreError, match=f"{place_in(server)}: .*: cannot be written"):
        place_at(place_in(server)).make()
    server.answer = lambda method, path: None
    place_at(place_in(server)).make()
    assert ObjectStore(place_in(server)).names() == []
    (tmp_path / "file").touch()
    ObjectStore(place_in(server)).put(str(tmp_path / "file"), "of/another")
    with pytest.raises(RunError, match="holds objects already"):
        place_at(place_in(server)).make()


@pytest.mark.parametrize("running", STORES[:1], indirect=True)
def test_a_bucket_that_is_not_there_is_said(server: ObjectServer) -> None:
    with pytest.raises(StoreError, match=r"s3://nowhere/runs: .*: there is no such bucket"):
        place_at("s3://nowhere/runs").make()


@pytest.mark.parametrize("running", STORES[1:], indirect=True)
def test_hdfs_has_the_earlier_file_until_the_new_one_is_renamed(server: HdfsServer, tmp_path: Path) -> None:
    store, file, copy = ObjectStore(place_in(server)), tmp_path / "file", tmp_path / "copy"
    file.write_bytes(b"earlier")
    store.put(str(file), "alone/name")
    file.write_bytes(b"new")
    server.answer = lambda method, path: FORBIDDEN if method == "RENAME" else None
    with pytest.raises(StoreError, match="alone/name: cannot be written: Forbidden"):
        store.put(str(file), "alone/name")
    assert store.get("alone/name", str(copy))
    assert copy.read_bytes() == b"earlier"
    files = WebHDFS("127.0.0.1", int(server.url.rpartition(":")[2]))
    assert files.ls("/some/where/alone") == ["/some/where/alone/name"], "nothing that is temporary is left"


@pytest.mark.slow
@pytest.mark.parametrize("daemon", [NAME_NODE, DATA_NODE])
@pytest.mark.parametrize("running", STORES[1:], indirect=True)
def test_a_part_of_hdfs_that_is_away_for_a_moment_is_waited_for(
    running: HdfsServer, server: HdfsServer, daemon: str, tmp_path: Path
) -> None:
    store, file, copy = ObjectStore(place_in(server)), tmp_path / "file", tmp_path / "copy"
    file.write_bytes(b"data")
    running.kill(daemon)
    with ThreadPoolExecutor() as threads:
        putting = threads.submit(store.put, str(file), "name")
        until(lambda: len(server.requests) > 3, "a second try")
        assert not putting.done()
        running.begin(daemon)
        putting.result()
    assert store.names() == ["name"], "and nothing that is temporary"
    assert store.get("name", str(copy))
    assert copy.read_bytes() == b"data"


def test_what_must_be_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(_registry, "s3", raising=False)  # where a test before has imported it
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(StoreError, match="pip install s3fs"):
        ObjectStore("s3://a/b")


class Tasks:
    """What tasks of a host see: its output directory and what is kept of it.  It lies deeper than the path of a socket
    may be long."""

    def __init__(self, root: Path, url: str) -> None:
        self.output = root / ("deep" * 30) / "output"
        self.output.mkdir(parents=True)
        self.service = StoreProcess("a-run", url, self.output)
        params = {"store": self.service.socket_path, "output_dir": str(self.output)}
        self.kept: KeptFiles = kept_files(params)

    async def put(self, name: str, data: bytes) -> str:
        path = self.output / name
        path.write_bytes(data)
        await asyncio.to_thread(self.kept.put, str(path))
        return str(path)


def _with_tasks(server: ObjectServer, root: Path, scenario: Callable[[Tasks], Awaitable[None]]) -> None:
    async def main() -> None:
        tasks = Tasks(root, place_in(server))
        await tasks.service.start()
        keeping = asyncio.ensure_future(tasks.service.keep())
        try:
            await asyncio.wait_for(scenario(tasks), 60)
        finally:
            await tasks.service.close()
            await keeping

    asyncio.run(main())


def test_files_of_tasks_are_kept_and_found_again_or_it_is_said_why_not(server: ObjectServer, tmp_path: Path) -> None:
    async def scenario(tasks: Tasks) -> None:
        path = Path(await tasks.put("file", b"first"))
        path.write_bytes(b"changed here")
        await asyncio.to_thread(tasks.kept.get, str(path))
        assert path.read_bytes() == b"changed here", "it is here"
        await asyncio.to_thread(lambda: tasks.kept.get(str(path), anew=True))
        assert path.read_bytes() == b"first"
        await asyncio.to_thread(tasks.kept.get, str(path.with_name("nothing")))
        assert not path.with_name("nothing").exists()
        await asyncio.to_thread(tasks.kept.remove, str(path))
        assert ObjectStore(place_in(server)).names() == []
        with pytest.raises(OutputError, match="not below the output"):
            await asyncio.to_thread(tasks.kept.get, str(tmp_path / "elsewhere"))
        server.answer = lambda method, path: FORBIDDEN
        with pytest.raises(OutputError, match=f"{place_in(server)}: file: cannot be written"):
            await tasks.put("file", b"data")

    _with_tasks(server, tmp_path, scenario)


def test_a_service_that_dies_is_started_again(server: ObjectServer, tmp_path: Path) -> None:
    """It is killed while the store waits with its answer to a task, which does not notice."""
    came, dead = threading.Event(), threading.Event()

    def wait_for_death(method: str, path: str) -> None:
        came.set()
        dead.wait(60)

    async def scenario(tasks: Tasks) -> None:
        server.answer = wait_for_death
        putting = asyncio.ensure_future(tasks.put("file", b"data"))
        assert await asyncio.to_thread(came.wait, 60)
        (service,) = [p for p in psutil.Process().children() if "emulator.live.services.store_service" in p.cmdline()]
        service.kill()
        dead.set()
        await putting
        assert ObjectStore(place_in(server)).names() == ["file"]

    _with_tasks(server, tmp_path, scenario)


_NAMES = st.lists(st.sampled_from(["a", "..", ".", "/", "//", "\0", ""])).map("".join)
_REQUESTS = st.fixed_dictionaries({"do": st.sampled_from(["put", "get", "remove", 1]), "names": st.lists(_NAMES)})


@given(st.binary() | _REQUESTS.map(lambda request: json.dumps(request).encode()))
def test_no_request_leads_out_of_the_output(line: bytes) -> None:
    try:
        request = parse_request(line)
    except ValueError:
        return
    for name in request.names:
        assert Path(os.path.normpath(f"/root/of/output/{name}")).is_relative_to("/root/of/output")
        assert os.path.join("/root/of/output", name).startswith("/root/of/output/")
