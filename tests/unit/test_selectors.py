"""Selectors of labels and node affinities: each operator, and how the API's form is read."""

from __future__ import annotations

from typing import Any

import pytest

from emulator.errors import ConfigError
from emulator.sites.kubernetes import HOSTNAME, Node
from emulator.sites.labels import NOTHING, Expression, LabelOperator, NodeTerm, Selector
from workloads.kubernetes import objects as api
from workloads.kubernetes.reading import Found
from workloads.kubernetes.selectors import node_terms_of, selector_of

HERE: Found[Any] = Found(api.Node("v1", "Node", "n"), "f:1")


@pytest.mark.parametrize(
    ("operator", "values", "holds_for", "not_for"),
    [
        ("In", ("a", "b"), ["a", "b"], ["c", None]),
        ("NotIn", ("a", "b"), ["c", None], ["a", "b"]),
        ("Exists", (), ["a", ""], [None]),
        ("DoesNotExist", (), [None], ["a", ""]),
        ("Gt", ("8",), ["9", "10"], ["8", "-9", "many", None]),
        ("Lt", ("8",), ["7", "-9"], ["8", "10", "7.5", None]),
    ],
)
def test_each_operator(operator: str, values: tuple[str, ...], holds_for: list[Any], not_for: list[Any]) -> None:
    expression = Expression("key", LabelOperator(operator), values)
    assert all(expression.matches(value) for value in holds_for)
    assert not any(expression.matches(value) for value in not_for)


def test_all_of_a_selector_has_to_hold() -> None:
    selector = Selector({"app": "web"}, (Expression("track", LabelOperator.NOT_IN, ("canary",)),))
    assert selector.matches({"app": "web"})
    assert selector.matches({"app": "web", "track": "stable"})
    assert not selector.matches({"app": "web", "track": "canary"})
    assert not selector.matches({"track": "stable"})
    assert Selector().matches({})
    assert not NOTHING.matches({"": "", "app": "web"})


def test_one_of_the_terms_of_a_node_affinity_has_to_hold() -> None:
    cores = NodeTerm((Expression("cores", LabelOperator.GT, ("16",)), Expression("gpu", LabelOperator.EXISTS)))
    named = NodeTerm(fields=(Expression("metadata.name", LabelOperator.IN, ("n7",)),))
    terms = (cores, named)
    assert Node("n1", {}, {"cores": "32", "gpu": ""}).meets(terms)
    assert not Node("n1", {}, {"cores": "32"}).meets(terms)
    assert Node("n7", {}).meets(terms)
    assert not Node("n1", {}).meets((NodeTerm(),))  # an empty term holds nowhere
    assert Node("n1", {}).meets((NodeTerm((Expression(HOSTNAME, LabelOperator.IN, ("n1",)),)),))
    assert (cores.names, named.names) == (None, ("n7",))


def test_the_form_of_the_api_is_read() -> None:
    given = api.LabelSelector({"app": "web"}, (api.Expression("track", "DoesNotExist"),))
    assert selector_of(HERE, "spec.selector", given) == Selector(
        {"app": "web"}, (Expression("track", LabelOperator.DOES_NOT_EXIST),)
    )
    term = api.NodeSelectorTerm((api.Expression("cores", "Lt", ("8",)),))
    (read,) = node_terms_of(HERE, "spec.affinity", api.NodeSelector((term,)))
    assert read == NodeTerm((Expression("cores", LabelOperator.LT, ("8",)),))
    assert node_terms_of(HERE, "spec.affinity", None) == ()


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (api.Expression("a", "Gt", ("1",)), "operator: must be one of In, NotIn, Exists, DoesNotExist"),
        (api.Expression("a", "in", ("1",)), "operator: must be one of In, "),
        (api.Expression("a", "In"), "values: In needs values"),
        (api.Expression("a", "Exists", ("1",)), "values: Exists needs no values"),
    ],
)
def test_what_the_api_refuses_is_refused(expression: api.Expression, message: str) -> None:
    with pytest.raises(ConfigError, match=r"f:1: Node n: spec.selector, ") as raised:
        selector_of(HERE, "spec.selector", api.LabelSelector({}, (expression,)))
    assert message in str(raised.value)
