"""Sites: what clusters of Kubernetes, Kueue and Slurm are, as plain values, and what a job is to their schedulers.

In: nothing; importers (``workloads``) make the values, and files have them.  Out: the values, for the schedulers' rules
(``emulator.policies``) and for experiments.
"""

from __future__ import annotations

from collections.abc import Iterable


def refuse_twice(where: str, names: Iterable[str]) -> None:
    """Raise ValueError if several of the things at a place have one name."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{where}: '{name}' is there twice")
        seen.add(name)
