"""Label selectors, node affinities, taints and tolerations of the API as values: of pods, budgets and flavors alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from emulator.sites.kubernetes import Effect, Operator, Taint, Toleration
from emulator.sites.labels import Expression, LabelOperator, NodeTerm, Selector
from workloads.kubernetes import objects as api
from workloads.kubernetes.reading import Found

_OF_LABELS = (LabelOperator.IN, LabelOperator.NOT_IN, LabelOperator.EXISTS, LabelOperator.DOES_NOT_EXIST)
_COUNTS = {LabelOperator.EXISTS: (0, 0), LabelOperator.DOES_NOT_EXIST: (0, 0), LabelOperator.GT: (1, 1)}
_COUNTS[LabelOperator.LT] = _COUNTS[LabelOperator.GT]
_COMPARING = ("Lt", "Gt")
"""Operators of tolerations that compare numbers, which are alpha."""


def selector_of(found: Found[Any], field: str, given: api.LabelSelector) -> Selector:
    """A label selector.  Raises ConfigError: a bad operator, or too few or too many values for it."""
    expressions = tuple(_expression(found, field, each, _OF_LABELS) for each in given.matchExpressions)
    return Selector(given.matchLabels, expressions)


def node_term_of(found: Found[Any], field: str, given: api.NodeSelectorTerm) -> NodeTerm:
    """A term of a node affinity.  Raises ConfigError, as ``selector_of`` does."""
    both = (
        tuple(_expression(found, field, each, tuple(LabelOperator)) for each in each_kind)
        for each_kind in (given.matchExpressions, given.matchFields)
    )
    return NodeTerm(*both)


def node_terms_of(found: Found[Any], field: str, given: api.NodeSelector | None) -> tuple[NodeTerm, ...]:
    """The terms of a node affinity, one of which has to hold; none: there is no node affinity."""
    return () if given is None else tuple(node_term_of(found, field, each) for each in given.nodeSelectorTerms)


def _expression(found: Found[Any], field: str, given: api.Expression, known: Iterable[LabelOperator]) -> Expression:
    operator = found.word(f"{field}, operator", LabelOperator, given.operator)
    if operator not in known:
        raise found.problem(f"{field}, operator", f"must be one of {', '.join(known)}")
    least, most = _COUNTS.get(operator, (1, len(given.values)))
    if not least <= len(given.values) <= most:
        wanted = "one value" if most else "no values"
        raise found.problem(f"{field}, values", f"{operator} needs {'values' if not given.values else wanted}")
    return Expression(given.key, operator, given.values)


def taints_of(found: Found[Any], field: str, given: Iterable[api.NodeTaint]) -> tuple[Taint, ...]:
    """Taints of a node or a flavor.  Raises ConfigError: a bad effect."""
    return tuple(Taint(each.key, found.word(f"{field}, effect", Effect, each.effect), each.value) for each in given)


def tolerations_of(found: Found[Any], field: str, given: Iterable[api.Toleration]) -> Iterator[Toleration]:
    """Tolerations, but for those that ``compares_numbers``.  Raises ConfigError: a bad operator or effect."""
    for each in given:
        if compares_numbers(each):
            continue
        operator = found.word(f"{field}, operator", Operator, each.operator or Operator.EQUAL.value)
        effect = found.word(f"{field}, effect", Effect, each.effect) if each.effect else None
        yield Toleration(each.key, operator, each.value, effect)


def compares_numbers(given: api.Toleration) -> bool:
    """Whether a toleration compares numbers, which is not modelled."""
    return given.operator in _COMPARING
