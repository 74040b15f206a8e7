"""natjam as a wheel, installed outside the checkout; and ``natjam`` as a command on its own PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.live_runs import REPOSITORY


def installed_wheel(folder: Path) -> Path:
    """Build the wheel and install it without its dependencies; returns the directory to import it from."""
    source, site = folder / "source", folder / "site"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(REPOSITORY / name, source)
    for name in ("emulator", "workloads", "analysis"):
        shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run(wheel, check=True, capture_output=True)
    (built,) = folder.glob("natjam-*.whl")
    install = [*pip, "install", "--no-deps", "--no-compile", "--target", str(site), str(built)]  # what is used compiles
    subprocess.run(install, check=True, capture_output=True)
    return site


def environment_with(importable: Path, folder: Path) -> dict[str, str]:
    """Environment variables with which a shell finds ``natjam``, imported from ``importable``."""
    command = folder / "bin" / "natjam"
    command.parent.mkdir()
    start = 'if __name__ == "__main__":\n    main()\n'  # worker processes import the file too
    command.write_text(f"#!{sys.executable}\nfrom emulator.cli.script import main\n{start}")
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "COLUMNS": "160", "PYTHONPATH": str(importable), "PATH": path}
