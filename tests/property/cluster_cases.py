"""Random clusters, workloads and misfortunes, and how they are run; ``simulated.CheckedCluster`` checks them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hypothesis import strategies as st
from msgspec import structs
from simulated import GIB_BYTES, RESOURCES, SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.chaos.faulty_cluster import BadNetwork
from emulator.chaos.invariants import may_be_endless
from emulator.core.application_master.application_master import ApplicationMaster
from emulator.core.job import JobSpec
from emulator.core.messages import RESOURCE_MANAGER, JobFinished, JobState, OrderTask, TaskOrder
from emulator.core.settings import OverheadSettings, QueueSettings, Settings
from emulator.policies import axes as policies
from emulator.policies.placement import Local
from emulator.policies.resources import WHOLE_PPM, count_fitting, have_capacity, most, plus
from emulator.policies.views import ClusterView, NodeView, PlacementDecision, SuspendedView
from emulator.sim.cost_model import CostModel
from emulator.vocabulary import REDUCE, Order, Resources, TaskId, Work

_LIMIT_S = 20_000
_PREEMPTIVE = ("two-queue", "single-queue")
_SELECTIONS = (policies.AUTO, *policies.JOB_SELECTION.names)
_ATTEMPTS_MAX = 4
_MECHANISMS = ("checkpoint", "checkpoint", "suspend", "suspend", "kill", "wait")
CALM, BAD_NETWORK = (
    st.none(),
    st.builds(
        BadNetwork,
        seed=st.integers(0, 10**6),
        loss_percent=st.integers(0, 20),
        duplication_percent=st.integers(0, 20),
        latest_ns=st.integers(0, 4 * SECOND_NS),
    ),
)
_VICTIMS = st.sampled_from(("reduces", "all"))
_MEMORIES = st.sampled_from(((), (), (0,), (GIB_BYTES // 2, GIB_BYTES), (GIB_BYTES // 3,)))
_NEWS = st.sampled_from(("heartbeat", "heartbeat", "out-of-turn", "at-once"))
_COST_NS = st.sampled_from((0, 0, 30_000_000, 400_000_000))
PROFILE = OverheadSettings(schedule_ns=1_500_000_000, suspend_ns=2_000_000_000, resume_ns=1_300_000_000)


def even_nodes(view: ClusterView, suspended: SuspendedView, node: NodeView) -> PlacementDecision:
    """A user's own placement, which says no to some nodes and yes to others, and changes its mind after a while."""
    timeout_ns = suspended.since_ns + 5 * SECOND_NS
    is_even = int(node.name.rpartition("-")[2]) % 2 == 0
    return PlacementDecision(is_even or view.now_ns >= timeout_ns, rank=int(not is_even), holds_until_ns=timeout_ns)


LOCAL = policies.PLACEMENT.by_name["local"]
EVEN_NODES = policies.PLACEMENT.own("mine:even_nodes", even_nodes)


@dataclass(frozen=True)
class Case:
    """One run: what is given, and what goes wrong."""

    settings: Settings
    jobs: tuple[JobSpec, ...]
    costs: CostModel
    bad_network: BadNetwork | None
    crashes: tuple[tuple[int, int], ...] = ()
    """(emulated ms, which of the processes then alive): map or reduce processes."""
    master_crashes: tuple[tuple[int, int], ...] = ()
    """(emulated ms, which of the ApplicationMasters then alive)."""
    losses: tuple[tuple[int, int], ...] = ()
    """(emulated ms, which node)."""
    lost_outputs: tuple[tuple[int, int], ...] = ()
    """(emulated ms, which of the map outputs then there)."""
    orders: tuple[tuple[int, int, int, Order], ...] = ()
    """(emulated ms, which job, which reduce, what): by a user."""
    restarts: tuple[tuple[int, int], ...] = ()
    """(emulated ms, how long for, in tenths of a second): the ResourceManager's host dies and is there again."""
    returns: tuple[tuple[int, int], ...] = ()
    """(emulated ms, which node, and for how many seconds): it is lost, or gone unnoticed, and is there again."""


