"""What Kueue counts of a pod's requests: some resources are left out, others become amounts of others.

https://kueue.sigs.k8s.io/docs/tasks/manage/share_quotas_across_resource_flavors/ and ``resources`` of Kueue's
Configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum

from emulator.vocabulary import Frozen
from workloads.kubernetes.quantities import amount


class TransformationStrategy(StrEnum):
    """Whether what is transformed counts beside its outputs."""

    RETAIN = "Retain"
    REPLACE = "Replace"


class Transformation(Frozen):
    """How an amount of one resource counts as amounts of others."""

    outputs: Mapping[str, Decimal] = {}
    """What one unit of it counts as, in units of each; less than nothing is an allowance for other inputs."""
    strategy: TransformationStrategy = TransformationStrategy.RETAIN
    multiply_by: str = ""
    """A resource with whose amount the outputs are multiplied, if the pod requests it."""


class Counting(Frozen):
    """``resources`` of Kueue's Configuration."""

    excluded_prefixes: tuple[str, ...] = ()
    transformations: Mapping[str, Transformation] = {}
    """By the resource that is transformed."""

    def counted(self, requests: Mapping[str, int]) -> dict[str, int]:
        """What counts of a pod's requests.  Raises ValueError: an amount is too large."""
        left = {name: value for name, value in requests.items() if not name.startswith(tuple(self.excluded_prefixes))}
        if left.keys().isdisjoint(self.transformations):
            return left
        kept, made = dict[str, Decimal](), dict[str, Decimal]()
        for name, value in left.items():
            transformation = self.transformations.get(name)
            if transformation is None or transformation.strategy is TransformationStrategy.RETAIN:
                kept[name] = _in_units(name, value)
            if transformation is not None:
                by = transformation.multiply_by
                units = _in_units(name, value) * (_in_units(by, left[by]) if by in left else 1)
                for output, factor in transformation.outputs.items():
                    made[output] = made.get(output, Decimal()) + units * factor
        both = {
            name: kept.get(name, Decimal()) + max(made.get(name, Decimal()), Decimal()) for name in {**kept, **made}
        }
        return {name: amount(name, value) for name, value in both.items()}


def _in_units(resource: str, value: int) -> Decimal:
    """An amount in whole units: of cpu in cores."""
    return Decimal(value) / 1000 if resource == "cpu" else Decimal(value)
