"""What a task has written, kept where other nodes find it: in the output directory itself, or in an object store.

With an object store, a task writes to a directory of its host as if that were the output directory.  The host's store
service (``emulator.live.services.store_service``) then uploads the files that must outlive the host.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from emulator.live.tasks.partial_output import OutputError

_SIGN_OF_LIFE_REAL_S = 2.0
_ANSWER_BYTES = 1 << 16


class KeptFiles:
    """The output directory is shared: everything written there is kept without doing anything."""

    def put(self, *paths: str) -> None:
        """Keep these files as they are now.  Raises OutputError."""

    def get(self, *paths: str, anew: bool = False) -> None:
        """Fetch those of these files that are kept and not here; ``anew``: also those that are.  Raises OutputError."""

    def remove(self, *paths: str) -> None:
        """Stop keeping these files.  Raises OutputError."""


class _InStore(KeptFiles):
    def __init__(self, at: str, root: str, give_sign_of_life: Callable[[], None]) -> None:
        self._at = at
        self._root = root
        self._give_sign_of_life = give_sign_of_life

    def put(self, *paths: str) -> None:
        self._ask("put", paths)

    def get(self, *paths: str, anew: bool = False) -> None:
        self._ask("get", [path for path in paths if anew or not os.path.exists(path)])

    def remove(self, *paths: str) -> None:
        self._ask("remove", paths)

    def _ask(self, do: str, paths: Sequence[str]) -> None:
        names = [os.path.relpath(path, self._root) for path in paths]
        if not names:
            return
        request = json.dumps({"do": do, "names": names}).encode() + b"\n"
        try:
            try:
                answer = self._answer(request)
            except ConnectionError:
                answer = self._answer(request)  # it has died and is started again; the request may be repeated
        except OSError as error:
            raise OutputError(f"the store service of this host does not answer: {error}") from error
        if "failed" in answer:
            raise OutputError(answer["failed"])

    def _answer(self, request: bytes) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as connection:
            with short_socket_path(self._at) as path:
                connection.connect(path)
            connection.sendall(request)
            connection.settimeout(_SIGN_OF_LIFE_REAL_S)
            answer = b""
            while not answer.endswith(b"\n"):
                try:
                    piece = connection.recv(_ANSWER_BYTES)
                except TimeoutError:
                    self._give_sign_of_life()
                    continue
                if not piece:
                    raise ConnectionResetError("it has died")
                answer += piece
        return json.loads(answer)


@contextmanager
def short_socket_path(path: str) -> Iterator[str]:
    """Another path of a Unix socket, through an open descriptor of its directory: Linux takes only 107 bytes, and
    ``TMPDIR`` may have more.  Raises OSError."""
    directory = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{os.path.basename(path)}"
    finally:
        os.close(directory)


def kept_files(params: dict[str, Any], give_sign_of_life: Callable[[], None] = lambda: None) -> KeptFiles:
    """For a task with these launch parameters; it gives signs of life while it waits for the store."""
    store = params.get("store")
    return KeptFiles() if store is None else _InStore(store, params["output_dir"], give_sign_of_life)
