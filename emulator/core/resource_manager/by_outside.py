"""Allocation from outside: another process decides, and this asks it (``docs/outside.md``).

Theory of operation
-------------------
When something has changed, the process is told what, and asked, by an effect.  Its answer comes in as a message, so the
journal has its decisions and a replay needs no process.  One question is open at a time; what happens meanwhile is told
with the next.  It may name a time when it wants to be asked again.

What it decides is checked against the state at its answer.  A decision that could be carried out as far as the process
knew, but that something it was not told of has overtaken, is void: it changes nothing, and the process is told.  Any
other decision that cannot be carried out ends the run, with its line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from emulator.core.completions import DecidedOutside
from emulator.core.decisions import PolicyError
from emulator.core.effects import AskOutside, Effect
from emulator.core.machine import Timers
from emulator.core.mechanisms import needs_no_job
from emulator.core.messages import TaskId, TimerFired
from emulator.core.outside import (
    VERSION,
    AskBack,
    Begin,
    CancelJob,
    Decide,
    Done,
    Give,
    News,
    NotSaid,
    QueueNews,
    Said,
    TakeBack,
    Void,
    said,
    shown,
)
from emulator.core.resource_manager.allocation import (
    Asked,
    Cancel,
    Contract,
    Decision,
    Grant,
    Occasion,
    StrictContract,
)
from emulator.core.resource_manager.applications import Application, HeldContainer, Node, NodeState
from emulator.core.resource_manager.by_contract import Parts
from emulator.core.resource_manager.offers import TASKS, Offer, Offers
from emulator.core.resource_manager.outside_news import OutsideNews
from emulator.policies.resources import named
from emulator.vocabulary import MASTER, MASTER_GROUP, Resources

_AGAIN = "ask outside"


class _CannotBe(Exception):
    """Why a decision cannot be carried out."""


class ByOutside:
    """See the module's theory of operation; an ``Allocation``."""

    def __init__(self, parts: Parts) -> None:
        self.changes = 0
        self._settings = parts.settings
        self._state = parts.state
        self._offers = Offers(parts.settings, parts.state)
        self._timers = Timers()
        self._news = OutsideNews(parts.state, parts.settings.scheduler.may_take)
        self._untold: list[News] = []
        """What has happened while a question was open."""
        self._void: list[Void] = []
        self._question = 0
        self._is_open = False
        """Whether a question is open."""
        self._wants_a_question = True
        """Whether it must be asked even if there is no news."""
        self._begins = True
        """Whether the next question is the first to a process."""
        self._answer: DecidedOutside | None = None
        self._gives: dict[str, list[Give]] = {}
        """What the answer that is being carried out gives each job."""
        self._effects: list[Effect] = []

    # ---- what the ResourceManager hears for it ----

    def begin_anew(self) -> None:
        """The ResourceManager was away, and with it the process: a new one is told everything."""
        self._news, self._begins, self._is_open = self._news.forgotten(), True, False
        self._void.clear()
        self._untold.clear()

    def take(self, answer: DecidedOutside) -> None:
        """The process has answered; its decisions are made when this is asked next."""
        if self._is_open and answer.question == self._question:
            self._answer = answer

    def fired(self, timer: TimerFired) -> None:
        """The time has come at which it wanted to be asked again."""
        self._wants_a_question |= self._timers.take(timer)

    # ---- an allocation ----

    def asked_ns(self, occasion: Occasion, now_ns: int) -> int | None:
        """See ``Allocation``: whenever anything has changed."""
        return None if occasion in (Occasion.HEARTBEAT, Occasion.TIME) else now_ns

    def decide(self, asked: Asked) -> Iterator[Decision]:
        """See ``Allocation``."""
        if self.asked_ns(asked.occasion, asked.now_ns) is None:
            return
        answer, self._answer = self._answer, None
        if answer is not None:
            yield from self._decisions(answer, asked.now_ns)
        self._ask(asked.now_ns)

    def explain(self) -> list[Effect]:
        """See ``Allocation``: its questions."""
        effects, self._effects = self._effects, []
        return effects

    def _ask(self, now_ns: int) -> None:
        if self._is_open:
            return
        news: list[News] = [self._begin()] if self._begins else []
        news += [*self._void, *self._untold, *self._news.take()]
        if not news and not self._wants_a_question:
            return
        self._question += 1
        self._effects.append(AskOutside(self._question, (*news, Decide(self._question, now_ns))))
        self._is_open, self._wants_a_question, self._begins = True, False, False
        self._void.clear()
        self._untold.clear()
        self.changes += 1

    def _begin(self) -> Begin:
        scheduler = self._settings.scheduler
        queues = tuple(QueueNews(queue.name, queue.capacity, queue.maximum) for queue in scheduler.queues)
        master = named(self._settings.master_request, self._settings.nodes[0].resource_names)
        return Begin(VERSION, self._settings.seed, queues, master)

    # ---- its decisions ----

    def _decisions(self, answer: DecidedOutside, now_ns: int) -> Iterator[Decision]:
        self._untold += self._news.take()
        overtaking = {pair for news in self._untold for pair in _named_by(news)}
        decisions = [*_understood(answer)]
        self._gives = {}
        for _, _, decision in decisions:
            if isinstance(decision, Give):
                self._gives.setdefault(decision.job, []).append(decision)
        for number, line, decision in decisions:
            try:
                yield self._checked(decision, now_ns)
            except _CannotBe as error:
                if not overtaking & self._concerns(decision):
                    raise _refusal(number, line, error) from None
                self._void.append(Void(number, str(error)))
        self._is_open = False
        self.changes += 1
        if answer.again_ns is None:
            self._timers.forget(_AGAIN)
        else:
            self._effects.append(self._timers.set(_AGAIN, answer.again_ns))

    def _checked(self, decision: Said, now_ns: int) -> Decision:
        """The decision, if it can be carried out.  Raises _CannotBe."""
        match decision:
            case Give():
                return self._grant(decision, now_ns)
            case AskBack(victim=victim, requester=requester):
                self._check_mechanism()
                if self._settings.has_sizes:
                    raise _CannotBe("containers have several sizes; name the container, by a strict-contract")
                if not self._job(victim).running_victims:
                    raise _CannotBe(f"{victim} has no task that may be taken back")
                return Contract(self._job(requester).name, victim)
            case TakeBack(container=container, stays_ns=stays_ns):
                self._check_mechanism()
                if stays_ns and not needs_no_job(self._settings.scheduler.mechanism.among):
                    raise _CannotBe("a container stays taken only after a kill; set scheduler.mechanism to kill")
                return StrictContract(self._victim(container), stays_ns)
            case CancelJob(job=job, why=why):
                return Cancel(self._job(job), why)
            case Done():
                raise _CannotBe("the answer has ended already")

    def _check_mechanism(self) -> None:
        if not self._settings.scheduler.preempts:
            raise _CannotBe("nothing is taken back under scheduler.mechanism: wait; name another one")

    def _job(self, name: str) -> Application:
        application = self._state.applications.get(name)
        if application is None:
            raise _CannotBe(f"there is no job {name!r}, or it has ended")
        return application

    def _victim(self, name: str) -> HeldContainer:
        held = self._state.containers.get(name)
        if held is None or held.job not in self._state.applications:
            raise _CannotBe(f"there is no container {name!r}, or it has ended")
        if not self._settings.scheduler.may_take(held.group):
            raise _CannotBe(f"{name} holds a task of group {held.group.name}, which is no victim (scheduler.victims)")
        if held.taken or not self._state.on_slot(held):
            raise _CannotBe(f"{name} has been taken back already")
        return held

    def _grant(self, give: Give, now_ns: int) -> Grant:
        application = self._job(give.job)
        if self._offers.gangs.waits(application):
            self._check_gang(application, now_ns)
        grant = self._single(application, give, now_ns)
        self._check_room([grant])
        return grant

    def _single(self, application: Application, give: Give, now_ns: int) -> Grant:
        """The grant, whether or not there is room for it."""
        node = self._state.nodes.get(give.node)
        if node is None:
            raise _CannotBe(f"there is no node {give.node!r}")
        if node.state is not NodeState.ALIVE:
            raise _CannotBe(f"{node.name} is not there")
        if not node.free:
            raise _CannotBe(f"{node.name} has no free container")
        grant = self._request(application, node, give, now_ns)
        if grant is None:
            what = "no container" if give.group is None else f"no container for group {give.group}"
            raise _CannotBe(f"{application.name} waits for {what} that it can use on {node.name}")
        return grant

    def _check_gang(self, application: Application, now_ns: int) -> None:
        """All that a gang is given must be possible, else none of it is given."""
        requests, gives = application.requests, self._gives[application.name]
        if len(gives) < requests.at_once:
            raise _CannotBe(
                f"{application.name} is a gang and needs {requests.at_once} containers at once, in one answer"
            )
        if any(give.group is None for give in gives):
            raise _CannotBe(f"{application.name} is a gang; name the group of each of its containers")
        grants = [self._single(application, give, now_ns) for give in gives]
        tasks = [(grant.group.name, grant.task) for grant in grants]
        for (group, task), count in Counter(tasks).items():
            if count > (1 if task is not None else len(requests.since[group])):
                raise _CannotBe(f"{application.name} waits for fewer containers for group {group}")
        self._check_room(grants)

    def _check_room(self, grants: Sequence[Grant]) -> None:
        """There is room for all of these together."""
        state, at_node = self._state, dict[str, list[tuple[Resources, bool]]]()
        if state.used + len(grants) > state.limit:
            raise _CannotBe(f"jobs may hold {state.limit} containers now, and hold {state.used}")
        for grant in grants:
            resumes = grant.application.stopped_container(grant.task) in state.containers
            need = grant.application.request_for(grant.group), resumes
            at_node.setdefault(grant.node.name, []).append(need)
        for name, needs in at_node.items():
            short = state.nodes[name].short_of(needs)
            if short:
                raise _CannotBe(f"{name} lacks {short}")

    def _concerns(self, decision: Said) -> set[tuple[str, str]]:
        """What the decision is about; for a gang, all that it is given, as all of it is possible or none."""
        application = self._state.applications.get(decision.job) if isinstance(decision, Give) else None
        if application is None or not self._offers.gangs.waits(application):
            return _names_of(decision)
        return {pair for give in self._gives[application.name] for pair in _names_of(give)}

    def _request(self, application: Application, node: Node, give: Give, now_ns: int) -> Grant | None:
        """The request that is served; None: there is none."""
        requests, name = application.requests, give.group
        if name is None:
            offer = Offer(node, self._state.view(now_ns), given=0)
            return self._offers.master_of(application, offer) or self._offers.task_of(application, offer, TASKS)
        if name == MASTER:
            return Grant(application, MASTER_GROUP, node) if requests.application_master is not None else None
        if name not in requests.since:
            return None
        group = application.facts.group(name)
        if give.task is None:
            is_wanted = requests.since[name] and node.name not in requests.avoided
            return Grant(application, group, node) if is_wanted else None
        waiting = requests.resumes.get(TaskId(name, give.task))
        stopped = None if waiting is None else waiting[0].container
        if waiting is None or (stopped is not None and not self._state.is_stopped_at(stopped, node)):
            return None
        return Grant(application, group, node, waiting[0].task)


def _understood(answer: DecidedOutside) -> Iterator[tuple[int, str, Said]]:
    """Its lines, with their numbers.  Raises PolicyError."""
    for number, line in enumerate(answer.lines, start=answer.first_line):
        try:
            yield number, line, said(line)
        except NotSaid as error:
            raise _refusal(number, line, error) from None


def _refusal(number: int, line: str, why: Exception) -> PolicyError:
    return PolicyError(f"allocation external: {shown(number, line)}: {why}")


def _names_of(decision: Said) -> set[tuple[str, str]]:
    """The jobs, nodes and containers that a decision is about."""
    match decision:
        case Give(job=job, node=node):
            return {("job", job), ("node", node)}
        case AskBack(victim=victim, requester=requester):
            return {("job", victim), ("job", requester)}
        case TakeBack(container=container):
            return {("container", container)}
        case CancelJob(job=job):
            return {("job", job)}
        case Done():
            return set()


def _named_by(news: News) -> Iterator[tuple[str, str]]:
    for what in ("job", "node", "container"):
        name = getattr(news, what, None)
        if name is not None:
            yield what, name
