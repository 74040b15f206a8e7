"""Selectors of labels, as Kubernetes' API has them: of pods, of nodes, and of namespaces.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from emulator.vocabulary import Frozen

NAME_FIELD = "metadata.name"
"""The only field by which nodes are selected."""


class LabelOperator(StrEnum):
    """How an expression compares the value of a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    """Of nodes only: the label is a whole number, and more than the value."""
    LT = "Lt"


class Expression(Frozen):
    """A condition on the label of one key."""

    key: str
    operator: LabelOperator
    values: tuple[str, ...] = ()

    def matches(self, value: str | None) -> bool:
        """Whether it holds for a label's value; None: the label is not there, which ``NotIn`` allows."""
        match self.operator:
            case LabelOperator.IN:
                return value in self.values
            case LabelOperator.NOT_IN:
                return value not in self.values
            case LabelOperator.EXISTS:
                return value is not None
            case LabelOperator.DOES_NOT_EXIST:
                return value is None
        numbers = [_whole_number(each) for each in (value, *self.values)]
        if len(numbers) != 2 or numbers[0] is None or numbers[1] is None:
            return False
        return numbers[0] > numbers[1] if self.operator is LabelOperator.GT else numbers[0] < numbers[1]

    def __str__(self) -> str:
        values = f" {', '.join(self.values)}" if self.values else ""
        return f"{self.key} {self.operator}{values}"


def _whole_number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


class Selector(Frozen):
    """Labels with their values, and expressions, that all have to hold.  An empty one matches everything."""

    labels: Mapping[str, str] = {}
    expressions: tuple[Expression, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether it requests nothing."""
        return not (self.labels or self.expressions)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether it holds for something with these labels."""
        for key, value in self.labels.items():
            if labels.get(key) != value:
                return False
        return all(each.matches(labels.get(each.key)) for each in self.expressions)


NOTHING = Selector(expressions=(Expression("", LabelOperator.IN),))
"""Matches nothing, as a selector that is left out of a term does."""


class NodeTerm(Frozen):
    """A term of a node affinity: expressions over labels, and over fields, that all have to hold.

    An empty one holds for no node.
    """

    expressions: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it holds for a node of this name and these labels."""
        if not (self.expressions or self.fields):
            return False
        return all(each.matches(labels.get(each.key)) for each in self.expressions) and all(
            each.matches(name if each.key == NAME_FIELD else None) for each in self.fields
        )

    @property
    def names(self) -> tuple[str, ...] | None:
        """The only nodes for which it can hold, if it names them."""
        named = [each.values for each in self.fields if each.operator is LabelOperator.IN and each.key == NAME_FIELD]
        return named[0] if named else None
