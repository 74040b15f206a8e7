"""Objects of an object store, below a URL: ``s3://bucket/prefix`` or ``webhdfs://host:port/prefix``, by fsspec.

An object appears in one step when its upload has ended: before that, there is none of that name, or the earlier one.
S3 does this itself; for HDFS see ``emulator.storage.hdfs``.  Writing an object again replaces it in one step; the bytes
are the same, because they follow from the seed.  The libraries repeat a request that gets no answer, "slow down", an
internal error or half an object, with growing pauses: for half a minute, or for some minutes if no answer comes at all.
After that, or at once if the store refuses, the request has failed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from emulator.errors import RunError
from emulator.storage.local import atomic_file

SCHEMES = {"s3": "s3fs", "webhdfs": "requests"}
"""The URL schemes that can be used, each with the package that it needs."""
AT_ONCE = 16
"""Most requests to a store at a time."""
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "config_kwargs": {
            "retries": {"mode": "standard", "max_attempts": 6},
            "connect_timeout": 5,
            "read_timeout": 10,
            "max_pool_connections": AT_ONCE,
        }
    },
    "webhdfs": {},
}
_BOUND_REAL_S = 300
"""Time for all tries of one request.  Sending has no timeout of its own, and a store may stop reading."""


class StoreError(RunError):
    """The store cannot be reached, or refuses."""


def is_object_url(place: str) -> bool:
    """Whether a place is a URL and no path."""
    return "://" in place


class ObjectStore:
    """The objects below one URL; names are relative to it.  May be used by several threads."""

    def __init__(self, url: str) -> None:
        """Raises StoreError if the package that the scheme needs is not installed."""
        self.url = url
        scheme = url.partition("://")[0]
        try:
            from fsspec.core import url_to_fs
            from fsspec.registry import register_implementation

            register_implementation("webhdfs", "emulator.storage.hdfs.Hdfs", clobber=True)
            self._files, self._root = url_to_fs(
                url, skip_instance_cache=True, use_listings_cache=False, **_OPTIONS[scheme]
            )
        except ImportError as error:
            raise StoreError(f"{url}: {error}; install it with `pip install {SCHEMES[scheme]}`") from None
        # For s3fs.  The library below it repeats requests too, and after more kinds of errors, but not a cut answer.
        self._files.retries = 2

    def put(self, path: str, name: str) -> None:
        """Upload a file as an object, or in its place.  Raises StoreError, FileNotFoundError if there is no file."""
        os.stat(path)
        try:
            self._ask(f"{name}: cannot be written", self._files.put_file, path, self._at(name))
        except FileNotFoundError:
            raise StoreError(f"{self.url}: {name}: cannot be written: there is no such bucket") from None

    def get(self, name: str, path: str) -> bool:
        """Download an object to a file; False if there is no such object.  Raises StoreError, OSError."""
        try:
            with atomic_file(path, durable=False) as file:
                self._ask(f"{name}: cannot be read", self._files.get_file, self._at(name), file.name)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """The names of all objects.  Raises StoreError."""
        try:
            found = self._ask("cannot be listed", self._files.find, self._root)
        except FileNotFoundError:
            return []
        return [path.removeprefix(f"{self._root}/") for path in found]

    def remove(self, names: Sequence[str]) -> None:
        """Delete these objects, those that exist.  Raises StoreError."""
        paths = [self._at(name) for name in names]
        with suppress(FileNotFoundError):
            if paths:
                self._ask("objects cannot be removed", self._files.rm, paths)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _ask(self, failed: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call the store.  Raises StoreError, or FileNotFoundError if there is no such object or bucket."""
        try:
            return method(*arguments, timeout=_BOUND_REAL_S)
        except FileNotFoundError:
            raise
        except Exception as error:  # of whatever library is below
            from fsspec.exceptions import FSTimeoutError  # here, because commands without a store do not need asyncio

            if isinstance(error, FSTimeoutError):
                raise StoreError(f"{self.url}: {failed}: not done within {_BOUND_REAL_S} s") from None
            why = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"{self.url}: {failed}: {why}") from error
