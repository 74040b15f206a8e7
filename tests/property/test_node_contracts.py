"""Room on one node is asked of jobs, which choose the tasks: who is asked for how much, and what is given for it."""

from __future__ import annotations

from itertools import combinations
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from simulated import RESOURCES, SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.application_master.releaser import NodeContractsOfJob
from emulator.core.application_master.task import AttemptState, TaskAttempt
from emulator.core.effects import Checkpoint, ExplainTaskEviction, Kill, Send
from emulator.core.job import JobSpec
from emulator.core.messages import AllocateResponse, ApplicationHeartbeatResponse
from emulator.policies.resources import fits, lacking, minus, total
from emulator.policies.views import TaskView
from emulator.vocabulary import JobFacts, Resources, TaskId, map_reduce
from tests.examples import fixed

NODES = ("node-1", "node-2")
_S = AttemptState
amounts = st.tuples(st.integers(0, 4), st.integers(0, 4))


def debts(requests: list[Resources], live: dict[str, TaskAttempt], mechanism: str) -> NodeContractsOfJob:
    groups = tuple(
        structs.replace(map_reduce(0, 1)[-1], name=f"group-{n}", request=request) for n, request in enumerate(requests)
    )
    settings = make_settings(
        nodes=2, mechanism=mechanism, sizes=((99, 99),) * 2, master_request=(1, 1), suspended_hold=frozenset({"cpu"})
    )
    return NodeContractsOfJob(JobFacts("a", "research", groups), settings, live)


@given(
    st.lists(st.tuples(amounts, st.sampled_from(NODES), st.sampled_from((_S.RUNNING, _S.RUNNING, *_S))), max_size=7),
    st.dictionaries(st.sampled_from(NODES), amounts),
    st.sampled_from(("kill", "suspend")),
    st.randoms(use_true_random=False),
)
@fixed
def test_a_job_gives_the_first_tasks_in_its_order_that_are_enough_and_none_in_vain(
    drawn: list[tuple[Resources, str, AttemptState]], keeps: dict[str, Resources], mechanism: str, random: Random
) -> None:
    live = {
        f"c-{n}": TaskAttempt(f"a-{n}", TaskId(f"group-{n}", 0), state=state, container=f"c-{n}", node=node)
        for n, (_, node, state) in enumerate(drawn)
    }
    owes = debts([request for request, _, _ in drawn], live, mechanism)
    owes.keeps = dict(keeps)
    stops = mechanism == "suspend"
    frees = {f"c-{n}": (0, memory) if stops else (cpu, memory) for n, ((cpu, memory), _, _) in enumerate(drawn)}
    held: dict[str, Resources] = dict.fromkeys(NODES, (0, 0))
    for n, ((cpu, memory), node, state) in enumerate(drawn):
        if state is _S.COMMIT_PENDING:
            continue
        goes = state in (_S.CHOSEN, _S.SUSPEND_PENDING)
        holds = (cpu, 0) if state is _S.SUSPENDED else minus((cpu, memory), frees[f"c-{n}"] if goes else (0, 0))
        held[node] = total((held[node], holds), "ab")
    order = [name for name, attempt in live.items() if attempt.state is _S.RUNNING]
    random.shuffle(order)
    tasks = [TaskView(name, "a", each.task.group, each.node or "", 0) for name, each in live.items()]
    chosen = owes.choose(tasks, order)
    for node in NODES:
        short = lacking(held[node], keeps[node]) if node in keeps else (0, 0)
        assert owes.open_contracts.get(node, (0, 0)) == short
        here = [name for name in order if live[name].node == node]
        given = [name for name in chosen if live[name].node == node]
        sets = [subset for count in range(len(here) + 1) for subset in combinations(here, count)]
        enough = [subset for subset in sets if fits(short, total((frees[name] for name in subset), "ab"))]
        if not any(short) or not enough:
            assert not given
            continue
        assert tuple(given) in enough
        for left_out in given:
            assert not fits(short, total((frees[name] for name in given if name != left_out), "ab"))
        last = max(map(here.index, given))
        assert not any(all(here.index(name) < last for name in subset) for subset in enough), "the first in its order"


