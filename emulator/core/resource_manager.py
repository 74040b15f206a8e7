"""The ResourceManager: queues, allocation, and the Preemptor.

Theory of operation
-------------------
Jobs are submitted to queues.  A job first waits for a container for its ApplicationMaster, which the ResourceManager
itself has launched; from then on the ApplicationMaster's heartbeats say what the job wants.  Containers are given out
on NodeManagers' heartbeats: the allocation policy says which queue may have the next one, job selection which job of
it.  Inside a queue, suspended reduces come before everything else, and inside a job its own container, then maps, then
new reduces (natjam, section 3.2, R1).  A suspended reduce waits for its old node as placement says; a stopped process
can only have its own.

News for an ApplicationMaster (containers given, containers ended, containers to give back) wait for its next
heartbeat and are repeated until acknowledged.  The Preemptor runs once a period.  Requests are counted from the moment
they arrive here and containers from the moment they are known free: the later of the two goes along with an
allocation, because that is where scheduling overhead begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from emulator.core.admission import Admission
from emulator.core.applications import Application, HeldContainer, Node, NodeState
from emulator.core.attention import Attention
from emulator.core.command_ledger import OrderLedger
from emulator.core.cost_ledger import CostLedger
from emulator.core.decisions import allocate, order_jobs, order_tasks
from emulator.core.effects import Effect, Send, SetTimer
from emulator.core.explanation import explain_tasks
from emulator.core.machine import HEARTBEAT, IllegalTransition, Phase, keyed_random
from emulator.core.messages import (
    CLIENT,
    RESOURCE_MANAGER,
    Allocation,
    ApplicationHeartbeat,
    ApplicationHeartbeatResponse,
    ContainerReport,
    ContainerState,
    JobFinished,
    JobState,
    KillContainer,
    Kind,
    Mechanism,
    Message,
    NodeHeartbeat,
    NodeHeartbeatResponse,
    NodeLost,
    Outcome,
    Start,
    StartContainer,
    SubmitJob,
    TimerFired,
    job_address,
    node_address,
)
from emulator.core.preemptor import Preemptor, net_of
from emulator.core.queue_ledger import QueueLedger, Waiting
from emulator.core.settings import Settings
from emulator.policies import TASK_EVICTION, rule_name
from emulator.policies.views import JobEvictionView, JobView, TaskEvictionView, TaskView


class ResourceManager:
    """The cluster's one ResourceManager; see the module's theory of operation."""

    def __init__(self, settings: Settings) -> None:
        self.address = RESOURCE_MANAGER
        self.revision = 0
        self.nodes = {node.name: Node(node.name, node.rack, node.containers) for node in settings.nodes}
        self.applications: dict[str, Application] = {}
        """Jobs submitted and not yet ended, in the order of submission."""
        self.containers: dict[str, HeldContainer] = {}
        """Containers given out and not known to have ended, those of ended jobs included."""
        self.preemptor = Preemptor(settings)
        self.costs = CostLedger()
        self.attention = Attention()
        self.free_nodes: dict[str, None] = {}
        """Nodes known to have a container free."""
        self._settings = settings
        self._scheduler = settings.scheduler
        self._task_rule = rule_name(TASK_EVICTION, settings.scheduler.task_eviction)
        self._placement_delay_ns = settings.protocol.placement_delay_ns
        self.heartbeat = Phase(settings.seed, "rm", "preemptor", settings.protocol.preemptor_period_ns)
        self._total = self._left = sum(node.containers for node in settings.nodes)
        self._queues = QueueLedger(settings.scheduler)
        self._admission = Admission(settings.scheduler.queues)
        self._submitted = 0
        self._containers_made = 0
        self._kills = 0
        self._ended: dict[str, JobState] = {}
        self._orders = OrderLedger(settings.protocol.retry_ns, settings.overheads.schedule_ns)
        fixed = settings.scheduler.selection_key is not None and settings.scheduler.preemption_order_is_fixed
        self._order_is_fixed = fixed
        self._reclaimed_revision = -1
        """When the Preemptor had asked for all that it could."""

    # ---- messages ----

    def handle(self, message: Message, now_ns: int) -> list[Effect]:
        """Take one message; see ``emulator.core.machine.Machine``."""
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise IllegalTransition(f"{self.address}: {type(message).__name__} is not for the ResourceManager")
        revision = self.revision
        self.attention.newly_awaited.clear()
        effects = handler(self, message, now_ns)
        if self.revision != revision:
            self.attention.changed()
        return effects

    def heartbeat_due_ns(self, now_ns: int) -> int | None:
        """When the Preemptor may have something to do; see ``emulator.core.machine.PeriodicMachine``."""
        if self._may_reclaim():
            return now_ns
        times_ns = (self.preemptor.due_ns, self._orders.due_ns)
        return min((at_ns for at_ns in times_ns if at_ns is not None), default=None)

    def _may_reclaim(self) -> bool:
        """Whether the Preemptor's next run may ask for a container."""
        if not self._queues.pending or self.free_nodes or self._scheduler.mechanism is Mechanism.WAIT:
            return False  # natjam, section 3.2: only when the cluster is full
        return self._reclaimed_revision != self.revision or not self._order_is_fixed

    def free_node_due_ns(self, now_ns: int) -> int | None:
        """From when on a heartbeat from any of ``free_nodes`` may be answered with a container given; None: none is
        wanted, or none would be given as things stand."""
        if not self.free_nodes or not self._queues.pending:
            return None
        return self.attention.free_node_ns(self.revision, now_ns)

    def _start(self, message: Start, now_ns: int) -> list[Effect]:
        self.revision += 1
        for node in self.nodes:
            self.attention.wait_for(node_address(node))
        return [SetTimer(HEARTBEAT, self.heartbeat.after(now_ns), 0)]

    def _timer(self, message: TimerFired, now_ns: int) -> list[Effect]:
        preempted, again = self._preempt(now_ns), self._orders.repeat(now_ns)
        self.revision += len(again)
        return [*preempted, *again, SetTimer(HEARTBEAT, self.heartbeat.after(now_ns), 0)]

    def _submit(self, message: SubmitJob, now_ns: int) -> list[Effect]:
        if message.job in self.applications or message.job in self._ended:
            return []
        self.revision += 1
        application = Application(
            name=message.job,
            queue=message.queue,
            order=self._submitted,
            submit_ns=now_ns,
            maps=message.maps,
            reduces=message.reduces,
            deadline_ns=message.deadline_ns,
            priority=message.priority,
        )
        self._submitted += 1
        self.applications[message.job] = application
        self._queues.add(application)
        self._admission.submit(application)
        return self._admit(now_ns)

    def _node_heartbeat(self, message: NodeHeartbeat, now_ns: int) -> list[Effect]:
        node = self.nodes[message.node]
        address = node_address(node.name)
        if node.state is NodeState.LOST:
            return [Send(address, NodeHeartbeatResponse(message.id, shut_down=True))]
        self.attention.heard(address)
        if node.state is NodeState.UNKNOWN:
            self.revision += 1
            node.register(now_ns)
            self.free_nodes[node.name] = None
        effects: list[Effect] = []
        for report in message.freed:
            effects += self._freed(report, now_ns)
        effects += self._allocate(node, now_ns)
        self.revision += node.take_news(message.heard_id, message.id)
        if node.told_jobs or node.finished_jobs:
            self.attention.wait_for(address)
        return [*effects, Send(address, NodeHeartbeatResponse(message.id, node.told_jobs))]

    def _application_heartbeat(self, message: ApplicationHeartbeat, now_ns: int) -> list[Effect]:
        address = job_address(message.job)
        self.attention.heard(address)
        application = self.applications.get(message.job)
        if application is None:
            self.attention.wait_for(address)  # it may not hear that its job has ended
            ended = message.job in self._ended
            return [Send(address, ApplicationHeartbeatResponse(message.id, ended=ended))]
        self.revision += self._orders.started(application.master)
        self.revision += application.acknowledge(message.answer_id)
        if message.final_state is not None and message.finish_ns is not None:
            effects = self._end(application, message.final_state, now_ns, message.reason, message.finish_ns)
            return [*effects, *self._admit(now_ns), Send(address, ApplicationHeartbeatResponse(message.id, ended=True))]
        if message.ask is not None and message.id > application.last_heartbeat_id:
            self.revision += 1
            application.last_heartbeat_id = message.id
            application.progress_ppm = message.progress_ppm
            if application.heard_ns is None:
                application.heard_ns = now_ns
            application.requests.replace(message, application.undelivered, now_ns)
            self._queues.note(application)
            for resume in message.ask.resumes:
                if resume.hostname in self.free_nodes:
                    self.attention.wait_for(node_address(resume.hostname))
            self.preemptor.withdraw_surplus(application.name, application.requests.movable)
        # Requests it has not been told of are void once what they were for has been had from elsewhere.
        surplus = max(0, application.reclaim - self.preemptor.wanted_of(application.name))
        application.reclaim -= surplus
        self.revision += bool(surplus) or application.has_news
        answer = application.take_news(self.costs.measured())
        if answer is not None:
            self.attention.wait_for(address)
        return [Send(address, ApplicationHeartbeatResponse(message.id, answer))]

    def _node_lost(self, message: NodeLost, now_ns: int) -> list[Effect]:
        node = self.nodes[message.node]
        if node.state is NodeState.LOST:
            return []
        self.revision += 1
        node.state = NodeState.LOST
        self._left -= node.capacity
        node.free.clear()
        self.free_nodes.pop(node.name, None)
        self.attention.wait_for(node_address(node.name))
        for application in self.applications.values():
            application.lost_nodes.append(node.name)
            self.attention.wait_for(job_address(application.name))
        effects: list[Effect] = []
        for held in [held for held in self.containers.values() if held.node == node.name]:
            report = ContainerReport(
                container=held.id,
                job=held.job,
                kind=held.kind,
                node=node.name,
                revision=1 << 62,  # nothing this node may still have said is newer
                state=ContainerState.DONE,
                outcome=Outcome.LOST,
                reason=message.reason or f"{node.name} is lost",
            )
            effects += self._freed(report, now_ns)
        return effects + self._admit(now_ns, message.reason)

    # ---- containers ----

    def _freed(self, report: ContainerReport, now_ns: int) -> list[Effect]:
        """A container has ended, or its process has been stopped."""
        held = self.containers.get(report.container)
        if held is None or report.revision <= held.revision:
            return []
        self.revision += 1
        held.revision = report.revision
        self.costs.take(report, held.task is not None, now_ns)
        application = self.applications.get(held.job)
        if held.on_slot:
            held.on_slot = False
            if self.nodes[held.node].freed(now_ns, held.job):
                self.free_nodes[held.node] = None
            if application is not None:
                application.slots -= 1
                application.running_reduces -= held.kind is Kind.REDUCE
                self._queues.note(application)
        if report.state is not ContainerState.DONE:
            return []  # stopped, or being killed as it was
        del self.containers[held.id]
        if application is not None:
            del application.containers[held.id]
        self._orders.ended(held.id)
        if held.kind is Kind.APPLICATION_MASTER:
            self.attention.heard(job_address(held.job))  # and never again
        if application is None:
            return []
        if held.kind is Kind.APPLICATION_MASTER:
            reason = f"its ApplicationMaster ended: {report.reason}"
            return [*self._end(application, JobState.FAILED, now_ns, reason), *self._admit(now_ns)]
        application.finished.append(report)
        self.attention.wait_for(job_address(application.name))
        return []

    def _allocate(self, node: Node, now_ns: int) -> list[Effect]:
        """Give out what is free on ``node``."""
        effects: list[Effect] = []
        self.attention.selection_left_out = False
        while node.free:
            given = self._allocate_one(node, now_ns)
            if given is None:
                if self._queues.pending:
                    self._refuse(node, now_ns)
                break
            self.revision += 1
            effects += given
        return effects

    def _refuse(self, node: Node, now_ns: int) -> None:
        """It has a container free and is given nothing although something is wanted: say what may change that."""
        waiting = (self._queues.waiting(queue.name, now_ns)[0] for queue in self._scheduler.queues)
        resumes = [r for each in waiting for job in each.resuming for r in job.requests.resumes.values()]
        is_host = any(resume.hostname == node.name for resume, _ in resumes)
        ends_ns = [since_ns + self._placement_delay_ns for _, since_ns in resumes]
        patience_ns = min((at_ns for at_ns in ends_ns if at_ns > now_ns), default=None)
        self.attention.refused(self.revision, node_address(node.name), is_host, patience_ns)

    def _allocate_one(self, node: Node, now_ns: int) -> list[Effect] | None:
        if not self._queues.pending:
            return None
        decision = allocate(self._scheduler.allocation, self._queues.queue_views(), self._total)
        for queue in decision.order:
            wish = self._first_wish(queue, decision.resumes_first, node, now_ns)
            if wish is not None:
                return self._give(*wish, node, now_ns)
        return None

    def _first_wish(
        self, queue: str, resumes_first: bool, node: Node, now_ns: int
    ) -> tuple[Application, Kind, int | None] | None:
        """The request of ``queue`` that ``node`` serves next: job, kind, and the task if it is suspended."""
        waiting = self._waiting(queue, now_ns)
        for application in waiting.resuming if resumes_first else ():
            task = self._resume_for(application, node, now_ns)
            if task is not None:
                return application, Kind.REDUCE, task
        for application in waiting.new if resumes_first else waiting.jobs:
            requests = application.requests
            if requests.application_master is not None:
                return application, Kind.APPLICATION_MASTER, None
            if requests.since[Kind.MAP]:
                return application, Kind.MAP, None
            task = None if resumes_first else self._resume_for(application, node, now_ns)
            if task is not None or requests.since[Kind.REDUCE]:
                return application, Kind.REDUCE, task
        return None

    def _waiting(self, queue: str, now_ns: int) -> Waiting:
        waiting, left_out = self._queues.waiting(queue, now_ns)
        self.attention.selection_left_out |= left_out > 0
        return waiting

    def _resume_for(self, application: Application, node: Node, now_ns: int) -> int | None:
        """The suspended reduce of ``application`` that should go on ``node``, if any: first by suspension."""
        elsewhere = None
        if application.requests.since[Kind.MAP]:
            return None  # its maps come first, or its reduces would wait for ever for their output
        for task, (resume, since_ns) in application.requests.resumes.items():
            if resume.container is not None:
                held = self.containers.get(resume.container)
                # Not before its node has said that it has stopped: until then it holds a container as it is.
                if held is not None and not held.on_slot and held.node == node.name:
                    return task
                continue
            if resume.hostname == node.name:
                return task
            if elsewhere is None:
                old = self.nodes.get(resume.hostname)
                waited = now_ns - since_ns >= self._placement_delay_ns
                if old is None or old.state is not NodeState.ALIVE or (waited and not old.free):
                    elsewhere = task
        return elsewhere

    def _give(self, application: Application, kind: Kind, task: int | None, node: Node, now_ns: int) -> list[Effect]:
        slot = node.free.popleft()
        if not node.free:
            del self.free_nodes[node.name]
        requests = application.requests
        container = None
        if kind is Kind.APPLICATION_MASTER:
            assert requests.application_master is not None
            since_ns, requests.application_master = requests.application_master, None
        elif task is not None:
            resume, since_ns = requests.resumes.pop(task)
            container = resume.container
        else:
            since_ns = requests.since[kind].popleft()
        ready_ns = max(since_ns, slot.since_ns)
        held = self.containers.get(container) if container else None
        if held is None:
            self._containers_made += 1
            name = f"container-{self._containers_made:06d}"
            held = HeldContainer(name, application.name, kind, node.name, task, now_ns)
            self.containers[held.id] = application.containers[held.id] = held
            application.nodes[node.name] = None
        held.on_slot = True
        held.task = task
        application.slots += 1
        application.running_reduces += kind is Kind.REDUCE
        self._queues.note(application)
        self.preemptor.allocated(application.name, slot.former_owner, requests.movable)
        if kind is Kind.APPLICATION_MASTER:
            return self._launch_application_master(application, held, ready_ns, now_ns)
        application.allocated.append(Allocation(held.id, kind, node.name, ready_ns, task))
        self.attention.wait_for(job_address(application.name))
        return []

    # ---- ApplicationMasters ----

    def _launch_application_master(
        self, application: Application, held: HeldContainer, ready_ns: int, now_ns: int
    ) -> list[Effect]:
        application.master = held.id
        start = StartContainer(
            held.id, application.name, Kind.APPLICATION_MASTER, 0, f"{application.name}/am", ready_ns
        )
        return [self._orders.send(held.id, held.node, start, now_ns)]

    def _admit(self, now_ns: int, why: str = "") -> list[Effect]:
        """Let jobs ask for their ApplicationMasters; end those for which lost nodes (``why``) have left no room."""
        effects: list[Effect] = []
        while (given_up := self._admission.next_given_up(self._left)) is not None:
            left = f"{self._left} containers are left, too few for a task beside every ApplicationMaster"
            reason = left if self._left else f"no node is left: {why}"
            effects += self._end(given_up, JobState.FAILED, now_ns, reason)
        while True:
            if (admitted := self._admission.admit_next(self._left)) is not None:
                admitted.requests.application_master = now_ns
                self._queues.note(admitted)
            elif (displaced := self._admission.displace_next(self._left)) is not None:
                displaced.requests.application_master = None
                self._queues.note(displaced)
                self.preemptor.withdraw_surplus(displaced.name, 0)
            else:
                return effects
            self.revision += 1

    def _end(
        self, application: Application, state: JobState, now_ns: int, reason: str, finish_ns: int | None = None
    ) -> list[Effect]:
        """The job has ended (committed at ``finish_ns``, else now): whatever it still holds is taken away."""
        self.revision += 1
        del self.applications[application.name]
        self._ended[application.name] = state
        self._queues.forget(application)
        self._admission.end(application)
        self.preemptor.forget_job(application.name)
        effects: list[Effect] = []
        self.attention.wait_for(job_address(application.name))
        for node in application.nodes:
            self.nodes[node].finished_jobs.append(application.name)
            self.attention.wait_for(node_address(node))
        for held in application.containers.values():
            if held.kind is Kind.APPLICATION_MASTER and state is JobState.SUCCEEDED:
                continue  # it leaves by itself
            kill = KillContainer(held.id, application.name, "the job has ended")
            effects.append(self._orders.send(held.id, held.node, kill, now_ns))
        finished = JobFinished(application.name, state, now_ns if finish_ns is None else finish_ns, reason)
        return [*effects, Send(CLIENT, finished)]

    # ---- preemption ----

    def _preempt(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        self.revision += self.preemptor.expire(now_ns, lambda victim: self._kill_one(victim, now_ns, effects))
        if not self._may_reclaim():
            return effects
        queues = self._queues.queue_views()
        decision = allocate(self._scheduler.allocation, queues, self._total)
        all_asked = True
        for queue, victims in decision.reclaim:
            others = tuple(victim for victim in victims if victim != queue)
            if others:
                view = next(view for view in queues if view.name == queue)
                self._reclaim_from_queues(queue, others, view.maximum - view.used, now_ns)
            if queue in victims:
                all_asked &= self._reclaim_within(queue, decision.reclaims_a_run, now_ns)
        if all_asked:
            self._reclaimed_revision = self.revision
        return [*effects, *self.preemptor.explain()]

    def _reclaim_from_queues(self, queue: str, victims: tuple[str, ...], room: int, now_ns: int) -> None:
        """Make the reclaim requests that the jobs of ``queue`` lack, which has ``room`` for so many containers."""
        possible: list[dict[str, JobView]] | None = None
        for application in self._waiting(queue, now_ns).jobs:
            outstanding = self.preemptor.outstanding(application.name)
            while outstanding < min(application.requests.movable, room):
                if possible is None:
                    possible = [self._victims(self._queues.job_views(name, now_ns)) for name in victims]
                jobs = next(filter(None, possible), None)
                if jobs is None:
                    return
                self._reclaim(application, tuple(jobs.values()), jobs, now_ns)
                outstanding += 1
            room -= outstanding

    def _reclaim_within(self, queue: str, most: int | None, now_ns: int) -> bool:
        """The first job that still waits takes from those after it, if any has something to give (natjam, section 4);
        of more than one reclaim a run, the next ones go to it as long as it lacks them, then to the next job.  Whether
        that is all that may be asked for: False when only ``most`` has set the end."""
        views = tuple(self._queues.job_views(queue, now_ns))
        possible = self._victims(views)
        order = order_jobs(self._scheduler.preemption_order, views, now_ns)
        made = 0
        for place, name in enumerate(order):
            application = self.applications[name]
            lacking = application.requests.movable - self.preemptor.outstanding(name)
            for _ in range(lacking):
                later = tuple([possible[job] for job in order[place + 1 :] if job in possible])
                if not later:
                    return True
                if made == most:
                    return False
                self._reclaim(application, later, possible, now_ns)
                made += 1
        return True

    def _reclaim(
        self, application: Application, among: tuple[JobView, ...], views: dict[str, JobView], now_ns: int
    ) -> None:
        """Ask for a container of one of the jobs ``among`` the ``views``, which are made to say so."""
        self.revision += 1
        view = JobEvictionView(now_ns, among, self.costs.measured())
        victim = self.preemptor.choose(application.name, view)
        views[victim] = net_of(views[victim], 1)
        if not views[victim].reclaimable:
            del views[victim]
        self.applications[victim].reclaim += 1
        self.attention.wait_for(job_address(victim))

    def _victims(self, jobs: Iterable[JobView]) -> dict[str, JobView]:
        """Those of ``jobs`` that have a reduce to give, net of what has been asked back."""
        asked = self.preemptor.asked()
        views = (net_of(view, asked[view.name]) if view.name in asked else view for view in jobs if view.reclaimable)
        return {view.name: view for view in views if view.reclaimable > 0}

    def _kill_one(self, victim: str, now_ns: int, effects: list[Effect]) -> bool:
        """Kill the victim job's container that the task eviction order puts first; whether there was one.

        The ResourceManager knows no progress: the reduce that has held its container longest counts as the one with
        the least time left.
        """
        reduces = [
            held
            for held in self.applications[victim].containers.values()
            if held.kind is Kind.REDUCE and held.on_slot and held.id not in self._orders
        ]
        if not reduces:
            return False
        oldest_ns = min(held.since_ns for held in reduces)
        tasks = tuple(
            TaskView(held.number, held.id, held.node, held.since_ns, 0, 0, held.since_ns - oldest_ns)
            for held in reduces
        )
        self._kills += 1
        view = TaskEvictionView(now_ns, victim, tasks, self.costs.measured())
        random = keyed_random(self._settings.seed, "rm", "kill", self._kills)
        order = order_tasks(self._scheduler.task_eviction, view, random)
        if not order:
            return False
        held = self.containers[order[0]]
        kill = KillContainer(held.id, victim, "asked back and not given in time")
        why = explain_tasks(self._task_rule, view, order, 1)
        effects += [why, self._orders.send(held.id, held.node, kill, now_ns)]
        application = self.applications[victim]  # one container less to ask it for: this one is in its place
        if application.reclaim:
            application.reclaim -= 1
        else:
            application.withdrawn += 1
            self.attention.wait_for(job_address(victim))
        return True

    # ---- views ----

    def validate_state(self) -> None:
        """No node over-committed, every slot either free or held, counters agree, reclaims name living jobs."""
        for node in self.nodes.values():
            held = sum(1 for c in self.containers.values() if c.node == node.name and c.on_slot)
            if node.state is NodeState.ALIVE:
                assert held + len(node.free) == node.capacity, f"{node.name}: {held} held, {len(node.free)} free"
        self._queues.validate(self.applications.values())
        assert set(self.free_nodes) == {node.name for node in self.nodes.values() if node.free}
        for application in self.applications.values():
            mine = [c for c in self.containers.values() if c.job == application.name and c.on_slot]
            assert application.slots == len(mine), application.name
            assert application.running_reduces == sum(c.kind is Kind.REDUCE for c in mine), application.name
        for requester, entries in self.preemptor.reclaims.items():
            assert requester in self.applications, requester
            assert all(entry.victim in self.applications for entry in entries), requester


_HANDLERS = {
    Start: ResourceManager._start,
    TimerFired: ResourceManager._timer,
    SubmitJob: ResourceManager._submit,
    NodeHeartbeat: ResourceManager._node_heartbeat,
    ApplicationHeartbeat: ResourceManager._application_heartbeat,
    NodeLost: ResourceManager._node_lost,
}
