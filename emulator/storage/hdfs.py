"""The files of an HDFS, over WebHDFS: fsspec's, with what it lacks to be relied on.

A file is written under a hidden temporary name and then renamed.  The NameNode renames in one step, and replaces an
earlier file in it.  Each try has a temporary name of its own, so that one whose answer was lost cannot spoil the next.
What may pass (no answer, no DataNode, safe mode, an answer that is cut off) is tried again with growing pauses.
"""

from __future__ import annotations

import getpass
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import requests
from fsspec.exceptions import FSTimeoutError
from fsspec.implementations.webhdfs import WebHDFS
from requests.adapters import HTTPAdapter

from emulator.storage.objects import AT_ONCE

_TIMEOUTS_REAL_S = (5, 10)
"""For a connection and while something is sent; for an answer."""
_PAUSES_REAL_S = (0.25, 0.5, 1, 2, 4, 8, 16)
_REFUSED = {"AccessControlException", "SecurityException", "DSQuotaExceededException", "NSQuotaExceededException"}
_PIECE_BYTES = 1 << 20

T = TypeVar("T")


class Hdfs(WebHDFS):
    """HDFS through WebHDFS (see the module's description); the methods are those of fsspec's file systems."""

    def __init__(self, host: str, port: int = 9870, **options: Any) -> None:
        """The user is ``options``' own, else Hadoop's (``HADOOP_USER_NAME``), else that of this process."""
        if not {"kerberos", "token", "user"} & options.keys():
            options["user"] = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
        super().__init__(host, port, **options)

    def _connect(self) -> None:
        super()._connect()
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, _Bounded(pool_maxsize=AT_ONCE))

    def put_file(self, lpath: str, rpath: str, *_: Any, timeout: float, **__: Any) -> None:
        """Upload a file, in one step for all readers."""
        self._persist(timeout, self._put, lpath, rpath)

    def get_file(self, rpath: str, lpath: str, *_: Any, timeout: float, **__: Any) -> None:
        """Download a file.  Raises FileNotFoundError."""
        self._persist(timeout, self._get, rpath, lpath)

    def find(self, path: str, *_: Any, timeout: float, **__: Any) -> list[str]:  # type: ignore
        """All files below ``path`` but those that are being written.  Raises FileNotFoundError."""
        return self._persist(timeout, lambda: list(self._below(path)))

    def rm(self, path: Sequence[str], *_: Any, timeout: float, **__: Any) -> None:
        """Delete these files, those that exist."""
        for one in path:
            self._persist(timeout, super().rm, one)

    def _put(self, lpath: str, rpath: str) -> None:
        directory, _, name = rpath.rpartition("/")
        temporary = f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"
        try:
            with open(lpath, "rb") as file:
                at = self._data_node("CREATE", "PUT", temporary)
                _check(self.session.put(at, data=file, headers={"Content-Type": "application/octet-stream"}))
            self._call("RENAME", "PUT", temporary, destination=rpath, renameoptions="OVERWRITE")
        except BaseException:
            with suppress(Exception):
                super().rm(temporary)
            raise

    def _get(self, rpath: str, lpath: str) -> None:
        with self.session.get(self._data_node("OPEN", "GET", rpath), stream=True) as answer, open(lpath, "wb") as file:
            _check(answer)
            for piece in answer.iter_content(_PIECE_BYTES):
                file.write(piece)

    def _below(self, path: str) -> Iterator[str]:
        for entry in self.ls(path, detail=True):
            if entry["type"] == "directory":
                yield from self._below(entry["name"])
            elif not (entry["pathSuffix"].startswith(".") and entry["pathSuffix"].endswith(".tmp")):
                yield entry["name"]

    def _data_node(self, op: str, method: str, path: str) -> str:
        """Where the NameNode says that this is to be done."""
        return self._call(op, method, path, redirect=False).headers["Location"]

    def _persist(self, bound_s: float, do: Callable[..., T], *arguments: Any) -> T:
        end_s = time.monotonic() + bound_s
        for pause_s in _PAUSES_REAL_S:
            try:
                return do(*arguments)
            # All that fsspec does not know is a RuntimeError.
            except (RuntimeError, requests.RequestException) as error:
                if time.monotonic() + pause_s > end_s:
                    raise FSTimeoutError from error
                time.sleep(pause_s * random.uniform(0.5, 1))
        return do(*arguments)


class _Bounded(HTTPAdapter):
    """With timeouts; fsspec gives none."""

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        options["timeout"] = _TIMEOUTS_REAL_S
        return super().send(*arguments, **options)


def _check(answer: requests.Response) -> None:
    """What a DataNode has answered.  Raises PermissionError if that is final, else RuntimeError, HTTPError."""
    if answer.status_code >= 400:
        with suppress(ValueError, KeyError, TypeError):
            said = answer.json()["RemoteException"]
            raise (PermissionError if said["exception"] in _REFUSED else RuntimeError)(said["message"])
    answer.raise_for_status()
