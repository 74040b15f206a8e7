"""Who runs and who is stopped where jobs share CPUs (``PreemptMode=SUSPEND,GANG``).

Jobs are put on their nodes' CPUs: first those that are never stopped, which always have room beside each other, then
the others by tier, then in turn; whoever does not fit on all of its nodes is stopped.  After each time slice the jobs
of a tier that has stopped ones change turns: those that ran go to the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from emulator.policies.slurm.snapshot import Running
from emulator.sites.slurm import Mode


class TimeSlices:
    """The order of running jobs, by name."""

    def __init__(self) -> None:
        self._back: dict[str, int] = {}
        """How often each has gone to the end."""

    def active(self, running: Mapping[str, Running], cpus: Mapping[str, int]) -> set[str]:
        """The jobs that run now, of those that share nodes; ``running`` is in the order of starts."""
        free = dict(cpus)
        runs: set[str] = set()
        turns = {name: place for place, name in enumerate(running)}

        def place_in_order(name: str) -> tuple[bool, int, int, int]:
            job = running[name]
            is_stopped = job.waiting.terms.mode is Mode.SUSPEND
            return is_stopped, -job.tier, self._back.get(name, 0), turns[name]

        for name in sorted(running, key=place_in_order):
            job = running[name]
            if all(free[node] >= job.cpus for node in job.nodes):
                runs.add(name)
                for node in job.nodes:
                    free[node] -= job.cpus
        if len(runs) == len(running):
            self._back.clear()
        return runs

    def change(self, running: Mapping[str, Running], runs: set[str]) -> None:
        """A time slice is over: of tiers with stopped jobs, those that ran go to the end."""
        waiting = {job.tier for name, job in running.items() if name not in runs}
        for name in runs:
            if running[name].tier in waiting:
                self._back[name] = self._back.get(name, 0) + 1
