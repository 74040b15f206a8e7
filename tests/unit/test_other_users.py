"""Several users on one machine: none takes what another has running for its own, stops it, or reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir

import pytest

# The other user cannot read what is not imported yet.
from analysis import explain, verify_run  # noqa: F401
from emulator.errors import RunError
from emulator.live import janitor
from emulator.live.session import detached
from tests.commands import run_natjam
from tests.other_user import as_another_user, needs_root, process_with
from tests.simulated_runs import simulate

pytestmark = needs_root
COMMAND = "emulator.cli.script"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """The directory of a detached run that has ended, where other users can see it."""
    mine = takewhile(lambda directory: directory != Path(gettempdir()), (tmp_path, *tmp_path.parents))
    for directory in mine:
        directory.chmod(0o755)
    out = tmp_path / "out"
    out.mkdir()
    log = detached.log_path(out)
    log.write_text(f"natjam: no\n{detached.ENDED}1\n")
    log.chmod(0o600)
    return out


@pytest.fixture
def going_on(out: Path) -> Iterator[Path]:
    """One that is running; its process is any that looks like it."""
    with process_with(COMMAND, str(detached.log_path(out)), user=os.getuid()) as process:
        assert detached.process_of(out) == process.pid
        yield out


def test_a_process_of_another_user_is_not_taken_for_a_run_or_a_janitor(out: Path) -> None:
    with process_with(COMMAND, str(detached.log_path(out))) as process:
        assert detached.process_of(out) is None
        with pytest.raises(RunError, match="has failed: no"):
            detached.verdict(out)
        detached.stop(out)
        assert process.poll() is None
    with process_with("emulator.live.janitor", "--run-id", "0123abcd"):
        assert not janitor._has_janitor("0123abcd")


def test_another_user_can_neither_stop_a_run_nor_see_what_it_prints(going_on: Path) -> None:
    def attack() -> None:
        assert detached.verdict(going_on) == f"{going_on}: running"
        with pytest.raises(RunError, match="is another user's run, who alone can stop it"):
            detached.stop(going_on)
        with pytest.raises(RunError, match="is another user's run, who alone sees what it prints"):
            next(detached.printed(going_on))

    as_another_user(attack)
    assert detached.process_of(going_on) is not None


def test_a_run_of_another_user_that_is_on_is_named_as_that(out: Path, tmp_path: Path) -> None:
    """Its link to where it takes orders leads to where nobody else can come."""
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o700)
    (out / "live").symlink_to(hidden / "orders.json")
    (out / "journal.jsonl.zst.unfinished").write_bytes(b"")

    def attack() -> None:
        for command in ("verify", "explain"):
            said = run_natjam(command, out, status=2)
            assert "has no summary.json: the run has not ended" in said.stderr

    as_another_user(attack)


def test_what_may_not_be_read_is_said_in_words(out: Path) -> None:
    simulate(out, "closed")
    (out / "closed").chmod(0o700)

    def attack() -> None:
        said = run_natjam("verify", out, status=1)
        assert said.stderr == f"natjam: {out / 'closed' / 'summary.json'}: Permission denied\n"

    as_another_user(attack)
