"""A real HDFS: a NameNode and a DataNode.  Clients reach both through this process, which can refuse in their place."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from emulator.files.data_folder import data_folder
from emulator.storage.objects import ObjectStore
from tests.object_server import BUSY, FORBIDDEN, FULL, ObjectServer

_CLASS_PATH = data_folder() / "hadoop/class-path"
_OPENED = "--add-opens=java.base/java.lang=ALL-UNNAMED"
"""Hadoop's libraries need it from Java 17 on."""
_ENDS_WITH_TESTS = ("setpriv", "--pdeathsig", "KILL")
_JAVA = (
    *_ENDS_WITH_TESTS,
    "java",
    _OPENED,
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
)
_SERVER = "org.apache.hadoop.hdfs.server"
NAME_NODE, DATA_NODE = f"{_SERVER}.namenode.NameNode", f"{_SERVER}.datanode.DataNode"
_BOUND_S = 180
_EXCEPTIONS = {BUSY: "RetriableException", FORBIDDEN: "AccessControlException", FULL: "DSQuotaExceededException"}
_TEMPORARY = re.compile(r"/\.([^/]*)\.[0-9a-f]{32}\.tmp$")
_LOG = """\
log4j.rootLogger=WARN,said
log4j.appender.said=org.apache.log4j.ConsoleAppender
log4j.appender.said.layout=org.apache.log4j.SimpleLayout
"""
_PROPERTY = "<property><name>{}</name><value>{}</value></property>"


class HdfsServer(ObjectServer):
    """An HDFS of its own; only what passes requests on is at ``address``.

    To ``answer``, a request to the NameNode is a method by the name of its operation.  PUT and GET are those to the
    DataNode, and a file that is being written has the name that it will get.
    """

    unreachable = "Connection refused"
    one_upload = ("CREATE", "PUT", "DELETE")

    def __init__(self, address: str = "127.0.0.1") -> None:
        super().__init__(address)
        self._application = self._pass_on
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        self._name_node = ""

    @property
    def url(self) -> str:
        """See ``ObjectServer``."""
        return f"webhdfs://{self.address}:{self._port}"

    @property
    def variables(self) -> dict[str, str]:
        """See ``ObjectServer``."""
        return {"HADOOP_USER_NAME": "tests", "NO_PROXY": self.address}

    def __enter__(self) -> HdfsServer:
        self._directory = Path(tempfile.mkdtemp(prefix="natjam-hdfs-"))
        self._class_path = f"{self._directory}:{_CLASS_PATH.read_text().strip()}"
        self._configure()
        try:
            assert self._java("format", NAME_NODE, "-format", "-nonInteractive").wait(_BOUND_S) == 0, self._said()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.die()
        self.kill(DATA_NODE)
        shutil.rmtree(self._directory)

    def start(self) -> None:
        """See ``ObjectServer``; waits until files can be written."""
        super().start()
        for daemon in (NAME_NODE, DATA_NODE):
            if daemon not in self._daemons:
                self.begin(daemon)
        end_s = time.monotonic() + _BOUND_S
        while not self._ready():
            assert time.monotonic() < end_s, self._said()
            time.sleep(0.1)

    def die(self) -> None:
        """The NameNode is gone, and nobody listens any more."""
        self.kill(NAME_NODE)
        super().die()

    def begin(self, daemon: str) -> None:
        """Start the NameNode or the DataNode, where it was before if it was."""
        self._daemons[daemon] = self._java(daemon, daemon)

    def kill(self, daemon: str) -> None:
        """It ends at once."""
        if process := self._daemons.pop(daemon, None):
            process.kill()
            process.wait()

    def objects(self, prefix: str) -> dict[str, bytes]:
        """See ``ObjectServer``."""
        store, copy = ObjectStore(f"{self.url}/{prefix}"), self._directory / "copy"
        return {name: copy.read_bytes() for name in store.names() if store.get(name, str(copy))}

    def _configure(self) -> None:
        with ExitStack() as sockets:
            free = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(5)]
            name_rpc, name_http, *data = [f"127.0.0.1:{one.getsockname()[1]}" for one in free]
        self._name_node = f"http://{name_http}"
        properties = {
            "fs.defaultFS": f"hdfs://{name_rpc}",
            "hadoop.tmp.dir": self._directory,
            "dfs.namenode.http-address": name_http,
            "dfs.datanode.address": data[0],
            "dfs.datanode.http.address": data[1],
            "dfs.datanode.ipc.address": data[2],
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.heartbeat.interval": 1,
            "dfs.namenode.safemode.extension": 0,
            "dfs.permissions.enabled": "false",
            "dfs.replication": 1,
        }
        for page in ("hdfs", "datanode"):  # they are not in the jars
            (self._directory / "webapps" / page).mkdir(parents=True)
        (self._directory / "log4j.properties").write_text(_LOG)
        for name in ("core-site.xml", "hdfs-site.xml"):
            lines = "".join(_PROPERTY.format(*item) for item in properties.items())
            (self._directory / name).write_text(f"<configuration>{lines}</configuration>")

    def _java(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [*_JAVA, f"-Djava.io.tmpdir={self._directory}", "-cp", self._class_path, *arguments]
        with (self._directory / f"{log}.log").open("ab") as said:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)

    def _said(self) -> str:
        return "\n".join(log.read_text()[-3000:] for log in self._directory.glob("*.log"))

    def _ready(self) -> bool:
        """Whether the NameNode has a DataNode that a file can be written to."""
        create = f"{self._name_node}/webhdfs/v1/ready?op=CREATE&user.name=tests"
        try:
            return requests.put(create, allow_redirects=False, timeout=5).status_code == 307
        except requests.RequestException:
            return False

    def _asked(self, environ: dict[str, Any]) -> tuple[str, str]:
        path = _TEMPORARY.sub(r"/\1", environ["PATH_INFO"].partition("/webhdfs/v1")[2])
        if environ["PATH_INFO"].startswith("/at/"):
            return environ["REQUEST_METHOD"], path
        return environ["QUERY_STRING"].partition("op=")[2].partition("&")[0], path

    def _refusal(self, status: str, why: str) -> bytes:
        return json.dumps({"RemoteException": {"exception": _EXCEPTIONS[status], "message": why}}).encode()

    def _pass_on(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """Ask the NameNode, or the DataNode that it named; where an answer names a DataNode, name this process."""
        to, own = environ["REQUEST_URI"], f"http://{self.address}:{self._port}/at/"
        url = f"http://{to.removeprefix('/at/')}" if to.startswith("/at/") else self._name_node + to
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        try:
            answer = requests.request(
                environ["REQUEST_METHOD"], url, data=body, allow_redirects=False, timeout=_BOUND_S
            )
        except requests.RequestException:
            start_response("502 Bad Gateway", [])
            return []
        headers = {name: answer.headers[name] for name in ("Content-Type", "Location") if name in answer.headers}
        if "Location" in headers:
            headers["Location"] = headers["Location"].replace("http://", own, 1)
        start_response(
            f"{answer.status_code} {answer.reason}",
            [*headers.items(), ("Content-Length", str(len(answer.content)))],
        )
        return [answer.content]


_HERE = shutil.which("java") is not None and shutil.which("setpriv") is not None and _CLASS_PATH.exists()
with_hdfs = pytest.mark.skipif(not _HERE, reason="there is no Hadoop; .ci/get-hadoop gets it, with Java and Maven")
STORES = [pytest.param(ObjectServer, id="s3"), pytest.param(HdfsServer, id="hdfs", marks=with_hdfs)]
