"""What the page of a live run is told, in pieces, adds up to what the report of the run says."""

from __future__ import annotations

import contextlib
import re
import socket
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from analysis.watch.server import FollowedRun
from emulator.display.status import JobStatus, RunStatus
from emulator.experiment.expand import expand
from emulator.experiment.load import load_experiment
from emulator.live.session.watch_page import WatchPage
from emulator.records.journal import encode_record
from emulator.resolved import nodes_of
from tests.commands import run_natjam
from tests.live_runs import until
from tests.report_pages import payloads, read_payload
from tests.run_results import RunResults
from tests.simulated_runs import FIG4, simulate

PIECES = 7


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("run"), "run", "scheduler.mechanism=suspend")


def begin(run: Path) -> dict[str, Any]:
    experiment = load_experiment(run / "experiment.yaml")
    jobs, nodes = expand(experiment, experiment.seed), nodes_of(experiment.cluster)
    return {"kind": "begin", "title": "fig4", "nodes": msgspec.to_builtins(nodes), "jobs": msgspec.to_builtins(jobs)}


def status(journal: list[bytes], emulated_s: float) -> dict[str, Any]:
    return {"kind": "status", "phase": "running", "emulated_s": emulated_s, "lag_p99_real_ms": 1.5, "journal": journal}


