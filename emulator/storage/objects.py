"""Objects of an object store, below a URL: ``s3://bucket/prefix``, by fsspec.

An object is there whole, once its upload has ended, or not at all: that is the store's own commit, and nothing is
renamed.  To write one again is to replace it, in one step; what natjam writes again is the same to the byte, since it
follows from the seed.  What may pass (no answer, "slow down", an internal error, half an object) is tried again by the
store's own libraries, with growing pauses, for half a minute, or some minutes if each answer is waited for in vain.
Then, or where the store refuses, it has failed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from emulator.errors import RunError

SCHEMES = {"s3": "s3fs"}
"""Of the URLs that can be given, with what must be installed."""
AT_ONCE = 16
"""So many requests at a time are sent to a store."""
_OPTIONS: dict[str, dict[str, Any]] = {
    "s3": {
        "config_kwargs": {
            "retries": {"mode": "standard", "max_attempts": 6},
            "connect_timeout": 5,
            "read_timeout": 10,
            "max_pool_connections": AT_ONCE,
        }
    }
}
_BOUND_REAL_S = 300
"""Of all tries of one request: a store may also stop to read what is sent, which has no timeout of its own."""


class StoreError(RunError):
    """The store cannot be reached, or refuses."""


def is_object_url(place: str) -> bool:
    """Whether a place is a URL and no path."""
    return "://" in place


class ObjectStore:
    """The objects below one URL; names are relative to it.  May be used by several threads."""

    def __init__(self, url: str) -> None:
        """Raises StoreError if what it needs is not installed."""
        self.url = url
        scheme = url.partition("://")[0]
        try:
            from fsspec.core import url_to_fs

            self._files, self._root = url_to_fs(
                url, skip_instance_cache=True, use_listings_cache=False, **_OPTIONS[scheme]
            )
        except ImportError as error:
            raise StoreError(f"{url}: {error}; install it with `pip install {SCHEMES[scheme]}`") from None
        self._files.retries = (
            2  # the library below retries too, and knows more of what may pass, but not half an object
        )

    def put(self, path: str, name: str) -> None:
        """Have an object be what a file is.  Raises StoreError, FileNotFoundError if the file is not there."""
        os.stat(path)
        try:
            self._ask(f"{name}: cannot be written", self._files.put_file, path, self._at(name))
        except FileNotFoundError:
            raise StoreError(f"{self.url}: {name}: cannot be written: there is no such bucket") from None

    def get(self, name: str, path: str) -> bool:
        """Have a file be what an object is; False if there is no such object.  Raises StoreError, OSError."""
        directory, file = os.path.split(path)
        os.makedirs(directory, exist_ok=True)
        temporary = os.path.join(directory, f".{file}.{os.getpid()}.tmp")
        try:
            self._ask(f"{name}: cannot be read", self._files.get_file, self._at(name), temporary)
            os.replace(temporary, path)
        except FileNotFoundError:
            return False
        return True

    def names(self) -> list[str]:
        """Of all objects there are.  Raises StoreError."""
        try:
            found = self._ask("cannot be listed", self._files.find, self._root)
        except FileNotFoundError:
            return []
        return [path.removeprefix(f"{self._root}/") for path in found]

    def remove(self, names: Sequence[str]) -> None:
        """Have these objects be gone.  Raises StoreError."""
        paths = [self._at(name) for name in names]
        with suppress(FileNotFoundError):
            if paths:
                self._ask("objects cannot be removed", self._files.rm, paths)

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _ask(self, failed: str, method: Callable[..., Any], *arguments: Any) -> Any:
        """Raises StoreError; FileNotFoundError where an object, or the bucket, is not there."""
        try:
            return method(*arguments, timeout=_BOUND_REAL_S)
        except FileNotFoundError:
            raise
        except asyncio.TimeoutError:
            raise StoreError(f"{self.url}: {failed}: not done within {_BOUND_REAL_S} s") from None
        except Exception as error:  # of whatever library is below
            why = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"{self.url}: {failed}: {why}") from error
