"""``natjam probe`` on real programs: the right table or clear words, and nothing left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from emulator.costs.overheads import load_overheads, load_tier
from emulator.errors import ConfigError
from emulator.files.whole_files import held_directory
from tests.commands import invoked
from tests.live_runs import REPOSITORY, until, with_variable
from tests.programs import criu_or_skip, kmeans_command

BOUND_S = 90
KMEANS = kmeans_command("--memory-mb", "20", "--iterations", "100000")
NATJAM = [sys.executable, "-c", "from emulator.cli.script import main; main()"]


_TEST = "NATJAM_PROBE_TEST"


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process of the test and no image outlives a probe, however it ended."""
    monkeypatch.setenv(_TEST, str(tmp_path))
    before = staging_directories()
    yield
    until(  # a janitor may still be at it
        lambda: not with_variable(_TEST, str(tmp_path)) and not staging_directories() - before,
        lambda: f"gone: {with_variable(_TEST, str(tmp_path))}, {staging_directories() - before}",
        BOUND_S,
    )


def staging_directories() -> set[Path]:
    return set(Path("/dev/shm").glob("natjam-staging-*"))


def start(tmp_path: Path, *arguments: str, before: tuple[str, ...] = (), **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*before, *NATJAM, "probe", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environment},
    )


def probe(tmp_path: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, output, errors; nothing but results is left in the working directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for name, value in environment.items():
            patch.setenv(name, value)
        done = invoked("probe", *arguments)
    check_left(tmp_path)
    return done.exit_code, done.stdout, done.stderr


def check_left(tmp_path: Path) -> None:
    assert {path.name for path in tmp_path.iterdir()} <= {"runs", "results", "printed"}


def probed(tmp_path: Path, *command: str, after_s: float = 0.5, **environment: str) -> dict[str, Any]:
    options = ("--json", "--after", str(after_s), "--out", "results")
    status, printed, complained = probe(tmp_path, *options, "--", *command, **environment)
    assert status == 0, complained
    return written(tmp_path, printed)


def written(tmp_path: Path, printed: str) -> dict[str, Any]:
    found = json.loads(printed)
    assert found == json.loads((tmp_path / "results" / "probe.json").read_text())
    return found


def check_costs(found: dict[str, Any]) -> None:
    names = [store["name"] for store in found["stores"]]
    assert names == ["here", "hdd", "ssd", "nvm"]
    for store in found["stores"]:
        for cost in (store["full"], store["incremental"]):
            assert cost["break_even_s"] == pytest.approx(cost["dump_s"] + cost["restore_s"])
            assert cost["dump_s"] > cost["written_bytes"] / store["write_mb_s"] / 1e6 * 0.999 or store["measured"]
        assert store["incremental"]["written_bytes"] < store["full"]["written_bytes"]
    slow_to_fast = [store["full"]["break_even_s"] for store in found["stores"][1:]]
    assert slow_to_fast == sorted(slow_to_fast, reverse=True)


def test_k_means_is_saved_and_restored_by_criu(tmp_path: Path) -> None:
    criu_or_skip()
    found = probed(tmp_path, *KMEANS, after_s=2.5)
    check_costs(found)
    assert (found["dumper"], found["changed_pages_by"], found["notes"]) == ("criu", "page hashes", [])
    assert found["stop_s"] > 0
    full = found["stores"][0]["full"]
    assert 20e6 < full["read_bytes"] < 200e6
    assert found["memory"]["own_bytes"] > 20e6
    assert found["stores"][0]["incremental"]["written_bytes"] < full["written_bytes"] / 3


def test_a_program_of_several_processes_is_made_again_whole(tmp_path: Path) -> None:
    criu_or_skip()
    code = "import os, time; [os.fork() for _ in range(2)]; time.sleep(1000)"
    found = probed(tmp_path, sys.executable, "-c", code)
    assert found["memory"]["processes"] == 4
    assert found["dumper"] == "criu"


def test_what_it_leaves_is_a_profile_and_a_tier(tmp_path: Path) -> None:
    status, printed, _ = probe(tmp_path, "--store", "scratch=.", "--out", "results", "--", "sleep", "100")
    assert status == 0
    assert "scratch (measured)" in printed
    assert "break-even" in printed
    overheads = load_overheads("results/probe.yaml", tmp_path)
    assert overheads.schedule_ns > overheads.suspend_ns > 0
    assert load_tier("results/probe.yaml", tmp_path).name == "scratch"


def test_without_criu_images_are_of_memory_alone_and_say_so(tmp_path: Path) -> None:
    found = probed(
        tmp_path,
        *kmeans_command("--memory-mb", "20", "--iterations", "100000"),
        after_s=2.5,
        NATJAM_CRIU=str(tmp_path / "nothing"),
    )
    check_costs(found)
    assert found["dumper"] == "pages"
    assert found["stores"][0]["full"]["read_bytes"] > 20e6
    assert "No such file" in found["notes"][0]
    assert "no process is restored" in found["notes"][0]


def test_without_root(tmp_path: Path) -> None:
    if subprocess.run(["unshare", "--user", "true"], check=False, capture_output=True).returncode:
        pytest.skip("this system gives no user namespace of one's own")
    options = ("--json", "--after", "0.5", "--out", "results")
    with start(tmp_path, *options, "--", "sleep", "100", before=("unshare", "--user")) as process:
        printed, complained = process.communicate(timeout=BOUND_S)
    assert process.returncode == 0, complained
    check_left(tmp_path)
    found = written(tmp_path, printed)
    check_costs(found)
    assert found["dumper"] == "pages"


def test_a_program_that_criu_cannot_save_goes_on_and_its_memory_is_saved(tmp_path: Path) -> None:
    criu_or_skip()
    code = "import socket, time; a, b = socket.socket(socket.AF_INET), 0; a.bind(('127.0.0.1', 0)); a.listen()\n"
    code += "c = socket.create_connection(a.getsockname()); d = a.accept(); time.sleep(1000)"
    found = probed(tmp_path, sys.executable, "-c", code)
    assert found["dumper"] == "pages"
    assert "criu cannot save this program: criu dump: Error" in found["notes"][0]


def test_a_program_that_ignores_the_stop_signal(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTSTP, signal.SIG_IGN); time.sleep(1000)"
    found = probed(tmp_path, sys.executable, "-c", code)
    assert found["stop_s"] is None
    assert "ignores it" in found["notes"][0]
    assert found["stores"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("false",), "ended with status 1 after"),
        (("sh", "-c", "echo some words; exit 3"), "It printed: some words"),
        (("sh", "-c", "kill -9 $$"), "was killed by signal 9"),
    ],
)
def test_a_program_that_ends_too_soon_is_said_to(tmp_path: Path, command: tuple[str, ...], words: str) -> None:
    status, _, complained = probe(tmp_path, "--", *command)
    assert status == 1
    assert words in complained
    assert "Traceback" not in complained
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_probe_that_is_interrupted_or_killed_leaves_nothing(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    """The fixture looks for what is left; a janitor ends it for a probe that was killed."""
    with start(tmp_path, "--", *KMEANS, TMPDIR=str(tmp_path)) as process:
        assert process.stdout is not None
        while "saving it" not in process.stdout.readline():
            assert process.poll() is None
        (own,) = tmp_path.glob("natjam-????????")
        with pytest.raises(ConfigError, match="held"), held_directory(own, "held"):
            pass  # otherwise a run beginning now could take it for one left over
        process.send_signal(number)
        assert process.wait(BOUND_S) == status
    until(lambda: not list(tmp_path.glob("natjam-*")), "nothing left", BOUND_S)


_HANGING_CRIU = """\
#!/bin/sh
case "$1" in
    --version) echo "Version: 4.0" ;;
    dump) while [ "$1" != --work-dir ]; do shift; done; exec sleep 1000 > "$2/log" ;;
esac
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="criu needs root")
def test_a_probe_that_is_killed_while_criu_saves_leaves_nothing(tmp_path: Path) -> None:
    """Neither criu's process nor its log; the fixture looks for the process."""
    criu = tmp_path / "criu"
    criu.write_text(_HANGING_CRIU)
    criu.chmod(0o755)
    with start(
        tmp_path, "--after", "0.1", "--", "sleep", "1000", TMPDIR=str(tmp_path), NATJAM_CRIU=str(criu)
    ) as process:
        until(lambda: _saved_by(process.pid), "criu saves", BOUND_S)
        process.kill()
    until(lambda: not list(tmp_path.glob("natjam-*")), "nothing left", BOUND_S)


def _saved_by(pid: int) -> bool:
    """Whether a process of criu with a log is at work for ``pid``."""
    with suppress(psutil.NoSuchProcess):  # one that has just ended
        children = psutil.Process(pid).children()
        return any(file.path.endswith("/log") for child in children for file in child.open_files())
    return False
