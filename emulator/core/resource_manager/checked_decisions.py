"""The decisions of a scheduler, checked: each as one that the ResourceManager can carry out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from emulator.core import effects
from emulator.core.effects import Effect, ExplainScheduler
from emulator.core.messages import JobState
from emulator.core.resource_manager.allocation import Cancel, Contract, Decision, Grant, StrictContract
from emulator.core.resource_manager.applications import Application, HeldContainer, Node, NodeState
from emulator.core.resource_manager.offers import TASKS, Components, Offer, Offers
from emulator.policies.mechanism import needs_no_job
from emulator.policies.schedulers.protocol import (
    CancelJob,
    Done,
    ExplainWait,
    GrantContainer,
    ReclaimContainer,
    ReclaimFromJob,
    SchedulerDecision,
)
from emulator.vocabulary import MASTER, MASTER_GROUP, Resources, TaskId, counted


class InvalidDecisionError(Exception):
    """Why a decision cannot be carried out."""


class CheckedDecisions:
    """Checks the decisions of one answer after another against the state of the cluster."""

    def __init__(self, parts: Components) -> None:
        self._settings = parts.settings
        self._state = parts.state
        self._offers = Offers(parts.settings, parts.state, parts.preemptor)
        self._gives: dict[str, list[GrantContainer]] = {}
        """What the answer that is being carried out gives each job."""

    def begin(self, answer: Sequence[SchedulerDecision]) -> None:
        """From now on decisions are those of this answer."""
        self._gives = {}
        for decision in answer:
            if isinstance(decision, GrantContainer):
                self._gives.setdefault(decision.job, []).append(decision)

    def checked(self, decision: SchedulerDecision, now_ns: int) -> Decision | None:
        """The decision, if it can be carried out now; None: it changes nothing.  Raises InvalidDecisionError."""
        match decision:
            case GrantContainer():
                return self._grant(decision, now_ns)
            case ReclaimFromJob(victim=victim, requester=requester):
                self._check_mechanism()
                if self._settings.has_sizes:
                    raise InvalidDecisionError(
                        "containers have several sizes; name the container, by a strict-contract"
                    )
                if not self._job(victim).victims:
                    raise InvalidDecisionError(f"{victim} has no task that may be taken back")
                return Contract(self._job(requester).name, victim)
            case ReclaimContainer(container=container, stays_ns=stays_ns):
                self._check_mechanism()
                if stays_ns and not needs_no_job(self._settings.scheduler.mechanism.among):
                    raise InvalidDecisionError(
                        "a container stays taken only after a kill; set scheduler.mechanism to kill"
                    )
                return StrictContract(self._victim(container), stays_ns)
            case CancelJob(job=job, why=why, fails=fails, loses=loses):
                return Cancel(self._job(job), why, JobState.FAILED if fails else JobState.KILLED, fails or loses)
            case ExplainWait(job=job):
                self._job(job)
                return None
            case Done():
                raise InvalidDecisionError("the answer has ended already")

    def _check_mechanism(self) -> None:
        if not self._settings.scheduler.preempts:
            raise InvalidDecisionError("nothing is taken back under scheduler.mechanism: wait; name another one")

    def _job(self, name: str) -> Application:
        application = self._state.applications.get(name)
        if application is None:
            raise InvalidDecisionError(f"there is no job {name!r}, or it has ended")
        return application

    def _victim(self, name: str) -> HeldContainer:
        held = self._state.containers.get(name)
        if held is None or held.job not in self._state.applications:
            raise InvalidDecisionError(f"there is no container {name!r}, or it has ended")
        if not self._settings.scheduler.may_take(held.group):
            raise InvalidDecisionError(
                f"{name} holds a task of group {held.group.name}, which is no victim (scheduler.victims)"
            )
        if held.is_reclaimed or not self._state.on_slot(held):
            raise InvalidDecisionError(f"{name} has been taken back already")
        return held

    def _grant(self, give: GrantContainer, now_ns: int) -> Grant:
        application = self._job(give.job)
        if self._offers.gangs.waits(application):
            self._check_gang(application, now_ns)
        grant = self._single(application, give, now_ns)
        self._check_fits([grant])
        return grant._replace(beside=give.beside)

    def _single(self, application: Application, give: GrantContainer, now_ns: int) -> Grant:
        """The grant, whether or not there is room for it."""
        node = self._state.nodes.get(give.node)
        if node is None:
            raise InvalidDecisionError(f"there is no node {give.node!r}")
        if node.state is not NodeState.ALIVE:
            raise InvalidDecisionError(f"{node.name} is not there")
        grant = self._request(application, node, give, now_ns)
        if grant is None:
            what = "no container" if give.group is None else f"no container for group {give.group}"
            raise InvalidDecisionError(f"{application.name} waits for {what} that it can use on {node.name}")
        return grant

    def _check_gang(self, application: Application, now_ns: int) -> None:
        """All that a gang is given must be possible, else none of it is given."""
        requests, gives = application.requests, self._gives[application.name]
        if len(gives) < requests.at_once:
            raise InvalidDecisionError(
                f"{application.name} is a gang and needs {requests.at_once} containers at once, in one answer"
            )
        if any(give.group is None for give in gives):
            raise InvalidDecisionError(f"{application.name} is a gang; name the group of each of its containers")
        grants = [self._single(application, give, now_ns) for give in gives]
        tasks = [(grant.group.name, grant.task) for grant in grants]
        for (group, task), count in Counter(tasks).items():
            if count > (1 if task is not None else len(requests.since[group])):
                raise InvalidDecisionError(f"{application.name} waits for fewer containers for group {group}")
        self._check_fits(grants)

    def _check_fits(self, grants: Sequence[Grant]) -> None:
        """There is room for all of these together."""
        state, at_node = self._state, dict[str, list[Resources]]()
        if state.used + len(grants) > state.limit:
            raise InvalidDecisionError(f"jobs may hold {counted(state.limit, 'container')} now, and hold {state.used}")
        for grant in grants:
            resumes = grant.application.stopped_container(grant.task) in state.containers
            needs = grant.node.needs(grant.group.work, grant.application.request_for(grant.group), resumes)
            at_node.setdefault(grant.node.name, []).append(needs)
        for name, needs in at_node.items():
            node = state.nodes[name]
            if short := node.shortfall_of(needs):
                raise InvalidDecisionError(f"{name} lacks {short}" if node.is_free else f"{name} has no free container")

    def explained(self, decision: SchedulerDecision) -> Iterator[Effect]:
        """Why, if it says so; it was carried out just now."""
        if isinstance(decision, ExplainWait):
            yield effects.ExplainWait(decision.job, decision.why)
        if not isinstance(decision, GrantContainer | ReclaimContainer) or not decision.why:
            return
        if isinstance(decision, ReclaimContainer):
            held, requester = self._state.containers[decision.container], decision.requester
        else:
            containers = self._state.applications[decision.job].containers.values()
            held, requester = max(containers, key=lambda each: each.slot_ns * (each.group is not MASTER_GROUP)), None
        rule, is_taken = self._settings.scheduler.allocation.name, isinstance(decision, ReclaimContainer)
        yield ExplainScheduler(held.job, held.group.name, held.id, held.node, rule, is_taken, requester, decision.why)

    def concerns(self, decision: SchedulerDecision) -> set[tuple[str, str]]:
        """What the decision is about; for a gang, all that it is given, as all of it is possible or none."""
        application = self._state.applications.get(decision.job) if isinstance(decision, GrantContainer) else None
        if application is None or not self._offers.gangs.waits(application):
            return names_of(decision)
        return {pair for give in self._gives[application.name] for pair in names_of(give)}

    def _request(self, application: Application, node: Node, give: GrantContainer, now_ns: int) -> Grant | None:
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


def names_of(decision: SchedulerDecision) -> set[tuple[str, str]]:
    """The jobs, nodes and containers that a decision is about."""
    match decision:
        case GrantContainer(job=job, node=node):
            return {("job", job), ("node", node)}
        case ReclaimFromJob(victim=victim, requester=requester):
            return {("job", victim), ("job", requester)}
        case ReclaimContainer(container=container):
            return {("container", container)}
        case CancelJob(job=job) | ExplainWait(job=job):
            return {("job", job)}
        case Done():
            return set()
