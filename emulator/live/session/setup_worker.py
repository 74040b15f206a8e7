"""Starts a worker of Ray in its runtime environment, as Ray's own ``setup_worker.py`` does, without importing Ray.

Ray's own imports Ray to read a line of JSON, starts a shell, and that starts the worker, which imports Ray once more:
that took a third of what each host of a short run cost.  Whatever is more than variables of the environment and another
Python is left to Ray's own.  ``emulator.live.session.ray_runtime`` tells Ray of this file, whose name must stay.
Standard library only.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def command_of(context: Mapping[str, Any], language: str, worker: Sequence[str]) -> list[str]:
    """The command that starts a worker.

    Args:
        context: what Ray has made of the runtime environment.
        language: that of the worker, in capitals.
        worker: the file that a Python worker runs, with its arguments.
    """
    beyond = [name for name, value in context.items() if value and name not in ("env_vars", "py_executable")]
    if beyond or language != "PYTHON":
        rays_own = os.path.join(os.path.dirname(worker[0]), "setup_worker.py")
        return [sys.executable, rays_own, *sys.argv[1:]]
    return [*shlex.split(context.get("py_executable") or sys.executable), *worker]


def main() -> None:
    """Become the worker."""
    parser = argparse.ArgumentParser(prog="setup_worker.py", description="Start a worker of Ray.", allow_abbrev=False)
    parser.add_argument("--serialized-runtime-env-context", default="{}", help="what Ray made of the environment, JSON")
    parser.add_argument("--language", default="", help="of the worker")
    arguments, worker = parser.parse_known_args()
    context = json.loads(arguments.serialized_runtime_env_context or "{}")
    os.environ.update({name: os.path.expandvars(value) for name, value in context.get("env_vars", {}).items()})
    command = command_of(context, arguments.language, worker)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
