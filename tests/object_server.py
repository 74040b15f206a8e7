"""A real S3 server in this process, that can be told to refuse, to be busy, or to die; its objects stay."""

from __future__ import annotations

import logging
import threading
import urllib.request
from collections.abc import Callable
from typing import Any

import fsspec
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

BUCKET = "natjam"
BUSY, FORBIDDEN, FULL = "503 Slow Down", "403 Forbidden", "507 Insufficient Storage"
CUT = "cut"
"""The connection is lost in the middle of the answer."""
_CODES = {BUSY: b"SlowDown", FORBIDDEN: b"AccessDenied", FULL: b"XMinioStorageFull"}
_ERROR = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>%s</Message></Error>"

Answer = Callable[[str, str], str | None]
"""``answer(method, path)``: the status to answer with in place of doing what is asked; None: do it."""


class ObjectServer:
    """An S3 server with one bucket.  Use as a context manager."""

    unreachable = "Could not connect"
    """What clients say of it when it has died."""
    one_upload: tuple[str, ...] = ("PUT",)
    """Methods of the requests of an upload that is refused and not tried again."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.address = address
        self.answer: Answer = lambda method, path: None
        self.requests: list[tuple[str, str]] = []
        """Method and path of each that has come."""
        self._application: Any = DomainDispatcherApplication(create_backend_app)
        self._server: BaseWSGIServer | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """Where objects can be."""
        return f"s3://{BUCKET}"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of its clients."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.address}:{self._port}",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def __enter__(self) -> ObjectServer:
        self.start()
        # Objects belong to the process: those of a server before this one are here too.
        urllib.request.urlopen(f"{self.variables['AWS_ENDPOINT_URL']}/moto-api/reset", data=b"").close()
        self._files().mkdir(BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    def start(self) -> None:
        """Serve, where it served before if it did."""
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self._server = make_server(self.address, self._port, self._serve, threaded=True)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def die(self) -> None:
        """Nobody listens any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def objects(self, prefix: str) -> dict[str, bytes]:
        """What is below ``prefix``."""
        files, root = self._files(), f"{BUCKET}/{prefix}/"
        return {path.removeprefix(root): files.cat_file(path) for path in files.find(root)}

    def _files(self) -> Any:
        variables = self.variables
        return fsspec.filesystem(
            "s3",
            key=variables["AWS_ACCESS_KEY_ID"],
            secret=variables["AWS_SECRET_ACCESS_KEY"],
            endpoint_url=variables["AWS_ENDPOINT_URL"],
            use_listings_cache=False,
        )

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        method, path = self._asked(environ)
        self.requests.append((method, path))
        status = self.answer(method, path)
        if status is None:
            return self._application(environ, start_response)
        if status == CUT:
            body = b"".join(self._application(environ, start_response))
            return [body[: len(body) // 2]]
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response(status, [("Content-Type", "application/octet-stream")])
        return [self._refusal(status, status.partition(" ")[2])]

    def _asked(self, environ: dict[str, Any]) -> tuple[str, str]:
        return environ["REQUEST_METHOD"], environ["PATH_INFO"]

    def _refusal(self, status: str, why: str) -> bytes:
        return _ERROR % (_CODES[status], why.encode())
