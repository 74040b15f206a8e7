"""From a bare Python to natjam: the environments that ``make`` makes, and the pins that they are made with."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.live_runs import REPOSITORY

OLDEST_OF_EACH = ("3.11.0", "3.12.0", "3.13.0", "3.14.0")


def make(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def version_of(folder: Path) -> str:
    return subprocess.run([folder / "bin/python", "-V"], capture_output=True, text=True, check=True).stdout


def test_every_pin_can_be_installed_on_every_python_that_is_supported() -> None:
    """Debian 12 has 3.11.2; of a package that asks for 3.11.5, pip says only that it cannot resolve."""
    pins = re.findall(r"^([\w.-]+)==(\S+)", (REPOSITORY / "constraints.txt").read_text(), re.MULTILINE)
    asked = {}
    for name, version in pins:
        try:
            found = metadata(name)
        except PackageNotFoundError:
            continue
        if found["Version"] == version:
            asked[name] = SpecifierSet((found.get_all("Requires-Python") or [""])[0])
    assert len(asked) > 40
    assert {name: str(wants) for name, wants in asked.items() if not all(v in wants for v in OLDEST_OF_EACH)} == {}


def test_an_environment_whose_python_has_gone_is_made_again_and_pip_is_heard(tmp_path: Path) -> None:
    folder = tmp_path / "environment"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(tmp_path / "gone")
    (folder / "pyvenv.cfg").touch()
    done = make("install", PYTHON=sys.executable, VENV=str(folder), PIP_NO_INDEX="1", PIP_FIND_LINKS="")
    assert f"{folder} is made again" in done.stderr
    assert version_of(folder) == f"Python {sys.version.split()[0]}\n"
    assert "No matching distribution found" in done.stderr, "pip's own words"
    assert done.returncode == 2
    assert not (folder / "installed").exists()


def test_a_python_that_is_not_supported_is_refused_with_those_that_are(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    done = make("install", PYTHON=str(other), VENV=str(tmp_path / "venv"))
    assert done.returncode == 2
    assert "natjam needs Python 3.11, 3.12, 3.13 or 3.14" in done.stderr
    assert f"{other} is not one" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letters").touch()
    done = make("install", VENV=str(tmp_path))
    assert f"{tmp_path} is there and no virtual environment" in done.stderr
    assert (tmp_path / "letters").exists()


@pytest.mark.parametrize("target", ["demo", "chaos", "install"])
def test_who_only_runs_natjam_installs_no_tools(target: str, tmp_path: Path) -> None:
    said = make("--dry-run", target, VENV=str(tmp_path)).stdout
    assert ".ci/install" in said
    assert "[test,dev]" not in said


PIP = """\
#!/bin/sh
case "$*" in *pip*)
    echo '  Installing build dependencies: started'
    echo Collecting ray==2.60
    echo Collecting numpy
    echo Installing collected packages: numpy, ray
esac
"""


def test_the_installation_says_what_it_does_where_pip_is_silent(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib/python3.12/site-packages").mkdir(parents=True)
    python = tmp_path / "bin/python"
    python.write_text(PIP)
    python.chmod(0o755)
    done = subprocess.run([".ci/install", tmp_path, "."], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    head, *lines = done.stdout.splitlines()
    assert head.startswith(f"installing . into {tmp_path}, which takes one to two minutes")
    seconds, steps = zip(*(line.strip().split(" s  ") for line in lines), strict=True)
    assert list(map(int, seconds)) == sorted(map(int, seconds))
    assert steps == (
        "preparing natjam's own build",
        "unpacking 2 packages, which takes longest",
        "compiling the packages on all cores, so that natjam starts quickly",
        "done",
    )