def test_the_pieces_of_a_journal_add_up_to_the_report(run: Path) -> None:
    records = RunResults(run).records()
    lines = [encode_record(record) for record in records]
    followed = FollowedRun(begin(run))
    assert read_payload(followed.payload(None))["end_s"] == 0
    size = -(-len(lines) // PIECES)
    before_s = 0.0
    for at in range(0, len(lines), size):
        followed.take(status(lines[at : at + size], records[min(at + size, len(lines)) - 1].t_ns / 1e9))
        payload = read_payload(followed.payload(None))
        assert payload["end_s"] > before_s
        assert payload["segment_end"].max() * payload["tick_s"] <= payload["end_s"] + 0.001
        before_s = payload["end_s"]
    last = read_payload(followed.payload("ended"))
    (report,) = payloads((run / "report.html").read_text())
    assert last["ended"] == "ended"
    assert last["lag_p99_real_ms"] == [1.5] * PIECES
    assert last["attempt"] == report["attempt"]
    for name in ("lane", "state", "start", "end", "attempt"):
        assert last[f"segment_{name}"].tolist() == report[f"segment_{name}"].tolist()


def test_the_page_is_served_to_who_knows_its_address_and_ends_with_the_run() -> None:
    jobs = (JobStatus("research-XL", "research", "submitted", 0, 0, 0, 51, 51),)
    with WatchPage(load_experiment(FIG4)) as page:
        process = page.process_id
        assert page.address.startswith("http://127.0.0.1:")
        assert "<canvas" in fetch(page.address).decode()
        with pytest.raises(urllib.error.HTTPError, match="404") as missed:
            fetch(page.address.rsplit("/", 2)[0] + "/")
        guarded(missed.value.headers)
        page.update(RunStatus(10**9, 1.0, 20.0, "running", jobs, 48, {"research": 1}, 0, None))
        payload = until_told(page.address)
        assert payload["status"]["jobs"][0]["name"] == "research-XL"
        assert payload["status"]["containers_used"] == {"research": 1}
        page.update(RunStatus(10**9, 1.0, 20.0, "repeat 2 of 2: running", jobs, 48, {}, 0, None, repeat=2))
        page.end("over", None)
    assert not Path(f"/proc/{process}").exists()


def test_a_page_that_dies_does_not_disturb_the_run() -> None:
    with WatchPage(load_experiment(FIG4)) as page:
        psutil.Process(page.process_id).kill()
        for second in range(100):
            page.update(RunStatus(second * 10**9, 1.0, 20.0, "running", (), 48, {}, 0, None, [b"x" * 4096]))
        page.end("over", None)


def test_a_simulation_is_not_watched(tmp_path: Path) -> None:
    done = run_natjam("run", FIG4, "--engine", "sim", "--watch", "--out", tmp_path / "out", status=2)
    assert "--watch is for live runs" in done.output
    assert not (tmp_path / "out").exists()


def test_only_the_page_itself_gets_at_the_run() -> None:
    with WatchPage(load_experiment(FIG4)) as page:
        for name in ("127.0.0.1:8080", "localhost", "LOCALHOST:1", "[::1]:80"):
            with asked(page.address, name) as answer:
                guarded(answer.headers)
        for name in ("evil.example", "127.0.0.1.evil.example:80", "localhost:x", "localhost.", "127.0.0.1@evil", ":80"):
            with pytest.raises(urllib.error.HTTPError, match="403") as refused:
                asked(page.address, name)
            guarded(refused.value.headers)
        policies = set()
        for _ in range(2):
            with asked(page.address, "localhost") as answer:
                policy = answer.headers["Content-Security-Policy"]
                (nonce,) = re.findall(r"script-src 'nonce-([\w-]{20,})';", policy)
                assert answer.read().decode().count(f'<script nonce="{nonce}">') == 1
                policies.add(policy)
        assert len(policies) == 2, "a nonce is for once"


def test_requests_that_are_none_are_not_told_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with WatchPage(load_experiment(FIG4)) as page:
        at = urllib.parse.urlsplit(page.address)
        for bytes_sent in (
            b"\x16\x03\x01\x02\0",
            b"GET / HTTP/1.1\r\nHost\r\n\r\n",
            b"GET / HTTP/1.1\r\nx: " + b"x" * 2**21,
        ):
            with socket.create_connection((at.hostname, at.port), 30) as sender, contextlib.suppress(ConnectionError):
                sender.sendall(bytes_sent + b"\r\n\r\n")
                while sender.recv(2**16):
                    pass
        fetch(page.address)
    assert capfd.readouterr() == ("", "")


def test_more_connections_than_files_are_told_once_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []
    with WatchPage(load_experiment(FIG4)) as page, contextlib.ExitStack() as flood:
        fetch(page.address)
        at, server = urllib.parse.urlsplit(page.address), psutil.Process(page.process_id)
        limits = server.rlimit(psutil.RLIMIT_NOFILE)
        server.rlimit(psutil.RLIMIT_NOFILE, (server.num_fds() + 3, limits[1]))
        for _ in range(20):
            flood.enter_context(socket.create_connection((at.hostname, at.port), 30))
        until(lambda: said.append(capfd.readouterr().err) or "".join(said), "something said")
        server.rlimit(psutil.RLIMIT_NOFILE, limits)
        fetch(page.address)  # it still answers
    said.append(capfd.readouterr().err)
    assert "".join(said).startswith("natjam: the page of --watch could not answer a request: OSError: [Errno 24]")
    assert "".join(said).count("\n") == 1


def test_a_fault_of_the_page_is_told_once_in_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with WatchPage(load_experiment(FIG4)) as page:
        page.update(RunStatus(10**9, 1.0, 20.0, "running", (), 48, {}, 0, None))
        page.end("over", tmp_path / "no such\x1breport")
        until_told(page.address)
        for _ in range(3):
            with pytest.raises(urllib.error.HTTPError, match="500"):
                fetch(page.address + "report")
    said = capfd.readouterr().err
    assert said.startswith("natjam: the page of --watch could not answer a request: FileNotFoundError")
    assert said.count("\n") == 1
    assert "\x1b" not in said


def asked(address: str, host: str) -> Any:
    return urllib.request.urlopen(urllib.request.Request(address, headers={"Host": host}), timeout=30)


def guarded(headers: Any) -> None:
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read()


def until_told(address: str) -> dict[str, Any]:
    """The page's state as soon as it has a status.  Before that it may know the run's jobs only."""
    while True:
        encoded = fetch(address + "state?have=")
        if encoded and "jobs" in (payload := read_payload(encoded))["status"]:
            return payload
