"""Tables of settings: each agrees with the list of its documentation, and losses are counted by what they do."""

from __future__ import annotations

from pathlib import Path

import pytest

from emulator.sites.basis import Gap
from workloads.setting_effects import MAX_LISTED, Effect, Loss, Setting, SettingsTable, basis_of, listed, settings_of

LISTS = Path(__file__).parent.parent / "settings"
SYSTEMS = [path.name for path in sorted(LISTS.glob("*"))]


def keys_of(path: Path) -> list[str]:
    """The keys of an official list, without its comments."""
    return [line for line in path.read_text().splitlines() if line and not line.startswith("#")]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_table_and_the_lists_of_the_documentation_have_the_same_settings(system: str) -> None:
    table = settings_of(system)
    of_lists = {path.stem.replace("-", " "): keys_of(path) for path in (LISTS / system).glob("*.txt")}
    of_table: dict[str, list[str]] = {}
    for each in table.settings:
        of_table.setdefault(each.of.replace("-", " "), []).append(each.key)
    assert of_table.keys() == of_lists.keys()
    for name, keys in of_table.items():
        assert sorted(keys) == sorted(of_lists[name]), name


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_setting_that_is_not_modelled_has_a_reason_and_every_list_a_source(system: str) -> None:
    table = settings_of(system)
    for each in table.settings:
        assert each.reason or each.effect is Effect.MODELLED, each
        assert not (each.inert and each.effect is Effect.NOTHING), f"{each}: nothing is inert that decides nothing"
        assert each.effect is not Effect.LEFT_OUT, each
    assert {each.of for each in table.settings} == table.sources.keys()


TABLE = SettingsTable(
    (
        Setting("site.conf", "Order", Effect.DECIDES, ("fifo", "{}"), "orders are not modelled"),
        Setting("site.conf", "queues.<queue>.limit", Effect.DECIDES, (), "limits are not modelled"),
        Setting("site.conf", "queues.<queue>.limit.log", Effect.NOTHING, (), "where it writes"),
        Setting("site.conf", "Nodes", Effect.MODELLED),
    ),
    {"site.conf": "1.0, the manual"},
)


@pytest.mark.parametrize(
    ("key", "value", "effect"),
    [
        ("order", "FIFO", None),
        ("Order", "{}", None),
        ("Order", "lifo", Effect.DECIDES),
        ("Nodes", "4", None),
        ("Nodes.of", "4", None),
        ("queues.a.b.limit", "1", Effect.DECIDES),
        ("queues.a.limit.log", "x", Effect.NOTHING),
        ("Else", "1", Effect.DECIDES),
    ],
)
def test_a_setting_is_lost_by_its_row_and_value(key: str, value: str, effect: Effect | None) -> None:
    loss = TABLE.loss("site.conf", key, value, "site.conf:1")
    assert (loss and loss.effect) is effect


def test_losses_are_counted_by_reason_and_what_has_one_twice_counts_once() -> None:
    pods = [
        Loss(f"Pod {name}.spec.{field}", f"f:{line}", "affinity is not modelled", Effect.DECIDES, "pods", name)
        for line, (name, field) in enumerate([("a", "x"), ("a", "y"), ("b", "x")], start=1)
    ]
    jobs = [Loss(f"job {n}", f"j:{n}", "it never ran", Effect.LEFT_OUT, "jobs", work=10.0) for n in (1, 2)]
    other = [Loss("Log=1", "c:1", "where its log goes", Effect.NOTHING)]
    once = [Loss("Order=lifo", "c:2", "orders are not modelled", Effect.DECIDES)]
    basis = basis_of([*once, *pods, *jobs, *other], {"pods": 5, "jobs": 4}, work=80.0)
    assert basis.decides == (
        Gap("affinity is not modelled", 2, "pods", "Pod a.spec.x (f:1)", 5),
        Gap("orders are not modelled", 1, "settings", "Order=lifo (c:2)"),
    )
    assert basis.left_out == (Gap("it never ran", 2, "jobs", "job 1 (j:1)", 4, 0.25),)
    assert basis.rest == 1
    assert str(basis.left_out[0]) == "2 of 4 jobs (25.0% of the work): it never ran; for example job 1 (j:1)"
    assert basis


def test_of_many_losses_with_one_reason_the_first_are_listed() -> None:
    jobs = [Loss(f"job {n}", f"j:{n}", "memory is not modelled", Effect.DECIDES, "jobs") for n in range(MAX_LISTED + 7)]
    lines = [*listed([*jobs, Loss("Order=lifo", "c:1", "orders are not modelled", Effect.DECIDES)])]
    assert len(lines) == MAX_LISTED + 2
    assert lines[-2:] == ["Order=lifo (c:1): orders are not modelled", "and 7 jobs more: memory is not modelled"]
