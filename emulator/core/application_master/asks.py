"""What a job asks of the ResourceManager, and how much of it the ResourceManager has acknowledged.

Theory of operation
-------------------
A new task waits for any container.  A suspended attempt waits for a container to resume in: on the node of its
checkpoint if possible, or only on the node of its stopped process.  Each heartbeat carries the whole ask, so a later
ask replaces an earlier one; if everything was acknowledged already, the heartbeat is empty.  Each answer is applied
once, in the order of the ids, and every heartbeat returns the id of the last.  The ResourceManager takes what it gives
off the ask, so that an answer alone leaves nothing to say.  A gang says how many containers are of use only together
(``emulator.core.application_master.job_tasks``).

The resume order policy puts the suspended attempts in order, and the ResourceManager serves them in that order.  Maps
always come first, whatever the policy says, because a reduce that resumes before them might have to wait for their
output.

A job wants no more containers on a node where its tasks keep failing (YARN's blacklisting): after
``node_blacklist_failures`` attempts have failed there.  If that applied to a third of the nodes or more, the job itself
may be at fault, so no node is avoided (in Hadoop
``yarn.app.mapreduce.am.job.node-blacklisting.ignore-threshold-node-percent``).  Nor is any if one of the job's groups
would then have no node that is large enough: its tasks would wait for ever.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from emulator.core.application_master.releaser import Releaser
from emulator.core.application_master.task import AttemptState, TaskAttempt
from emulator.core.decisions import order_suspended
from emulator.core.delivery import LatestValue
from emulator.core.messages import AllocatedContainer, AllocateResponse, ApplicationHeartbeat, Ask, ResumeAsk
from emulator.core.settings import NodeSettings
from emulator.policies.policy import Policy, ResumeOrder
from emulator.policies.resources import fits
from emulator.policies.views import SuspendedView
from emulator.vocabulary import JobFacts, ProcessImage, Resources, TaskId, Work

_IGNORED_FROM_PERCENT = 33


class _SentHeartbeat(NamedTuple):
    """What a heartbeat with something new says."""

    ask: Ask
    progress_ppm: int | None
    marks: int


class Blacklist:
    """Nodes where tasks of a job keep failing."""

    def __init__(self, failures_max: int, nodes: Sequence[NodeSettings], requests: Collection[Resources]) -> None:
        """``nodes``: those of the cluster; ``requests``: what a task of each group asks for."""
        self._failures_max = failures_max
        self._nodes = nodes
        self._requests = requests
        self._failures: Counter[str] = Counter()
        self._lost: set[str] = set()

    def failed(self, node: str) -> None:
        """An attempt has failed there."""
        self._failures[node] += 1

    def node_lost(self, node: str) -> None:
        """The node is lost, so there is one node fewer; if it returns, its failures no longer count."""
        self._lost.add(node)
        self._failures.pop(node, None)

    def node_is_there(self, node: str) -> None:
        """A container has been given there."""
        self._lost.discard(node)

    @property
    def avoided(self) -> tuple[str, ...]:
        """Nodes to be avoided, in the order of their names."""
        if not self._failures:
            return ()
        black = sorted(node for node, failures in self._failures.items() if failures >= self._failures_max)
        if not black:
            return ()
        left = [node for node in self._nodes if node.name not in self._lost]
        if len(black) * 100 >= len(left) * _IGNORED_FROM_PERCENT:
            return ()
        others = {node.resources for node in left if node.name not in black}
        has_place = all(any(fits(request, size) for size in others) for request in self._requests)
        return tuple(black) if has_place else ()


class Asks:
    """The asks of one job; see the module's theory of operation."""

    def __init__(
        self, facts: JobFacts, resume_order: Policy[ResumeOrder], releaser: Releaser, blacklist: Blacklist
    ) -> None:
        """``releaser`` has the view that the job's policies see."""
        self._job = facts.name
        self._blacklist = blacklist
        self._resume_order = resume_order
        self._releaser = releaser
        self._waiting: dict[str, deque[TaskAttempt]] = {group.name: deque() for group in facts.groups}
        """Attempts that can use any container, by their group."""
        self._maps = [self._waiting[group.name] for group in facts.groups if group.work is Work.SHUFFLE]
        self._resumes: dict[TaskId, TaskAttempt] = {}
        """Suspended tasks that ask for a container, in the order of suspension."""
        self._is_changed = True
        """Whether attempts wait, or wait no longer, and no heartbeat has said so yet."""
        self._sent: _SentHeartbeat | None = None
        """Content of the newest heartbeat with something new, without what the answers since then have given; None:
        this ApplicationMaster has sent none."""
        self._latest_sent = LatestValue()
        """Under the ids of heartbeats: whether the ResourceManager knows it."""
        self.answer_id = 0
        """Id of the last answer applied."""
        self._master = ""
        """Container of the ApplicationMaster."""

    # ---- who waits ----

    def add(self, attempt: TaskAttempt) -> None:
        """Let the attempt wait for a container."""
        self._is_changed = True
        if attempt.state is AttemptState.SUSPENDED or attempt.saved is not None:
            self._resumes[attempt.task] = attempt
        else:
            self._waiting[attempt.task.group].append(attempt)

    @property
    def has_new_map(self) -> bool:
        """Whether a new attempt waits that writes output for the shuffle."""
        return any(self._maps)

    @property
    def first_map_to_resume(self) -> TaskAttempt | None:
        """The stopped map that has waited longest to resume."""
        return next((attempt for attempt in self._resumes.values() if attempt.work is Work.SHUFFLE), None)

    @property
    def empty(self) -> bool:
        """Whether no attempt waits."""
        return not (self._resumes or any(self._waiting.values()))

    def to_resume(self, task: TaskId) -> TaskAttempt | None:
        """The attempt at a task that waits to resume."""
        return self._resumes.get(task)

    def withdraw_resume(self, task: TaskId) -> None:
        """No attempt at this task waits to resume any more."""
        if self._resumes.pop(task, None) is not None:
            self._is_changed = True

    def withdraw_stopped(self, attempt: TaskAttempt) -> None:
        """A stopped process no longer waits to resume."""
        if attempt.state is AttemptState.SUSPENDED and self._resumes.get(attempt.task) is attempt:
            self.withdraw_resume(attempt.task)

    def withdraw_new(self, task: TaskId) -> list[TaskAttempt]:
        """Remove waiting new attempts at a task; returns them."""
        waiting = self._waiting[task.group]
        found = [attempt for attempt in waiting if attempt.task == task]
        for attempt in found:
            waiting.remove(attempt)
            self._is_changed = True
        return found

    def take(self, allocation: AllocatedContainer, prefers: Callable[[TaskAttempt], bool] | None) -> TaskAttempt | None:
        """The attempt that gets this container, and waits no longer; None if there is none.

        If several wait for any container, the first that ``prefers`` accepts for the container's node gets it.
        """
        if allocation.task is None:
            return _take_first(self._waiting[allocation.group], prefers)
        attempt = self._resumes.get(allocation.task)
        if attempt is None or (attempt.state is AttemptState.SUSPENDED and attempt.container != allocation.container):
            self._is_changed = True  # the ResourceManager has taken it off the ask
            return None
        return self._resumes.pop(allocation.task)

    def __iter__(self) -> Iterator[TaskAttempt]:
        yield from chain(*self._waiting.values(), self._resumes.values())

    @property
    def has_unacknowledged(self) -> bool:
        """Whether the newest heartbeat with something new has not been acknowledged."""
        return self._latest_sent.is_unacknowledged

    # ---- what the ResourceManager receives, and what it answers ----

    @property
    def must_send(self) -> bool:
        """Whether there is something to say, or something said has not been acknowledged."""
        return self._latest_sent.is_unacknowledged or self.is_new

    @property
    def is_new(self) -> bool:
        """Whether there is something to say that no heartbeat has said yet."""
        return self._is_changed or self._sent is None or self._sent.ask.avoided != self._blacklist.avoided

    def mark_changed(self) -> None:
        """What the job can use has changed, although the same attempts wait."""
        self._is_changed = True

    def heartbeat(
        self, now_ns: int, progress_ppm: int | None, marks: int, at_once: int | None = 0
    ) -> ApplicationHeartbeat:
        """The next heartbeat.  ``at_once``: how many containers are of use only together; None: none is of use now."""
        ask = self._new_heartbeat(now_ns, at_once) if self._sent is None or self.is_new else self._sent.ask
        self._is_changed = False
        says = _SentHeartbeat(ask, progress_ppm, marks)
        if says == self._sent and not self._latest_sent.is_unacknowledged:
            return ApplicationHeartbeat(self._job, now_ns, self.answer_id)
        # Above that of another heartbeat of the same instant, whose answer must not pass for this one's.
        self._sent = says
        self._latest_sent.send(max(now_ns, self._latest_sent.number) + 1, now_ns)
        return ApplicationHeartbeat(
            self._job,
            self._latest_sent.number,
            self.answer_id,
            ask,
            progress_ppm=progress_ppm,
            marks=marks,
            container=self._master,
        )

    def acknowledge(self, heartbeat_id: int) -> bool:
        """The ResourceManager has received that heartbeat; returns whether this was the one waited for."""
        return self._latest_sent.acknowledge(heartbeat_id)

    def register(self, master: str) -> None:
        """Make the next heartbeat the first of the attempt in this container: it says everything, until that is
        acknowledged."""
        self._master, self._sent = master, None

    def apply_response(self, answer: AllocateResponse) -> bool:
        """Take an answer if it is the next one; it is acknowledged from now on.  Returns whether it was taken."""
        if answer.id != self.answer_id + 1:
            return False
        self.answer_id = answer.id
        if self._sent is not None:
            self._sent = self._sent._replace(ask=left_of(self._sent.ask, answer.allocated))
        return True

    def _new_heartbeat(self, now_ns: int, at_once: int | None) -> Ask:
        if at_once is None:
            return Ask(avoided=self._blacklist.avoided)
        resumes = self._in_order_of_resuming(now_ns)
        return Ask(
            new=tuple([(group, len(waiting)) for group, waiting in self._waiting.items() if waiting]),
            resumes=tuple([_resume_ask(attempt) for attempt in resumes]),
            avoided=self._blacklist.avoided,
            at_once=at_once,
        )

    def _in_order_of_resuming(self, now_ns: int) -> list[TaskAttempt]:
        by_view = {self._view_of(attempt): attempt for attempt in self._resumes.values()}
        if not by_view:
            return []
        ordered = order_suspended(self._resume_order, self._releaser.view(now_ns), tuple(by_view))
        return sorted((by_view[view] for view in ordered), key=lambda attempt: attempt.work is not Work.SHUFFLE)

    def _view_of(self, attempt: TaskAttempt) -> SuspendedView:
        stopped = attempt.state is AttemptState.SUSPENDED
        node = attempt.node if stopped else attempt.saved.node if attempt.saved is not None else None
        assert node is not None, f"{attempt.name} waits to go on and was nowhere"
        suspended_ns = attempt.suspended_ns or 0
        return SuspendedView(
            job=self._releaser.job,
            group=attempt.group,
            task=attempt.task.number,
            node=node,
            suspended_ns=suspended_ns,
            since_ns=suspended_ns,
            stopped=stopped,
            # The rate alone decides: the time it spent suspended says nothing about its remaining time.
            remaining_ns=attempt.estimate.unanchored().remaining_ns(attempt.keys_total, 0),
        )