def _availability(containers: int) -> st.SearchStrategy[dict[str, Any]]:
    """Often all the containers always, else now more and now fewer of them, all in the end."""
    step = st.tuples(st.integers(1, 20), st.integers(0, containers))
    gaps = st.lists(step, min_size=1, max_size=5)
    graces = st.sampled_from((0.0, 5.0, 30.0))
    changing = st.builds(
        lambda gaps, grace_s: {"available": _steps(gaps, containers), "grace_s": grace_s}, gaps, graces
    )
    return st.sampled_from(({}, {})) | changing if containers else st.just({})


def _steps(gaps: list[tuple[int, int]], containers: int) -> list[tuple[float, int]]:
    """From 0 on all there are, after each gap so many, after the last all again."""
    steps: list[tuple[float, int]] = [(0.0, containers)]
    for gap_s, count in (*gaps, (20, containers)):
        steps.append((steps[-1][0] + gap_s, count))
    return steps


@st.composite
def _shared_settings(draw: st.DrawFn) -> Settings:
    """Small clusters whose jobs have shares, of containers for anything or of slots for maps and for reduces."""
    nodes, slots = draw(st.integers(1, 4)), draw(st.none() | st.tuples(st.integers(1, 2), st.integers(1, 2)))
    containers = sum(slots) if slots else draw(st.integers(2 if nodes == 1 else 1, 4))
    return make_settings(
        seed=draw(st.integers(0, 10**6)),
        nodes=nodes,
        containers=containers,
        memory_gb=containers + draw(st.integers(0, 3)),
        max_suspended=draw(st.integers(0, 4)),
        mechanism=draw(st.sampled_from(("checkpoint", "suspend", "kill", "wait", "wait"))),
        victims="reduces" if slots else draw(_VICTIMS),
        allocation=draw(st.sampled_from(("fifo", "fair", "flex", "adaptive", "reverse-adaptive"))),
        slow_start_ppm=draw(st.sampled_from((0, 50_000, 1_000_000))),
        overheads=draw(st.sampled_from((None, None, PROFILE))),
        task_attempts_max=_ATTEMPTS_MAX,
        news=draw(_NEWS),
        slots=slots,
        unmanaged_masters=slots is not None or draw(st.booleans()),
        **draw(_availability(0 if slots else nodes * containers)),
    )


