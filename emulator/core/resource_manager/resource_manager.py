"""The ResourceManager: queues, allocation, and the Preemptor.

Theory of operation
-------------------
Jobs are submitted to queues.  A job first waits for a container for its ApplicationMaster, which the ResourceManager
itself launches.  From then on the ApplicationMaster's heartbeats say what the job wants.  An allocation decides who
gets a container and from whom one is reclaimed (``emulator.core.resource_manager.allocation``).  The ResourceManager
asks it on each of its occasions, and carries out what it decides.  News for an ApplicationMaster (containers given,
ended or to be given back) waits for its next heartbeat, and is repeated until acknowledged.

Under ``protocol.news: at-once`` it also acts unasked: it offers every free container whenever something has changed,
orders kills, and sends an ApplicationMaster its news in a response to no heartbeat.  The numbers of these news are
those of answers (``emulator.core.resource_manager.applications``): the next are sent when the last have been heard,
which the ApplicationMaster says at once, and periodic heartbeats repeat what was lost.
"""

from __future__ import annotations

from emulator.core.completions import ExternalDecisions
from emulator.core.delivery import CommandLedger
from emulator.core.effects import TRANSACTIONAL, Effect, Send
from emulator.core.machine import Phase, StateMachine
from emulator.core.messages import (
    CLIENT,
    RESOURCE_MANAGER,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    Ask,
    ContainerReport,
    ContainerState,
    JobFinished,
    JobState,
    KillContainer,
    Message,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    NodeLost,
    OrderTask,
    Outcome,
    Start,
    StartContainer,
    SubmitJob,
    Tick,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.node_manager.status_updater import RESTARTED
from emulator.core.resource_manager.admission import Admission
from emulator.core.resource_manager.allocation import (
    JOB_ENDED,
    Allocation,
    Cancel,
    Grant,
    SchedulerEvent,
    SchedulerEventType,
)
from emulator.core.resource_manager.allocator import Allocator
from emulator.core.resource_manager.applications import Application, HeldContainer, MasterUpdates, Node, NodeState
from emulator.core.resource_manager.by_queues import ByQueues
from emulator.core.resource_manager.by_scheduler import ByScheduler
from emulator.core.resource_manager.by_shares import ByShares
from emulator.core.resource_manager.cluster_state import ClusterState
from emulator.core.resource_manager.contracts import Contracts, Preemptor
from emulator.core.resource_manager.offers import Components
from emulator.core.resource_manager.recovery import MasterRecovery
from emulator.core.resource_manager.transactional import TransactionalLoad
from emulator.core.resource_manager.triggers import Triggers
from emulator.core.settings import Settings
from emulator.policies.policy import (
    SchedulerAllocation,
    ShareAllocation,
)
from emulator.policies.resources import minus
from emulator.vocabulary import MASTER_GROUP, Resources, counted


def strategy(parts: Components) -> Allocation:
    """The strategy for the allocation of the settings."""
    match parts.settings.scheduler.allocation:
        case ShareAllocation():
            return ByShares(parts)
        case SchedulerAllocation():
            return ByScheduler(parts)
        case _:
            return ByQueues(parts)


_FREES = frozenset({NodeHeartbeat, NodeLost})
"""Messages after which containers may be free, or other nodes there."""


class ResourceManager(StateMachine):
    """The cluster's one ResourceManager; see the module's theory of operation."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(RESOURCE_MANAGER)
        self.state = ClusterState(settings)
        self.preemptor = Preemptor(settings)
        self.heartbeat = Phase(settings.seed, "rm", "preemptor", settings.protocol.preemptor_period_ns)
        start_ns = settings.overheads.schedule_ns + settings.overheads.application_start_ns
        self._orders = CommandLedger(settings.protocol.retry_ns, start_ns)
        self._allocator = Allocator(settings, self.state, self.preemptor, self._orders)
        self._contracts = Contracts(settings, self.state, self.preemptor, self._orders)
        self._transactional = TransactionalLoad(settings, self.state, self.preemptor, self._orders)
        self._allocation = strategy(Components(settings, self.state, self.preemptor, self._transactional))
        self._updates_immediately = settings.protocol.has_immediate_updates
        self._unmanaged_masters = any(node.unmanaged_masters for node in settings.nodes)
        self._master_request = settings.master_request
        allocation = settings.scheduler.allocation
        self._admission = Admission(settings.scheduler.queues, self._unmanaged_masters, allocation.admits_masters)
        self._triggers = Triggers(settings, self.state)
        self._recovery = MasterRecovery(settings, self.state, self._orders)
        self._submitted = 0
        self._ended: dict[str, JobFinished] = {}

    # ---- messages ----

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Take one message; see ``emulator.core.machine.Machine``."""
        revision, attention = self.revision, self.state.awaited
        attention.begin()
        effects = super().handle(message, now_ns)
        if self.revision != revision:
            self.state.changes += 1
            occasion = SchedulerEventType.FREED if type(message) in _FREES else SchedulerEventType.ARRIVAL
            if self._allocation.due_ns(occasion, now_ns) == now_ns:
                effects += self._ask(SchedulerEvent(occasion, now_ns)) or ()
            attention.changed()
            if self._updates_immediately:
                effects += self._notify(now_ns)
        return effects

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        """When something may have to be reclaimed; see ``emulator.core.machine.StateMachine``."""
        first_ns = self._allocation.due_ns(SchedulerEventType.TIME, now_ns)
        if first_ns == now_ns:
            return now_ns
        for part in (self._contracts, self._orders, self._recovery, self._transactional):
            due_ns = part.due_ns
            if due_ns is not None and (first_ns is None or due_ns < first_ns):
                first_ns = due_ns
        return first_ns

    def awaits(self, address: str, received_id: int) -> bool:
        """Whether the next heartbeat from ``address``, which has received the news ``heard_id``, may matter."""
        role, name = address[:3], address[3:]
        if role == "nm:":
            node = self.state.nodes[name]
            return node.state is not NodeState.ALIVE or bool(node.to_kill) or address in self.state.awaited.awaited
        application = self.state.applications.get(name)
        if application is None:
            return name in self._ended
        unheard = self._updates_immediately and application.news.has_unacknowledged
        return unheard or application.news.is_awaited(received_id) or application.master in self._orders

    def free_node_due_ns(self, now_ns: int) -> int | None:
        """From when on a heartbeat of any node with a free container may get one; None: none is wanted, or none would
        be given unless something changes."""
        return self._allocation.due_ns(SchedulerEventType.HEARTBEAT, now_ns)

    def _ask(self, asked: SchedulerEvent) -> list[Effect] | None:
        """Ask the allocation and carry out what it decides; None: it has decided nothing and remembers nothing new."""
        changes, decided = self._allocation.changes, False
        effects: list[Effect] = []
        for decision in self._allocation.decide(asked):
            decided = True
            if isinstance(decision, Grant):
                effects += self._allocator.allocate(decision, asked.now_ns)
            elif isinstance(decision, Cancel):
                application, kill_reason = decision.application, decision.why_killed
                effects += self._end(application, decision.state, asked.now_ns, decision.why, kill_reason=kill_reason)
                effects += self._admit(asked.now_ns)
            else:
                self._contracts.make(decision, asked.now_ns)
        if not decided and self._allocation.changes == changes:
            return None
        return effects + self._allocation.explain()

    def _notify(self, now_ns: int) -> list[Effect]:
        """What is offered, ordered and sent after a message that has changed something.  Raises PolicyError."""
        effects, attention = self._offer_free_nodes(now_ns), self.state.awaited
        for address in dict.fromkeys(attention.newly_awaited):
            role, name = address[:3], address[3:]
            if role == "nm:":
                effects += self._contracts.kills_on(self.state.nodes[name], now_ns) or ()
                continue
            application = self.state.applications.get(name)
            if application is not None and application.news.can_be_sent:
                answer = self._contracts.answer(application, application.news.received_id)
                effects.append(Send(address, ApplicationHeartbeatResponse(application.last_heartbeat_id, answer)))
        return effects

    def _offer_free_nodes(self, now_ns: int) -> list[Effect]:
        """Offer the containers of every free node, in the order in which they came free."""
        effects: list[Effect] = []
        attention, has_given = self.state.awaited, False
        if not attention.awaited and self._allocation.due_ns(SchedulerEventType.HEARTBEAT, now_ns) != now_ns:
            return effects
        for name in list(self.state.free_nodes):
            node = self.state.nodes[name]
            is_due = self._allocation.due_ns(SchedulerEventType.HEARTBEAT, now_ns) == now_ns
            if (not is_due or node.address in attention.too_small) and node.address not in attention.awaited:
                continue
            attention.arrived(node.address)
            given = self._ask(SchedulerEvent(SchedulerEventType.HEARTBEAT, now_ns, node))
            has_given |= given is not None
            effects += given or ()
        if has_given:
            attention.changed_after_refusals()
        return effects

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        """Also called after a restore: the client may have missed which jobs have ended, or passed a mark."""
        for node in self.state.nodes:
            self.state.awaited.expect(node_address(node))
        self._contracts.restart_timeouts(now_ns)
        self._recovery.restart_timeouts(now_ns)
        begun = self._ask(SchedulerEvent(SchedulerEventType.START, now_ns)) or ()
        return [*begun, *(Send(CLIENT, finished) for finished in self._ended.values()), *self._triggers.again()]

    def _tick(self, message: Tick, now_ns: int) -> list[Effect]:
        stepped = self._transactional.step(now_ns)
        if stepped:
            self._ask(SchedulerEvent(SchedulerEventType.CAPACITY, now_ns))
        admitted = self._admit(now_ns) if stepped else []
        enforced = self._contracts.enforce(now_ns)
        taken = self._ask(SchedulerEvent(SchedulerEventType.TIME, now_ns, planned_ns=message.due_ns))
        again, room = self._orders.repeat(now_ns), self._recovery.kill_newest_reduce(now_ns)
        if enforced is None and taken is None and room is None and not again and not stepped:
            self.skip_journal()
        return [*admitted, *(enforced or ()), *(taken or ()), *(room or ()), *again]

    def _submit(self, message: SubmitJob, now_ns: int) -> list[Effect]:
        if message.job in self.state.applications or message.job in self._ended:
            return []
        news = MasterUpdates(job_address(message.job), self.state.awaited.newly_awaited)
        application = Application(message.facts, self._submitted, now_ns, message.is_last, news)
        application.master_request = message.facts.master_request or self._master_request
        application.share_of_master = self.state.queue_share(application.master_request)
        self._submitted += 1
        self.state.applications[message.job] = application
        self.state.queues.add(application)
        self._admission.submit(application)
        self._triggers.submitted(application.name)
        return self._admit(now_ns)

    def _for_allocation(self, message: TimerFired | ExternalDecisions, now_ns: int) -> list[Effect]:
        return self._ask(SchedulerEvent(SchedulerEventType.MESSAGE, now_ns, message=message)) or []

    def _order_task(self, message: OrderTask, now_ns: int) -> list[Effect]:
        self._triggers.order(message.job, message.order)
        return []

    def _node_heartbeat(self, message: NodeHeartbeat, now_ns: int) -> list[Effect]:
        node = self.state.nodes[message.node]
        address = node.address
        if message.registration < node.registration:  # late, from before the node was lost
            self.skip_journal()
            return []
        is_new = node.state is NodeState.UNKNOWN or message.registration > node.registration
        if node.state is NodeState.LOST and not is_new:
            return [Send(address, NodeHeartbeatResponse(message.id, shut_down=True))]
        self.state.awaited.arrived(address)
        effects = self._register(node, message.registration, now_ns) if is_new else []
        for report in message.freed:
            effects += self._freed(report, now_ns)
        taken = self._contracts.kills_on(node, now_ns)
        given = self._ask(SchedulerEvent(SchedulerEventType.HEARTBEAT, now_ns, node))
        if message.is_empty and not is_new and taken is None and given is None:
            self.skip_journal()
        effects += [*(taken or ()), *(given or ())]
        ended = () if message.is_empty else node.ended_jobs_for(message.heard_id, message.id)
        return [*effects, Send(address, NodeHeartbeatResponse(message.id, ended))]

    def _application_heartbeat(self, message: ApplicationHeartbeat, now_ns: int) -> list[Effect]:
        address = job_address(message.job)
        application = self.state.applications.get(message.job)
        if application is None:  # it may not have received that its job has ended
            self.skip_journal()
            ended = message.job in self._ended
            return [Send(address, ApplicationHeartbeatResponse(message.id, ended=ended))]
        is_newest = message.container == application.master  # an earlier attempt may still be there
        started = is_newest and self._orders.withdraw(application.master, StartContainer)
        if message.final_state is not None and message.finish_ns is not None:
            effects = self._end(application, message.final_state, now_ns, message.reason, message.finish_ns)
            return [*effects, *self._admit(now_ns), Send(address, ApplicationHeartbeatResponse(message.id, ended=True))]
        effects: list[Effect] = []
        if message.ask is not None and message.id > application.last_heartbeat_id:
            self._apply_ask(application, message, message.ask, now_ns)
            effects = self._triggers.passed(application.name, message.marks)
            if application.requests.at_once and self.state.containers_left < self.state.containers_total:
                # A gang whose tasks are lost with their node wants room again: is there as much at all?
                effects += self._admit(now_ns)
                if message.job in self._ended:
                    return [*effects, Send(address, ApplicationHeartbeatResponse(message.id, ended=True))]
        # Drop requests it was not told of whose need was met elsewhere.
        surplus = max(0, application.news.reclaim - self.preemptor.requested_from(application.name))
        application.news.reclaim -= surplus
        heard = self._updates_immediately and application.news.acknowledge(message.answer_id)
        answer = self._contracts.answer(application, message.answer_id)
        if answer is None and message.is_empty and not (started or surplus or heard):
            self.skip_journal()
        return [*effects, Send(address, ApplicationHeartbeatResponse(message.id, answer))]

    def _apply_ask(self, application: Application, message: ApplicationHeartbeat, ask: Ask, now_ns: int) -> None:
        """Replace what the job wants by ``ask``."""
        application.last_heartbeat_id = message.id
        application.progress_ppm = message.progress_ppm
        if application.last_heartbeat_ns is None:
            application.last_heartbeat_ns = now_ns
        application.requests.replace(message, application.news.undelivered(message.answer_id), now_ns)
        self.state.queues.update(application)
        for resume in ask.resumes:
            if resume.node in self.state.free_nodes:
                self.state.awaited.expect(node_address(resume.node))
        self.preemptor.withdraw_surplus(application.name, application.requests.for_any_node)

    def _register(self, node: Node, registration: int, now_ns: int) -> list[Effect]:
        """A node is there: for the first time, or again, with nothing of what it had."""
        effects: list[Effect] = []
        was_away = node.state is NodeState.ALIVE  # for so short a time that nobody has missed it
        # ApplicationMasters that take no container are given to nodes that have not been heard of yet.
        given_before = registration > node.registration and any(
            held.node == node.name for held in self.state.containers.values()
        )
        if was_away or given_before:
            effects += self._lose(node, RESTARTED, now_ns)
        self.state.register(node, now_ns, registration)
        if not registration:
            return effects
        return [*effects, *self._launch_unmanaged(now_ns), *self._admit(now_ns)]

    def _node_lost(self, message: NodeLost, now_ns: int) -> list[Effect]:
        node = self.state.nodes[message.node]
        if node.state is NodeState.LOST:
            return []
        return [*self._lose(node, message.reason, now_ns), *self._admit(now_ns, message.reason)]

    def _lose(self, node: Node, reason: str, now_ns: int) -> list[Effect]:
        self.state.lose(node)
        self.preemptor.forget_node(node.name)
        self.state.awaited.newly_awaited.append(node.address)
        for application in self.state.applications.values():
            application.news.node_lost(node.name)
        effects: list[Effect] = []
        for held in [held for held in self.state.containers.values() if held.node == node.name]:
            effects += self._freed(held.ended(Outcome.LOST, reason or f"{node.name} is lost"), now_ns)
        return effects

    # ---- containers ----

    def _freed(self, report: ContainerReport, now_ns: int) -> list[Effect]:
        """A container has ended, or its process was stopped."""
        held = self.state.containers.get(report.container)
        if held is None or report.revision <= held.revision:
            return []
        held.revision = report.revision
        self.state.reported(held, report, now_ns)
        application = self.state.applications.get(held.job)
        node = self.state.nodes[held.node]
        is_over = report.state is ContainerState.DONE
        in_container, charged = node.ledger.in_container(held.id), node.ledger.charged
        if is_over:
            node.ledger.end(held.id)
        elif in_container:
            node.ledger.stop(held.id, report.memory_bytes)
        self._capacity_freed(held, in_container, minus(charged, node.ledger.charged), now_ns)
        if in_container:
            self._slot_freed(held, application, report, now_ns)
        if not is_over:
            return []  # stopped, or being killed while stopped
        del self.state.containers[held.id]
        if application is not None:
            del application.containers[held.id]
        self._orders.ended(held.id)
        if application is None:
            return []
        if held.group is MASTER_GROUP:
            return self._master_ended(application, report, now_ns)
        if not report.job_knows:
            application.news.ended(report)
        return []

    def _capacity_freed(self, held: HeldContainer, was_in: bool, capacity: Resources, now_ns: int) -> None:
        """A process has left its container (if it ``was_in`` one), or given back ``room``: a stopped one may still hold
        some.  Where containers have several sizes, the room has no former owner: many containers make it free."""
        if not was_in and not any(capacity):
            return
        owner, gangs = held.job, self.state.queues.gangs
        if gangs and self.state.used <= self.state.limit and self.preemptor.kept(owner, gangs):
            owner = None
        node = self.state.nodes[held.node]
        if node.freed(now_ns, None if node.settings.resources else owner, capacity):
            self.state.has_free(node)
            self._contracts.freed(node, held, capacity)

    def _slot_freed(
        self, held: HeldContainer, application: Application | None, report: ContainerReport, now_ns: int
    ) -> None:
        taken, held.is_reclaimed = held.is_reclaimed, False
        self.state.used -= 1
        self._transactional.freed(held.job, now_ns)
        if application is not None:
            application.slots -= 1
            application.held[held.group.name] -= 1
            self.state.work.left(application, held, report, now_ns)
            application.victims.pop(held.id, None)
            application.reclaimed -= taken
            self.state.queues.update(application)

    # ---- ApplicationMasters ----

    def _master_ended(self, application: Application, report: ContainerReport, now_ns: int) -> list[Effect]:
        """The ApplicationMaster ended before its job: another one follows, unless too many have failed."""
        reason = self._recovery.lost(application, report, now_ns)
        if reason is not None:
            return [*self._end(application, JobState.FAILED, now_ns, reason), *self._admit(now_ns)]
        if self._unmanaged_masters and self.state.containers_left:
            return self._allocator.launch_unmanaged(application, now_ns)
        application.requests.application_master = now_ns
        self.state.queues.update(application)
        return []

    def _launch_unmanaged(self, now_ns: int) -> list[Effect]:
        """ApplicationMasters that take no container, and had no node to be started on."""
        effects: list[Effect] = []
        for application in self.state.applications.values():
            if self._unmanaged_masters and application.requests.application_master is not None:
                application.requests.application_master = None
                self.state.queues.update(application)
                effects += self._allocator.launch_unmanaged(application, now_ns)
        return effects

    def _admit(self, now_ns: int, why: str = "") -> list[Effect]:
        """Let jobs request their ApplicationMasters; end jobs for which lost nodes (``why``) have left no room."""
        effects: list[Effect] = []
        while (given_up := self._next_to_fail()) is not None:
            left = self.state.containers_left
            what = f"{given_up.facts.gang} tasks at once" if given_up.facts.gang else "a task"
            are_left = f"{counted(left, 'container')} {'is' if left == 1 else 'are'} left"
            too_few = f"{are_left}, too few for {what} beside every ApplicationMaster"
            reason = too_few if left else f"no node is left: {why}"
            effects += self._end(given_up, JobState.FAILED, now_ns, reason)
        while True:
            admitted = self._admission.admit_next(self.state.places_for)
            if admitted is not None and self._unmanaged_masters:
                effects += self._allocator.launch_unmanaged(admitted, now_ns)
            elif admitted is not None:
                admitted.requests.application_master = now_ns
                self.state.queues.update(admitted)
            elif (displaced := self._admission.displace_next(self.state.places_for)) is not None:
                displaced.requests.application_master = None
                self.state.queues.update(displaced)
                self.preemptor.withdraw_surplus(displaced.name, 0)
            else:
                return effects

    def _next_to_fail(self) -> Application | None:
        return self.state.next_unschedulable() or self._admission.next_to_fail(self.state.places_left())

    def _end(
        self,
        application: Application,
        state: JobState,
        now_ns: int,
        reason: str,
        finish_ns: int | None = None,
        kill_reason: str = JOB_ENDED,
    ) -> list[Effect]:
        """The job has ended (committed at ``finish_ns``, else now): take away whatever it still holds."""
        del self.state.applications[application.name]
        self.state.queues.forget(application)
        self._admission.end(application)
        self._contracts.forget_job(application)
        effects: list[Effect] = []
        self.state.awaited.newly_awaited.append(job_address(application.name))
        for node in application.nodes:
            self.state.nodes[node].finished_jobs.append(application.name)
        for held in application.containers.values():
            if held.group is MASTER_GROUP and state is JobState.SUCCEEDED:
                continue  # it exits by itself
            kill = KillContainer(held.id, application.name, kill_reason)
            effects.append(self._orders.send(held.id, held.node, kill, now_ns))
        finished = JobFinished(application.name, state, now_ns if finish_ns is None else finish_ns, reason)
        self._ended[application.name] = finished
        return [*effects, Send(CLIENT, finished), *self._triggers.passed(application.name)]

    def validate_state(self) -> None:
        """The cluster's state is consistent, and reclaims name jobs that have not ended."""
        self.state.validate()
        for requester, entries in self.preemptor.reclaims.items():
            assert requester in self.state.applications or requester == TRANSACTIONAL, requester
            assert all(entry.victim in self.state.applications for entry in entries), requester

    handlers = {  # noqa: RUF012
        Start: _start,
        Tick: _tick,
        SubmitJob: _submit,
        OrderTask: _order_task,
        ExternalDecisions: _for_allocation,
        TimerFired: _for_allocation,
        NodeHeartbeat: _node_heartbeat,
        ApplicationHeartbeat: _application_heartbeat,
        NodeLost: _node_lost,
    }
