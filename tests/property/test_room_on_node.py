"""What is taken back so that a request fits on a node is enough, all of it is needed, and it is where the rule says."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from emulator.core.resource_manager.victims import choose_node
from emulator.policies.resources import dominant_ppm, fits, irreducible, lacking, plus
from emulator.policies.views import TaskView
from emulator.vocabulary import Resources
from tests.examples import fixed

WHOLE = (30, 30)
amounts = st.tuples(st.integers(0, 6), st.integers(0, 6))
drawn_tasks = st.lists(
    st.builds(
        lambda job, node, request: TaskView("", job, "reduce", node, 0, request=request),
        st.sampled_from(("a", "b", "c")),
        st.sampled_from(("node-1", "node-2", "node-3")),
        amounts,
    ),
    max_size=7,
)


def ranked(tasks: list[TaskView]) -> list[TaskView]:
    """Job by job, each with a name of its own."""
    in_order = sorted(tasks, key=lambda task: task.job)
    named = [(f"container-{n}", task) for n, task in enumerate(in_order)]
    return [TaskView(name, task.job, "reduce", task.node, 0, request=task.request) for name, task in named]


def frees(task: TaskView) -> Resources:
    """As if stopped processes kept the second resource of job b."""
    return (task.request[0], 0) if task.job == "b" else task.request


def together(tasks: tuple[TaskView, ...]) -> Resources:
    found: Resources = (0, 0)
    for task in tasks:
        found = plus(found, frees(task))
    return found


@given(amounts, drawn_tasks)
@fixed
def test_enough_is_taken_and_none_of_it_in_vain(short: Resources, drawn: list[TaskView]) -> None:
    tasks = ranked(drawn)
    taken = irreducible(short, tasks, frees)
    subsets = [subset for count in range(len(tasks) + 1) for subset in combinations(tasks, count)]
    enough = [subset for subset in subsets if fits(short, together(subset))]
    assert (taken is None) == (not enough)
    if taken is not None:
        assert taken in enough
        assert not any(fits(short, together(taken[:n] + taken[n + 1 :])) for n in range(len(taken)))
        # No set of tasks that ends earlier in the order is enough.
        last = max((tasks.index(task) for task in taken), default=-1)
        assert not taken or not any(all(tasks.index(task) < last for task in subset) for subset in enough)


@given(amounts, st.tuples(amounts, amounts, amounts), drawn_tasks)
@fixed
def test_the_node_is_the_best_of_those_where_room_can_be_made(
    request: Resources, rooms: tuple[Resources, ...], drawn: list[TaskView]
) -> None:
    tasks = ranked(drawn)
    spare = {f"node-{n}": room for n, room in enumerate(rooms[:2], start=1)}  # node-3 is one that the job avoids
    found: list[tuple[int, int, int, str]] = []
    jobs = sorted({task.job for task in tasks})
    for name, there in spare.items():
        taken = irreducible(lacking(request, there), [task for task in tasks if task.node == name], frees)
        if taken is not None:
            assert fits(request, plus(there, together(taken)))
            last = max((jobs.index(task.job) for task in taken), default=-1)
            found.append((last, len(taken), dominant_ppm(together(taken), WHOLE), name))
    chosen = choose_node(request, spare, tasks, frees, WHOLE)
    assert (chosen is None) == (not found)
    if chosen is not None:
        assert chosen.node == min(found)[3]
        assert {task.node for task in chosen.tasks} <= {chosen.node}