@st.composite
def _cluster_settings(draw: st.DrawFn, mechanisms: tuple[str, ...] = _MECHANISMS) -> Settings:
    """Small clusters, small enough to be full."""
    nodes = draw(st.integers(1, 4))
    containers = draw(st.integers(2 if nodes == 1 else 1, 4))
    total = nodes * containers
    mechanism = draw(st.sampled_from(mechanisms))
    names = ("two-queue", "soft-cap", "hard-cap") if mechanism == "wait" and total >= 4 else _PREEMPTIVE
    allocation = draw(st.sampled_from(names))
    eviction = draw(st.sampled_from(policies.JOB_EVICTION.names))
    is_dictated = policies.JOB_EVICTION.by_name[eviction].dictates is not None
    quarter = max(2, total // 4)
    caps = (QueueSettings("production", 0, quarter, quarter), QueueSettings("research", 1, total - 2, total - 2))
    return make_settings(
        seed=draw(st.integers(0, 10**6)),
        nodes=nodes,
        containers=containers,
        memory_gb=containers + draw(st.integers(0, 3)),
        swap_gb=draw(st.integers(0, 2)),
        max_suspended=draw(st.integers(0, 4)),
        mechanism=mechanism,
        victims=draw(_VICTIMS),
        allocation=allocation,
        queues=caps if allocation == "hard-cap" else None,
        job_eviction=eviction,
        job_selection=policies.AUTO if is_dictated else draw(st.sampled_from(_SELECTIONS)),
        task_eviction=draw(st.sampled_from(("srt", "lrt", "random"))),
        slow_start_ppm=draw(st.sampled_from((0, 50_000, 1_000_000))),
        placement_delay_s=draw(st.sampled_from((0.0, 3.0))),
        placement=draw(st.sampled_from((None, None, EVEN_NODES))),
        **draw(_availability(total)),
        racks=draw(st.sampled_from((1, 1, 2))),
        resume_order=draw(st.sampled_from(policies.RESUME_ORDER.names)),
        kill_timeout_s=draw(st.sampled_from((3.0, 12.0))),
        overheads=draw(st.sampled_from((None, None, PROFILE))),
        task_attempts_max=_ATTEMPTS_MAX,
        news=draw(_NEWS),
    )


def _asking(draw: st.DrawFn, job: JobSpec, part: st.SearchStrategy[Resources]) -> JobSpec:
    groups = tuple(structs.replace(group, request=draw(part)) for group in job.facts.groups)
    return structs.replace(job, facts=structs.replace(job.facts, groups=groups))


@st.composite
def sized(draw: st.DrawFn, case: Case) -> Case:
    """The same with nodes of random resources, of which jobs ask for random parts: at least one node is large enough
    for a task of each job beside an ApplicationMaster."""
    names = draw(st.integers(1, len(RESOURCES)))
    amount = st.integers(0, 4000)
    part = st.tuples(st.integers(1, 4000), *[amount] * (names - 1))
    master = tuple(each // 4 for each in draw(part))
    jobs = [_asking(draw, job, part) for job in case.jobs]
    largest = tuple(map(max, *(group.request for job in jobs for group in job.facts.groups), (0,) * names))
    # More than that, or one ApplicationMaster may fill its queue where nothing else asks for a resource.
    whole = plus(plus(largest, master), draw(st.tuples(*[st.integers(1, 4000)] * names)))
    holds = tuple(draw(st.booleans()) for _ in range(names))
    sizes = [whole, *(draw(st.tuples(st.integers(1, 9000), *[amount] * (names - 1))) for _ in case.settings.nodes[1:])]
    nodes = tuple(
        replace(node, resources=size, resource_names=RESOURCES[:names], stopped_hold=holds, slots=None, containers=4)
        for node, size in zip(case.settings.nodes, draw(st.permutations(sizes)), strict=True)
    )
    scheduler = case.settings.scheduler
    capacities = {"production": 250_000, "research": 750_000}
    if scheduler.allocation.name == "hard-cap":  # else a queue may be full with one ApplicationMaster
        capacities = dict.fromkeys(capacities, WHOLE_PPM)
    queues = tuple(replace(queue, capacity=capacities[queue.name], maximum=WHOLE_PPM) for queue in scheduler.queues)
    task_eviction = draw(st.sampled_from((scheduler.task_eviction, policies.TASK_EVICTION.by_name["cost-aware"])))
    settings = replace(
        case.settings,
        nodes=nodes,
        master_request=master,
        scheduler=replace(scheduler, queues=queues, task_eviction=task_eviction),
        availability=None,
    )
    # With more, a job may avoid the only node that is large enough, and wait without end, as in Hadoop.
    crashes = case.crashes[: settings.protocol.node_blacklist_failures - 1]
    return replace(case, settings=settings, jobs=tuple(jobs), crashes=crashes)


@st.composite
def _workloads(draw: st.DrawFn, containers: int, one_queue: bool, long_maps: bool) -> tuple[JobSpec, ...]:
    """A research job that fills the cluster with reduces (or maps), urgent jobs that come meanwhile, and some of any
    kind."""

    def lengths(fewest: int, most: int, longest_ms: int, shortest_ms: int = 100) -> tuple[float, ...]:
        drawn = draw(st.lists(st.integers(shortest_ms, longest_ms), min_size=fewest, max_size=most))
        return tuple(length / 1000 for length in drawn)

    key_s = draw(st.sampled_from((0.3, 2.5)))
    reduces = lengths(containers - 1, containers + 2, 40_000, shortest_ms=8_000)
    maps = lengths(0, containers + 1, 20_000) if long_maps else lengths(0, 2, 1000)
    jobs = [make_job("big", "research", 0.0, maps, reduces, key_s)]
    for number in range(draw(st.sampled_from((1, 2, 3, 0)))):
        submit_s = draw(st.integers(1_000, 20_000)) / 1000
        jobs.append(make_job(f"urgent-{number}", "production", submit_s, lengths(0, 3, 2000), lengths(1, 4, 8_000)))
    for number in range(draw(st.integers(0, 2))):
        queue, submit_s = draw(st.sampled_from(("production", "research"))), draw(st.integers(0, 20_000)) / 1000
        jobs.append(make_job(f"other-{number}", queue, submit_s, lengths(0, 4, 3000), lengths(0, 4, 8_000), 0.3))
    return tuple(_with_order(draw, job, "research" if one_queue else job.queue) for job in jobs)


def _with_order(draw: st.DrawFn, job: JobSpec, queue: str) -> JobSpec:
    """The job with a priority and perhaps a deadline; an urgent one has one that comes first."""
    priority = draw(st.integers(0, 2)) + (job.queue == "production")
    slack_s = draw(st.none() | st.integers(1, 20 if job.queue == "production" else 90))
    deadline_ns = None if slack_s is None else job.submit_ns + slack_s * SECOND_NS
    facts = structs.replace(
        job.facts, queue=queue, priority=priority, deadline_ns=deadline_ns, task_memory_bytes=draw(_MEMORIES)
    )
    return structs.replace(job, facts=facts)


@st.composite
def storms(draw: st.DrawFn) -> Case:
    """One research job and urgent ones that come and go: every reduce is suspended and resumed again and again."""
    containers = draw(st.integers(2, 3))
    cluster = make_settings(
        seed=draw(st.integers(0, 10**6)),
        nodes=2,
        containers=containers,
        max_suspended=draw(st.integers(1, 4)),
        mechanism=draw(st.sampled_from(("suspend", "suspend", "checkpoint"))),
        victims=draw(_VICTIMS),
        placement=draw(st.sampled_from((None, *(LOCAL.with_options(Local(delay_s)) for delay_s in (0.0, 5.0))))),
        task_eviction=draw(st.sampled_from(("srt", "lrt", "random"))),
        kill_timeout_s=draw(st.sampled_from((3.0, 12.0))),
        overheads=draw(st.sampled_from((None, PROFILE))),
        task_attempts_max=_ATTEMPTS_MAX,
        news=draw(_NEWS),
    )
    lengths_s = tuple(draw(st.lists(st.integers(10, 40), min_size=2 * containers - 1, max_size=2 * containers)))
    maps = draw(st.integers(0, len(lengths_s))) if Work.SHUFFLE in cluster.scheduler.victims else 0
    jobs = [make_job("research", "research", 0.0, lengths_s[:maps], lengths_s[maps:], 0.5)]
    for number in range(draw(st.integers(3, 6))):
        lengths_s = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
        submit_s = 6.0 + 7 * number + draw(st.integers(0, 3000)) / 1000
        jobs.append(make_job(f"urgent-{number}", "production", submit_s, (), lengths_s, 0.5))
    network = BadNetwork(draw(st.integers(0, 10**6)), draw(st.integers(5, 20)), draw(st.integers(0, 30)), 4 * SECOND_NS)
    costs = CostModel(*[draw(_COST_NS)] * 8)
    return Case(cluster, tuple(jobs), costs, network, draw(_misfortunes(1)))


@st.composite
def races(draw: st.DrawFn) -> Case:
    """Slow nodes whose reduces get second attempts, and urgent jobs that evict either of the two."""
    nodes, containers = draw(st.integers(2, 3)), draw(st.integers(2, 4))
    mechanism = draw(st.sampled_from(("checkpoint", "suspend", "kill", "wait")))
    speculation = {"margin": (0.05, 0.4), "after_s": (1, 3, 8), "at_most": (0.1, 1)}
    cluster = make_settings(
        seed=draw(st.integers(0, 10**6)),
        nodes=nodes,
        containers=containers,
        memory_gb=containers + draw(st.integers(0, 3)),
        max_suspended=draw(st.integers(1, 4)),
        mechanism=mechanism,
        victims=draw(_VICTIMS),
        task_eviction=draw(st.sampled_from(("srt", "lrt", "random"))),
        kill_timeout_s=draw(st.sampled_from((3.0, 12.0))),
        overheads=draw(st.sampled_from((None, PROFILE))),
        task_attempts_max=_ATTEMPTS_MAX,
        news=draw(_NEWS),
        speculation={name: draw(st.sampled_from(values)) for name, values in speculation.items()},
        slow_nodes={"node-1": draw(st.sampled_from((1.5, 4.0, 10.0)))},
    )
    total = nodes * containers
    lengths = st.lists(st.integers(5, 30), min_size=total // 2, max_size=total + 1).map(tuple)
    jobs = [make_job("research", "research", 0.0, draw(st.sampled_from(((), (1.0,)))), draw(lengths), 0.5)]
    for number in range(draw(st.integers(0, 4))):
        lengths_s = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=total - 1)))
        submit_s = draw(st.integers(5_000, 60_000)) / 1000
        jobs.append(make_job(f"urgent-{number}", "production", submit_s, (), lengths_s, 0.5))
    costs, network = draw(st.builds(CostModel, *[_COST_NS] * 8)), draw(CALM | BAD_NETWORK)
    losses = draw(st.sampled_from((0, 0, 1)).flatmap(_misfortunes))
    return Case(cluster, tuple(jobs), costs, network, draw(_misfortunes(_ATTEMPTS_MAX - 1)), (), losses)


