"""What the hosts of a run report: journal, lag, the state of jobs and cluster, and failures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

from emulator.display.status import ClusterStatus, RunStatus, standstill, unstarted_job_status
from emulator.engine import Records
from emulator.errors import RunError
from emulator.live.hosts.plan import RESOURCE_MANAGER_HOST, HostStatus, timeout_real_ns
from emulator.records.gaps import Gap
from emulator.records.journal import Record, decode_record, merge
from emulator.records.lag import LagRecord, LagRecorder
from emulator.resolved import Resolved


class JournalStream:
    """The journal of a live run while it grows: brings its hosts' records into one order and passes them to a sink.

    A few times a second, every host hands over its machines' new records, and says up to what time they are complete.
    Before the earliest of these times no more records can come.  So all records before it are sorted, written, and
    brought to the disk at once.  If the driver is killed, only the records since it last asked, and the few it held
    back, are lost.
    """

    def __init__(self, sink: Records) -> None:
        self._sink = sink
        self._held: list[Record] = []
        self._counts: Counter[str] = Counter()
        """Number of records taken from each actor."""
        self._until_ns: dict[str, int] = {}
        """For each living host: it has handed over all its records before this time."""

    def take(self, host: str, lines: Iterable[bytes], until_ns: int) -> list[bytes]:
        """Take a host's encoded records since the last call; it will have no further record before ``until_ns``.

        A host that replaces another one first sends its whole journal.  Returns the lines that are new.
        """
        news: list[bytes] = []
        for line in lines:
            record = decode_record(line)
            if record.seq >= self._counts[record.actor]:
                self._counts[record.actor] = record.seq + 1
                self._held.append(record)
                news.append(line)
        self._until_ns[host] = until_ns
        return news

    def forget(self, host: str) -> None:
        """A host has died: no more records will come from it."""
        self._until_ns.pop(host, None)

    def write_settled(self) -> None:
        """Write all records before the time after which others may still come.  Raises JournalError."""
        settled_ns = min(self._until_ns.values(), default=0)
        in_order = merge(self._held)
        count = sum(record.t_ns < settled_ns for record in in_order)
        self._write(in_order[:count])
        self._held = in_order[count:]

    def write_all(self) -> None:
        """Write the remaining records at the end of the run.  Raises JournalError."""
        held, self._held = merge(self._held), []
        self._write(held)

    def _write(self, records: list[Record]) -> None:
        if records:
            self._sink.write(records)
            self._sink.flush()


_LINK_TIMEOUT_REAL_S = 5.0
"""A host whose link is broken has probably died; that is noticed within this time."""


class Standstill:
    """Detects that nothing moves in a live run.

    Every node host counts moves: processes that start, stop, resume or end, and processes seen working when it looks
    for silent ones, which it does eight times within a task's timeout.  If no count grows for that timeout although a
    submitted job has not ended, the run is given up.  A single hanging task does not lead to this: it has been killed
    by then, and that counts as a move.
    """

    def __init__(self, patience_real_ns: int) -> None:
        self._timeout_real_ns = patience_real_ns
        self._moves: int | None = None
        self._moved_real_ns = 0
        self.since_ns = 0
        """Emulated time of the last move seen."""

    def is_reached(self, moves: int, has_work: bool, now_real_ns: int, now_ns: int) -> bool:
        """Whether nothing has moved for too long.

        Args:
            moves: the count of all node hosts together.
            has_work: whether a submitted job has not ended.
            now_real_ns: real time.
            now_ns: emulated time.
        """
        if moves != self._moves or not has_work:
            self._moves, self._moved_real_ns, self.since_ns = moves, now_real_ns, now_ns
        return now_real_ns - self._moved_real_ns > self._timeout_real_ns


class HostReports:
    """The newest status of every host."""

    def __init__(self, run: Resolved) -> None:
        self._journal_news: list[bytes] = []
        self._run = run
        self._jobs = run.jobs_by_name
        self._statuses: dict[str, HostStatus] = {}
        self._measured: dict[str, tuple[LagRecord, tuple[Gap, ...]]] = {}
        """The lag and the gaps of every host, those that have been replaced too."""
        self._broken_since_real_s: dict[tuple[str, str], float] = {}
        self._standstill = Standstill(timeout_real_ns(run))
        self._taken_real_ns = 0
        """When the newest status was taken.  While a host is being replaced, nobody asks."""
        self._availability = run.settings.availability

    def take(self, host: str, status: HostStatus) -> None:
        """Take a newer status of a host."""
        self._journal_news += status.journal
        self._measured[host] = (status.lag, status.gaps)
        self._statuses[host] = status
        self._taken_real_ns = time.monotonic_ns()
        now_real_s, before = time.monotonic(), self._broken_since_real_s
        restored = {link for link in before if link[0] == host and link[1] not in status.unreachable}
        self._broken_since_real_s = {link: since for link, since in before.items() if link not in restored}
        for peer in status.unreachable:
            self._broken_since_real_s.setdefault((host, peer), now_real_s)

    def replaced(self, host: str) -> None:
        """A host has died and another has taken its name and its links; the lag and gaps of the old one still count."""
        broken = self._broken_since_real_s.items()
        self._broken_since_real_s = {link: since for link, since in broken if host not in link}
        if host in self._measured:
            self._measured[f"{host}, {len(self._measured)}"] = self._measured.pop(host)

    def check(self, dead: set[str]) -> None:
        """Raises RunError if a host has failed, or if two hosts that are not in ``dead`` have lost their connection."""
        for host, status in self._statuses.items():
            if status.fatal:
                raise RunError(f"the run was ended by {host}: {status.fatal}")
        for (host, peer), since_real_s in self._broken_since_real_s.items():
            if not dead & {host, peer} and time.monotonic() - since_real_s > _LINK_TIMEOUT_REAL_S:
                raise RunError(f"the connection from {host} to {peer} has broken, and both are alive")

    @property
    def nothing_moves(self) -> bool:
        """Whether nothing has moved for too long, according to the newest statuses."""
        cluster = self._cluster
        moves = sum(status.moves for status in self._statuses.values())
        if not self._standstill.is_reached(moves, bool(self._waiting), self._taken_real_ns, cluster.emulated_ns):
            return False
        available = self._availability
        return available is None or available.settled_ns(self._standstill.since_ns) <= cluster.emulated_ns

    def standstill(self, stuck: Iterable[str]) -> RunError:
        """The error for that case; ``stuck`` are the attempts that make no progress."""
        return RunError(standstill(self._standstill.since_ns, self._cluster.emulated_ns, stuck, self._waiting))

    @property
    def _cluster(self) -> ClusterStatus:
        manager = self._statuses.get(RESOURCE_MANAGER_HOST)
        return manager.cluster if manager and manager.cluster else ClusterStatus(0, {}, 0, {})

    @property
    def _waiting(self) -> list[str]:
        return [job for job, state in self._cluster.job_states.items() if state == "submitted"]

    @property
    def lag(self) -> LagRecorder:
        """How late timers were, over all hosts."""
        lag = LagRecorder()
        for record, _ in self._measured.values():
            lag.merge(record)
        return lag

    @property
    def gaps(self) -> list[Gap]:
        """The longest times for which processes of the run have stood still."""
        return [gap for _, gaps in self._measured.values() for gap in gaps]

    def run_status(self, phase: str, started_real_s: float) -> RunStatus:
        """The status for the display, with the journal records since the last call."""
        news, self._journal_news = self._journal_news, []
        cluster = self._cluster
        lag = self.lag
        running = {job.name: job for status in self._statuses.values() for job in status.jobs}
        states = cluster.job_states
        return RunStatus(
            emulated_ns=cluster.emulated_ns,
            real_s=time.monotonic() - started_real_s,
            time_scale=self._run.experiment.time_scale,
            phase=phase,
            jobs=tuple(running.get(n) or unstarted_job_status(job, states.get(n)) for n, job in self._jobs.items()),
            containers_total=0 if self._run.settings.has_sizes else self._run.containers,
            containers_used_by_queue=cluster.used_by_queue,
            containers_suspended=cluster.suspended,
            lag_p99_real_ms=lag.p99_real_ns / 1e6 if lag.count else None,
            journal=news,
        )