@st.composite
def full_clusters(draw: st.DrawFn) -> tuple[tuple[Resources, ...], tuple[JobSpec, ...], str, str]:
    """Nodes that research jobs fill, with more that wait, and an urgent task that comes then and needs much."""
    sizes = tuple(draw(st.lists(st.sampled_from(((8000, 6000), (6000, 8000), (8000, 8000))), min_size=1, max_size=2)))
    small, large = (
        st.tuples(st.integers(1, most), st.integers(1, most)).map(lambda each: (1000 * each[0], 1000 * each[1]))
        for most in (3, 6)
    )
    jobs: list[JobSpec] = []
    for name in ("a", "b", "c"):
        lengths_s = tuple(draw(st.lists(st.integers(100, 140), min_size=3, max_size=5)))
        job = make_job(name, "research", 0.0, (), tuple(map(float, lengths_s)), 1.0)
        jobs.append(asking(job, draw(small)))
    jobs.append(asking(make_job("urgent", "production", 30.0, (), (5.0,), 1.0), draw(large)))
    return sizes, tuple(jobs), draw(st.sampled_from(("kill", "checkpoint"))), draw(st.sampled_from(("srt", "lrt")))


def asking(job: JobSpec, request: Resources) -> JobSpec:
    groups = tuple(structs.replace(group, request=request) for group in job.facts.groups)
    return structs.replace(job, facts=structs.replace(job.facts, groups=groups))


def answers(cluster: CheckedCluster) -> list[tuple[int, str, AllocateResponse]]:
    """When each job got each answer, in order, those repeated once."""
    found: dict[tuple[str, int], tuple[int, str, AllocateResponse]] = {}
    for record in cluster.records:
        for effect in record.effects:
            if isinstance(effect, Send) and isinstance(effect.message, ApplicationHeartbeatResponse):
                answer = effect.message.answer
                if answer is not None:
                    found.setdefault((effect.to, answer.id), (record.t_ns, effect.to[3:], answer))
    return list(found.values())


@given(full_clusters())
@fixed
def test_jobs_are_asked_for_what_is_missing_and_give_no_more_than_they_must(
    case: tuple[tuple[Resources, ...], tuple[JobSpec, ...], str, str],
) -> None:
    sizes, jobs, mechanism, task_eviction = case
    settings = make_settings(
        nodes=len(sizes),
        mechanism=mechanism,
        task_eviction=task_eviction,
        sizes=sizes,
        master_request=(1000, 1000),
        unmanaged_masters=True,
    )
    assert settings.nodes[0].resource_names == RESOURCES[:2]
    cluster = run_checked(settings, jobs)
    request = {job.facts.name: job.facts.groups[-1].request for job in jobs}
    until_ns = 60 * SECOND_NS
    told = [each for each in answers(cluster) if each[0] < until_ns]
    node_of = {c.container: (job, c.node) for _, job, answer in told for c in answer.allocated}
    before = {c: place for c, place in node_of.items() if place[0] != "urgent"}
    asked = {(job, node): keep for _, job, answer in reversed(told) for node, keep in answer.keeps}
    why = [e for r in cluster.records for e in r.effects if isinstance(e, ExplainTaskEviction)]
    victims = {task.container for each in why for task in each.candidates[: each.victims]}
    gone = [e.container for r in cluster.records for e in r.effects if isinstance(e, Kill | Checkpoint)]
    assert sorted(gone) == sorted(victims), "nobody else is taken, and nobody twice"
    urgent_ns, urgent_node = next(
        (at_ns, c.node) for at_ns, job, answer in told if job == "urgent" for c in answer.allocated
    )
    assert urgent_ns <= 37 * SECOND_NS
    if not asked:
        assert not victims
        return
    (node,) = {node for _, node in asked}
    assert node == urgent_node
    first_ns = min(at_ns for at_ns, _, answer in told if answer.keeps)
    resumed = {c.container for at_ns, _, answer in told if at_ns > first_ns for c in answer.allocated}
    there = {c: job for c, (job, at) in before.items() if at == node and c not in resumed}
    size = sizes[int(node[-1]) - 1]
    short = lacking(request["urgent"], minus(size, total((request[job] for job in there.values()), "ab")))
    asks: list[Resources] = []
    for (job, _), keep in asked.items():
        mine = [c for c, owner in there.items() if owner == job]
        asks.append(minus(total((request[job] for _ in mine), "ab"), keep))
        given = [c for c in mine if c in victims]
        assert fits(total((request[job] for c in mine if c not in given), "ab"), keep), "enough"
        assert not given or not fits(total((request[job] for c in mine if c not in given[1:]), "ab"), keep), "in vain"
    assert total(asks, "ab") == short
    assert victims <= set(there)
