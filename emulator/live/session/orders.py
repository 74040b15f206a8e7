"""``natjam suspend | resume | kill``: a user's orders about single tasks of a live run (os-assisted-preemption, III-B).

Theory of operation
-------------------
While a run is on, its directory has a symbolic link to a file among the run's temporary files.  Only the run's user can
read that file.  It holds the address of the ResourceManager's host and the secret of the run's links.  An order is sent
over such a link, like a message of another host.  The ResourceManager handles it like an order of a trigger: it is
written to the journal, and a replay repeats it.  There is no answer.  Whether an order can be given, and its result,
are read from the journal, which a live run writes as it goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from copy import copy
from pathlib import Path

import msgspec

from emulator.core.application_master.task import task_name, task_named
from emulator.core.effects import Send
from emulator.core.messages import (
    RESOURCE_MANAGER,
    ContainerReport,
    ContainerReported,
    ContainerState,
    JobFinished,
    OrderTask,
    Outcome,
    StartContainer,
    SubmitJob,
    TaskOrder,
)
from emulator.errors import ConfigError, RunError
from emulator.files.problems import suggestion
from emulator.files.whole_files import written_whole
from emulator.live.hosts.links import Address, LinkError, Links
from emulator.live.hosts.plan import RESOURCE_MANAGER_HOST
from emulator.records.journal import JournalTail, Record
from emulator.records.run_directory import EXPERIMENT_NAME, LINK_NAME, RunDirectory
from emulator.vocabulary import Frozen, JobFacts, Order, TaskId

_ENDPOINT_NAME = "orders.json"
_TIMEOUT_REAL_S = 10.0
_POLL_REAL_S = 0.2


class _Endpoint(Frozen):
    """Where a run takes orders."""

    address: Address
    secret: str


def publish_endpoint(directory: Path, root: Path, address: Address, secret: str) -> None:
    """The run of ``directory`` takes orders at ``address``; ``root`` is its own temporary directory."""
    with written_whole(root / _ENDPOINT_NAME) as unfinished:
        unfinished.touch(0o600)
        unfinished.write_bytes(msgspec.json.encode(_Endpoint(address, secret)))
    link = directory / LINK_NAME
    with contextlib.suppress(OSError):  # not every file system has links: then the run takes no orders
        link.unlink(missing_ok=True)
        link.symlink_to(root / _ENDPOINT_NAME)


def withdraw_endpoint(directory: Path) -> None:
    """The run is over."""
    with contextlib.suppress(OSError):
        (directory / LINK_NAME).unlink(missing_ok=True)


def give(directory: Path, name: str, order: Order) -> str:
    """Have the task ``name`` of the live run in ``directory`` suspended, resumed or killed; what has come of it.

    Raises:
        ConfigError: there is no such run, job or task.
        RunError: the run is over, the task is in no state for the order, or it is refused or not taken.
    """
    run = _running(directory)
    endpoint = _endpoint(run)
    try:
        job, task = task_named(name)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    journal = RunDirectory(run).found_journal()
    if journal is None:
        raise _over(directory)
    with contextlib.closing(JournalTail(journal)) as records:
        now = TaskStatus(job, task)
        now.take(records.news())
        before = copy(now)
        before.check(order)
        try:
            asyncio.run(_send(endpoint, OrderTask(job, TaskOrder(task, order))))
        except LinkError:
            raise _over(directory) from None
        return _awaited(order, before, now, records)


def _awaited(order: Order, before: TaskStatus, now: TaskStatus, records: JournalTail) -> str:
    """What has come of an order that was sent.  Raises RunError if it is refused or not taken in time."""
    until_real_s = time.monotonic() + _TIMEOUT_REAL_S
    while True:
        time.sleep(_POLL_REAL_S)
        now.take(records.news())
        is_taken, is_late = now.orders > before.orders, time.monotonic() > until_real_s
        if is_taken and (told := _outcome(order, before, now)):
            return told
        if is_late:
            taken = "taken, and not carried out yet" if is_taken else "not been taken"
            raise RunError(f"{now.name}: the order has {taken} after {_TIMEOUT_REAL_S:g} s: {now.said}")


def _outcome(order: Order, before: TaskStatus, now: TaskStatus) -> str | None:
    """What has come of an order that was taken; None: nothing yet.  Raises RunError if it is refused."""
    at = f"{now.reported_ns / 1e9:.1f} s"
    if order is Order.RESUME:
        return f"{now.name}: goes on as soon as its node has a container free"
    if order is Order.KILL and now.container != before.container:
        return f"{now.name}: killed; it has begun anew"
    if now.report is None or before.report is None:
        return None
    if now.report.outcome is not None:
        return f"{now.name}: its attempt has ended at {at}: {now.report.outcome.value}"
    if order is Order.SUSPEND and now.report.state is ContainerState.SUSPENDED:
        return f"{now.name}: suspended at {at}"
    if order is Order.SUSPEND and now.report.refusals > before.report.refusals:
        raise RunError(f"{now.name}: refused at {at} ({now.report.reason}); it is asked again until 'natjam resume'")
    return None


def _running(directory: Path) -> Path:
    """The directory of the run, or of that of its repeats that is on.  Raises ConfigError, RunError."""
    if not (directory / EXPERIMENT_NAME).exists():
        raise ConfigError(f"{directory}: no such run; name the directory that 'natjam run' writes to (--out)")
    for place in (directory, *directory.glob("repeat-*")):
        if (place / LINK_NAME).is_symlink():
            return place
    if RunDirectory(directory).finished_summary() is None:
        raise RunError(f"{directory}: no live run is at work there: it is simulated, has not begun, or is over")
    raise _over(directory)


def _over(directory: Path) -> RunError:
    return RunError(f"{directory}: the run is over")


def _endpoint(run: Path) -> _Endpoint:
    try:
        return msgspec.json.decode((run / LINK_NAME).read_bytes(), type=_Endpoint)
    except PermissionError:
        raise RunError(f"{run}: is another user's run, who alone may give it orders") from None
    except OSError:
        raise _over(run) from None


async def _send(endpoint: _Endpoint, order: OrderTask) -> None:
    links = Links("user", endpoint.secret, lambda _: None, lambda _: None)
    try:
        await links.connect({RESOURCE_MANAGER_HOST: endpoint.address})
        links.send(RESOURCE_MANAGER_HOST, [(RESOURCE_MANAGER, order)])
    finally:
        links.close()


# ---- what the journal says of a task ----


class TaskStatus:
    """One task as the records of a journal show it."""

    def __init__(self, job: str, task: TaskId) -> None:
        self.name = task_name(job, task.group, task.number)
        self.orders = 0
        """The number of orders that users have given about it."""
        self.container = ""
        """Its newest."""
        self.report: ContainerReport | None = None
        """The newest of that."""
        self.reported_ns = 0
        self._job = job
        self._ordered = self._task = task
        self._is_held = False
        """The last order was to suspend it."""
        self._submitted: dict[str, JobFacts] = {}
        self._job_ended = False

    def take(self, records: Iterable[Record]) -> None:
        """Take the next records."""
        for record in records:
            self._take(record)

    def _take(self, record: Record) -> None:
        message = record.message
        if isinstance(message, ContainerReported):
            self._reported(message.report, record.t_ns)
        elif isinstance(message, SubmitJob):
            self._submitted[message.job] = message.facts
            if message.job == self._job:
                self._task = TaskId(message.facts.meant(self._ordered.group), self._ordered.number)
                self.name = task_name(self._job, *self._task)
        elif isinstance(message, JobFinished):
            self._job_ended |= message.job == self._job
        elif isinstance(message, OrderTask) and (message.job, message.order.task) == (self._job, self._ordered):
            self.orders += 1
            self._is_held = message.order.order is Order.SUSPEND
        for effect in record.effects:
            if isinstance(effect, Send) and isinstance(effect.message, StartContainer):
                start = effect.message
                is_its = (start.job, start.group, start.task) == (self._job, *self._task)
                if is_its and start.container != self.container:
                    self.container, self.report = start.container, None

    def _reported(self, report: ContainerReport, t_ns: int) -> None:
        if report.container == self.container and (self.report is None or self.report.revision < report.revision):
            self.report, self.reported_ns = report, t_ns

    def check(self, order: Order) -> None:
        """Raises ConfigError if there is no such task, RunError if it is in no state for ``order``."""
        facts = self._submitted.get(self._job)
        if facts is None:
            near = suggestion(self._job, self._submitted)
            raise ConfigError(f"no job '{self._job}' has been submitted{near or f': {list(self._submitted)}'}")
        problem = facts.lacks(self._task.group, self._task.number)
        if problem is not None:
            raise ConfigError(problem)
        state = self.report.state if self.report else None
        if order is Order.RESUME:
            if state is not ContainerState.SUSPENDED and (self._has_ended or not self._is_held):
                raise RunError(f"{self.name}: is not suspended: {self.said}")
        elif state is not ContainerState.RUNNING and (order, state) != (Order.KILL, ContainerState.SUSPENDED):
            raise RunError(f"{self.name}: is not running: {self.said}")

    @property
    def _has_ended(self) -> bool:
        return self._job_ended or (self.report is not None and self.report.outcome is Outcome.SUCCEEDED)

    @property
    def said(self) -> str:
        """How it stands, in words."""
        if self._has_ended:
            return "it has ended"
        if self.report is None:
            return "it is being launched" if self.container else "it waits for its first container"
        if self.report.outcome is not None:
            return f"it waits for a container; its last attempt was {self.report.outcome.value}"
        return f"it is {self.report.state.value}"