def _misfortunes(most: int, latest_ms: int = 60_000) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    return st.lists(st.tuples(st.integers(1, latest_ms), st.integers(0, 30)), max_size=most).map(tuple)


@st.composite
def cases(
    draw: st.DrawFn,
    network: st.SearchStrategy[BadNetwork | None],
    faults: bool = False,
    shared: bool = False,
    restarts: bool = True,
    waits: bool = False,
) -> Case:
    """Clusters with work; ``faults``: processes crash, nodes are lost; ``shared``: every job has a share;
    ``restarts``: the ResourceManager's host dies too; ``waits``: nothing is taken back."""
    cluster = draw(_shared_settings() if shared else _cluster_settings(("wait",) if waits else _MECHANISMS))
    one_queue = len(cluster.scheduler.queues) == 1
    maps_are_victims = Work.SHUFFLE in cluster.scheduler.victims
    jobs = draw(_workloads(sum(node.containers for node in cluster.nodes), one_queue, maps_are_victims))
    costs, bad_network = draw(st.builds(CostModel, *[_COST_NS] * 8)), draw(network)
    if not faults:
        return Case(cluster, jobs, costs, bad_network)
    master_crashes = draw(_misfortunes(3))
    manager_restarts = draw(st.sampled_from((0, 0, 2)).flatmap(_misfortunes)) if restarts else ()
    losses = draw(st.sampled_from((0, 0, 1, 2)).flatmap(_misfortunes))
    returns = draw(st.sampled_from((0, 0, 2)).flatmap(_misfortunes))
    crashes, lost_outputs = draw(_misfortunes(_ATTEMPTS_MAX - 1)), draw(_misfortunes(4, latest_ms=30_000))
    return Case(
        cluster, jobs, costs, bad_network, crashes, master_crashes, losses, lost_outputs, (), manager_restarts, returns
    )


