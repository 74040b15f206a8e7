"""Where a pod goes: the nodes where it fits, the best of them, and why not the others."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.policies.kubernetes.filters import FitError
from emulator.policies.kubernetes.scores import Score, score
from emulator.policies.kubernetes.snapshot import Snapshot
from emulator.policies.kubernetes.terms import Ties
from emulator.sites.kubernetes import Pod
from emulator.vocabulary import Frozen


class Placement(Frozen):
    """The answer for one pod."""

    pod: Pod
    node: str | None
    """None: it fits nowhere."""
    scores: Mapping[str, Score] = {}
    """The score of each node where it fits, in the scheduler's order; none if there was no choice."""
    misfits: Mapping[str, FitError] = {}
    """Why it does not fit on the others."""
    was_nominated: bool = False
    """It has made room on this node before, and gets it whatever the scores."""


def place_in(snapshot: Snapshot, pod: Pod, nominated: str | None, ties: Ties) -> Placement:
    """The node for a pod as the cluster is.

    Above 100 nodes kube-scheduler looks for some that fit and scores these only; here all are looked at.
    """
    view = snapshot.view(pod)
    answers = snapshot.fit_errors(view)
    if nominated in snapshot.rooms:
        own = snapshot.fit_error(snapshot.rooms[nominated], pod, view.closed)
        if own is None:
            return Placement(pod, nominated, was_nominated=True)
        answers = {**answers, nominated: own}
    fitting, misfits = view.made_of("fits", answers, _split)
    if len(fitting) < 2:
        return Placement(pod, fitting[0] if fitting else None, {}, misfits)
    scores = score([snapshot.rooms[name] for name in fitting], pod)
    node = ties([(name, each.total) for name, each in scores.items()])
    return Placement(pod, node, scores, misfits)


def _split(answers: Mapping[str, FitError | None]) -> tuple[list[str], Mapping[str, FitError]]:
    """The nodes that fit, and why the others do not."""
    misfits = {name: misfit for name, misfit in answers.items() if misfit is not None}
    return [name for name in answers if name not in misfits], misfits