def left_of(ask: Ask, given: Sequence[AllocatedContainer]) -> Ask:
    """What is left of an ask when these containers are given; both sides count with it."""
    if not given:
        return ask
    new = [allocation.group for allocation in given if allocation.task is None]
    resumed = {allocation.task for allocation in given}
    return replace(
        ask,
        new=tuple([(group, left) for group, count in ask.new if (left := count - new.count(group)) > 0]),
        resumes=tuple([resume for resume in ask.resumes if resume.task not in resumed]),
        at_once=ask.at_once if len(given) < ask.at_once else 0,  # fewer are of no use, and are given back
    )


def _resume_ask(attempt: TaskAttempt) -> ResumeAsk:
    suspended_ns = attempt.suspended_ns or 0
    if attempt.state is AttemptState.SUSPENDED:
        assert attempt.node is not None
        return ResumeAsk(attempt.task, attempt.node, suspended_ns, attempt.container)
    assert attempt.saved is not None
    image_bytes = attempt.saved.size_bytes if isinstance(attempt.saved, ProcessImage) else 0
    return ResumeAsk(attempt.task, attempt.saved.node, suspended_ns, image_bytes=image_bytes)


def _take_first(waiting: deque[TaskAttempt], prefers: Callable[[TaskAttempt], bool] | None) -> TaskAttempt | None:
    if not waiting or prefers is None:
        return waiting.popleft() if waiting else None
    chosen = next(filter(prefers, waiting), waiting[0])
    waiting.remove(chosen)
    return chosen