@st.composite
def with_gangs(draw: st.DrawFn, of: st.SearchStrategy[Case]) -> Case:
    """The same, where most jobs are gangs, of all their tasks or of fewer."""
    case = draw(of)
    most = {queue.name: queue.maximum - 1 for queue in case.settings.scheduler.queues}
    jobs = []
    for job in case.jobs:
        tasks = len(job.map_ns) + len(job.reduce_ns)
        largest = min(tasks, most[job.queue], sum(node.containers for node in case.settings.nodes) - 1)
        sizes = st.sampled_from((None, largest, largest)) | st.integers(1, largest)
        gang = draw(sizes) if largest >= 1 else None
        jobs.append(structs.replace(job, facts=structs.replace(job.facts, gang=gang)))
    return replace(case, jobs=tuple(jobs))


@st.composite
def with_sized_gangs(draw: st.DrawFn, of: st.SearchStrategy[Case]) -> Case:
    """Where containers have several sizes, the same with gangs that have room on empty nodes, and ApplicationMasters
    outside of containers."""
    case = draw(of)
    nodes = tuple(replace(node, unmanaged_masters=True) for node in case.settings.nodes)
    sizes = [node.resources for node in nodes]
    jobs = []
    for job in case.jobs:
        requests = [group.request for group in job.facts.groups for _ in range(group.count)]
        fitting = min(len(requests), sum(count_fitting(most(requests), size) for size in sizes)) if requests else 0
        whole = len(requests) if have_capacity(requests, sizes) else fitting
        gang = draw(st.sampled_from((None, whole)) | st.integers(1, fitting)) if fitting else None
        jobs.append(structs.replace(job, facts=structs.replace(job.facts, gang=gang)))
    return replace(case, jobs=tuple(jobs), settings=replace(case.settings, nodes=nodes))


