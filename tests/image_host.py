"""One of several node hosts for the tests of process images: ``python -m tests.image_host FOLDER``.

It takes commands as lines of JSON and answers each with one line: start a program, save it and end it, restore it (from
an image of any host), wait for its end.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from emulator.live.dumpers.criu import CriuDumper, find_criu
from emulator.live.dumpers.images import save_process
from emulator.storage.images import ImageChain
from tests.programs import Program, restore_newest


class _Host:
    def __init__(self, folder: Path) -> None:
        found = find_criu()
        assert found is not None
        self._dumper = CriuDumper(found.path)
        self._folder = folder
        self._programs: dict[str, Program] = {}

    def start(self, name: str, command: list[str]) -> int:
        self._programs[name] = Program(command, self._folder / f"{name}.printed")
        return self._programs[name].pid

    def save(self, name: str) -> bool:
        """Save a program and end it; False if it has ended instead."""
        program = self._programs[name]
        if not program.stop():
            return False
        save_process(self._dumper, program.pid, self._chain(name))
        program.kill()
        return True

    def restore(self, name: str) -> int:
        restored = restore_newest(self._dumper, self._chain(name))
        assert restored.pid is not None
        program = self._programs[name] = Program.__new__(Program)  # restored, not started
        program.pid, program.alive, program.output = restored.pid, True, self._folder / f"{name}.printed"
        program.go_on()
        return restored.pid

    def ended(self, name: str) -> int:
        return self._programs[name].ended()

    def _chain(self, name: str) -> ImageChain:
        return ImageChain(self._folder / "images" / name, at_most=4)


def main() -> None:
    """Serve until standard input ends."""
    host = _Host(Path(sys.argv[1]))
    for line in sys.stdin:
        do, *arguments = json.loads(line)
        print(json.dumps(getattr(host, do)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
