"""How pods of one shape fit on each node: remembered, and looked at again only where something has changed.

A scheduler looks at the same pods again and again while little changes: whoever waits is woken whenever a pod leaves
any node.  What is remembered equals what would be found by looking at all nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from emulator.policies.kubernetes.filters import Domain, FitError
from emulator.sites.kubernetes import Pod

AnswerT = TypeVar("AnswerT")
Shape = tuple[object, ...]
MAX_SHAPES = 2000
"""Remembered at once: one with a hundred nodes takes some ten thousand bytes."""


def shape_of(pod: Pod, labels_matter: bool) -> Shape:
    """All of a pod that decides where it fits and whom it preempts; its labels only where somebody avoids some."""
    labels = tuple(sorted(pod.labels.items())) if labels_matter else ()
    anti_affinity = tuple((tuple(sorted(each.labels.items())), each.topology) for each in pod.anti_affinity)
    requests, selector = tuple(pod.requests.items()), tuple(pod.selector.items())
    return pod.priority, requests, selector, pod.tolerations, anti_affinity, labels


class Answers(Generic[AnswerT]):
    """One answer for each node.  A mapping that was given out stays as it is."""

    __slots__ = ("_by_node", "_seen")

    def __init__(self) -> None:
        self._by_node: dict[str, AnswerT] = {}
        self._seen = 0

    def now(
        self, nodes: Mapping[str, object], changes: Sequence[str], ask: Callable[[str], AnswerT]
    ) -> Mapping[str, AnswerT]:
        """The answers, of which those are asked for that are not known or may have changed.

        Args:
            nodes: all, in the order of the answers.
            changes: the nodes that have changed, one after another from the beginning.
            ask: gives the answer of a node.
        """
        if not self._by_node:
            self._by_node = {name: ask(name) for name in nodes}
        elif self._seen < len(changes):
            self._by_node = {**self._by_node, **{name: ask(name) for name in dict.fromkeys(changes[self._seen :])}}
        self._seen = len(changes)
        return self._by_node


class View:
    """What is known of the nodes for pods of one shape."""

    __slots__ = ("closed", "derived", "misfits", "pod", "victims")

    def __init__(self, pod: Pod, closed: Counter[Domain]) -> None:
        self.pod = replace(pod, name="")
        """Any of them, that waits for no node."""
        self.closed = closed
        """The domains that are closed to them."""
        self.misfits: Answers[FitError | None] = Answers()
        """None: they fit."""
        self.victims: Answers[Any] = Answers()
        """What ``preemption`` found."""
        self.derived: dict[str, tuple[Mapping[str, Any], Any]] = {}
        """By name: from which answers something was made, and what."""

    def made_of(self, name: str, answers: Mapping[str, AnswerT], make: Callable[[Mapping[str, AnswerT]], Any]) -> Any:
        """What ``make`` makes of these answers; made once while they stay the same."""
        known = self.derived.get(name)
        if known is None or known[0] is not answers:
            known = self.derived[name] = answers, make(answers)
        return known[1]