@st.composite
def ordered_about(draw: st.DrawFn) -> Case:
    """The same, and a user who suspends, resumes and kills reduces, and resumes all in the end."""
    case = draw(cases(CALM | BAD_NETWORK))
    jobs, tasks = st.integers(0, len(case.jobs) - 1), st.integers(0, 4)
    orders = draw(st.lists(st.tuples(st.integers(1, 60_000), jobs, tasks, st.sampled_from(Order)), max_size=6))
    orders += [(100_000, job, task, Order.RESUME) for _, job, task, order in orders if order is Order.SUSPEND]
    return replace(case, orders=tuple(orders))


def _plan_misfortunes(case: Case, cluster: CheckedCluster) -> None:
    def crash(which: int, masters: bool) -> None:
        alive = sorted(
            name for name, task in cluster.processes.tasks.items() if (task.launch.work is Work.MASTER) == masters
        )
        if alive:
            cluster.processes.crash(alive[which % len(alive)], 11, "segmentation fault")

    def living() -> list[str]:
        return [node.name for node in case.settings.nodes if node.name not in cluster.lost_nodes]

    def lose(which: int) -> None:
        if nodes := living():
            cluster.lose_node(nodes[which % len(nodes)])

    def lose_for_a_while(which: int) -> None:
        if (nodes := living()) and not cluster.finished:
            node = nodes[which % len(nodes)]
            (cluster.silence_node if which % 2 else cluster.lose_node)(node)
            cluster.kernel.at(cluster.kernel.now_ns + which * SECOND_NS, partial(cluster.return_node, node))

    for at_ms, which in case.crashes:
        cluster.kernel.at(at_ms * 1_000_000, partial(crash, which, False))
    for at_ms, which in case.master_crashes:
        cluster.kernel.at(at_ms * 1_000_000, partial(crash, which, True))

    def restart(tenths_s: int) -> None:
        if not cluster.finished and cluster.is_on(RESOURCE_MANAGER):
            cluster.restart_manager(tenths_s * 100_000_000)

    def lose_output(which: int) -> None:
        masters = [machine for machine in cluster.machines.values() if isinstance(machine, ApplicationMaster)]
        lying = [(am.job, task.index, task.output_node) for am in masters for task in am.tasks.maps if task.output_node]
        if lying:
            cluster.processes.disks.lose_output(*lying[which % len(lying)])

    for at_ms, job, task, order in case.orders:
        name = case.jobs[job % len(case.jobs)].name
        ordered = OrderTask(name, TaskOrder(TaskId(REDUCE, task), order))
        cluster.kernel.at(at_ms * 1_000_000, partial(cluster.tell, RESOURCE_MANAGER, ordered))
    for at_ms, which in case.lost_outputs:
        cluster.kernel.at(at_ms * 1_000_000, partial(lose_output, which))
    for at_ms, tenths_s in case.restarts:
        cluster.kernel.at(at_ms * 1_000_000, partial(restart, tenths_s))
    for at_ms, which in case.losses:
        cluster.kernel.at(at_ms * 1_000_000, partial(lose, which))
    for at_ms, which in case.returns:
        cluster.kernel.at(at_ms * 1_000_000, partial(lose_for_a_while, which))


def run(case: Case, **checks: Any) -> CheckedCluster:
    """Run a case with all checks, and see that no job has failed without a good reason."""
    cluster = run_checked(
        case.settings,
        case.jobs,
        costs=case.costs,
        bad_network=case.bad_network,
        disturb=partial(_plan_misfortunes, case),
        limit_s=_LIMIT_S,
        may_be_endless=may_be_endless(case.settings),
        **checks,
    )
    reasons = {r.message.job: r.message.reason for r in cluster.records if isinstance(r.message, JobFinished)}
    for job, state in cluster.finished_jobs.items():
        if state is not JobState.SUCCEEDED:
            _check_failure(case, state, reasons[job])
    return cluster


def _check_failure(case: Case, state: JobState, reason: str) -> None:
    """Only an ApplicationMaster that dies too often, or has no room, fails a job: no task crashes often enough here."""
    assert state is JobState.FAILED
    if reason.startswith("its ApplicationMaster ended"):
        assert len(case.master_crashes) >= case.settings.protocol.am_attempts
    else:
        assert reason.startswith("no node is left") or "too few" in reason or "large enough" in reason
        assert case.losses or case.returns
