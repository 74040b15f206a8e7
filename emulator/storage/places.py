"""Where the output of a run is kept: a directory that all its machines see, or an object store."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from emulator.errors import RunError
from emulator.storage.local import PARTIAL_DIRECTORY
from emulator.storage.objects import AT_ONCE, ObjectStore, StoreError, is_object_url

IMAGES_DIRECTORY = "_images"
"""Below the place of the output: any node can read them there."""


def output_at(storage_url: str | None, own: Path) -> str:
    """The path or URL of a run's output: ``own``, a folder of the run's directory, or below ``storage.url`` by the name
    of that directory."""
    if storage_url is None:
        return str(own.absolute())
    name = own.parent.resolve().name
    return (
        f"{storage_url.rstrip('/')}/{name}" if is_object_url(storage_url) else str(Path(storage_url, name).absolute())
    )


def place_at(place: str) -> Directory | Objects:
    """The place that a path or URL names.  Raises StoreError."""
    return Objects(ObjectStore(place)) if is_object_url(place) else Directory(Path(place))


class Directory:
    """A directory that keeps one run's output."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        """Create it; it must be empty and writable.  Raises RunError."""
        try:
            self._path.mkdir(parents=True)
        except OSError as error:
            raise RunError(f"{self._path}: cannot be made ({error.strerror}); storage.url must be writable") from None

    @contextlib.contextmanager
    def marked(self, marker: str) -> Iterator[None]:
        """Within the block it has a file of this name, so that hosts can check that they see it.  Raises RunError."""
        (self._path / marker).touch()
        try:
            yield
        finally:
            (self._path / marker).unlink(missing_ok=True)

    def tidy(self) -> None:
        """After the run: remove what was needed only while it ran.

        Partial outputs of failed tasks stay visible: of those only empty directories go.
        """
        partial = self._path / PARTIAL_DIRECTORY
        for path in (*sorted(partial.rglob("*"), reverse=True), partial):
            with contextlib.suppress(OSError):
                path.rmdir()
        shutil.rmtree(self._path / IMAGES_DIRECTORY, ignore_errors=True)

    @contextlib.contextmanager
    def files(self) -> Iterator[Path]:
        """A directory in which its files can be read.  Raises RunError."""
        yield self._path


class Objects:
    """An object store that keeps one run's output."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def make(self) -> None:
        """See ``Directory``."""
        if self._store.names():
            raise RunError(f"{self._store.url}: holds objects already; give the run another --out")
        with self.marked(".natjam"):
            pass  # a test of whether it can be written to

    @contextlib.contextmanager
    def marked(self, marker: str) -> Iterator[None]:
        """See ``Directory``."""
        try:
            with tempfile.NamedTemporaryFile() as empty:
                self._store.put(empty.name, marker)
            yield
        finally:
            with contextlib.suppress(StoreError):
                self._store.remove([marker])

    def tidy(self) -> None:
        """See ``Directory``.  Partial outputs of failed tasks stay visible: those of committed tasks go."""
        names = self._store.names()
        committed = {f"{PARTIAL_DIRECTORY}/{name}" for name in names}
        unneeded = [name for name in names if _task_of(name) in committed or name.startswith(f"{IMAGES_DIRECTORY}/")]
        self._store.remove(unneeded)

    @contextlib.contextmanager
    def files(self) -> Iterator[Path]:
        """See ``Directory``."""
        with tempfile.TemporaryDirectory(prefix="natjam-output-") as copy:
            root, names = Path(copy), self._store.names()
            for name in names:
                if ".." in Path(name).parts:
                    raise RunError(f"{self._store.url}: the name of the object {name!r} is not one of natjam's")
            with ThreadPoolExecutor(AT_ONCE) as threads:
                list(threads.map(lambda name: self._store.get(name, str(root / name)), names))
            yield root


def _task_of(partial: str) -> str:
    """The object name without the attempt's own part: the same for all partial outputs of a task."""
    directory, _, name = partial.rpartition("/")
    return f"{directory}/{name.partition('.')[0]}"
