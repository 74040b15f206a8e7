"""The node host's end of its store service, and of the output as its tasks find it."""

from __future__ import annotations

import socket
from pathlib import Path

from emulator.live.services.service_process import ServiceProcess
from emulator.live.tasks.kept_files import kept_files

_BACKLOG = 1024


class StoreProcess(ServiceProcess):
    """One store service, for the files below ``directory``."""

    def __init__(self, run_id: str, url: str, directory: Path) -> None:
        self.socket_path = str(directory.with_name("store"))
        arguments = ["--url", url, "--root", str(directory)]
        super().__init__(run_id, "emulator.live.services.store_service", arguments, self._listening_socket)
        self._directory = directory

    def _listening_socket(self) -> socket.socket:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(self.socket_path)
        listening.listen(_BACKLOG)
        return listening

    def sees(self, name: str) -> bool:
        """Whether an object is in the store.  Blocks.  Raises OutputError."""
        file = self._directory / name
        kept_files({"store": self.socket_path, "output_dir": str(self._directory)}).get(str(file))
        return file.exists()
