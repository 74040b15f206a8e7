"""What kube-scheduler's rules are given: the nodes and pods of an imported cluster."""

from __future__ import annotations

from collections.abc import Mapping

from emulator.policies.kubernetes.model import BudgetSpec, Group, Node, Victims
from emulator.policies.kubernetes.player import Arrival
from emulator.vocabulary import Frozen


class Rules(Frozen):
    """What kube-scheduler decides by; ``natjam import kubernetes`` writes it."""

    nodes: tuple[Node, ...]
    pods: tuple[Arrival, ...]
    """By the names of their jobs.  Times count from the start of the run; before 0: it ran already."""
    budgets: tuple[BudgetSpec, ...] = ()
    victims: Victims = Victims.IMPORTANCE
    groups: tuple[Group, ...] = ()
    too_large: Mapping[str, str] = {}
    """Pods that are left out because no node is large enough, and what they lack."""
