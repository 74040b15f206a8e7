"""What YARN's CapacityScheduler can be told itself: its preemption off, as configured, and with quicker settings.

Each setting is a property ``yarn.resourcemanager.monitor.capacity.preemption.*`` of ``yarn-site.xml`` (Hadoop 3.4).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from emulator.experiment.model import Scheduler

PREFIX = "yarn.resourcemanager.monitor.capacity.preemption."
ON = "yarn.resourcemanager.scheduler.monitor.enable=true"
OFF = "yarn.resourcemanager.scheduler.monitor.enable=false"
_QUICKER: dict[str, tuple[float, str, str]] = {
    "total_preemption_per_round": (1, "total_preemption_per_round", "1.0"),
    "natural_termination_factor": (1, "natural_termination_factor", "1.0"),
    "max_wait_before_kill_s": (1, "max_wait_before_kill", "1000"),
    "interval_s": (1, "monitoring_interval", "1000"),
    "max_ignored_over_capacity": (0, "max_ignored_over_capacity", "0.0"),
}
"""By our key: the value at its quickest, the property, and that value as YARN has it (milliseconds)."""
_TRIED_ALONE = ("total_preemption_per_round", "natural_termination_factor", "max_wait_before_kill_s")


def policies(scheduler: Scheduler, assumed: list[str]) -> Iterator[tuple[str, dict[str, Any], bool, tuple[str, ...]]]:
    """Name, settings, whether only killing is tried under it, and the properties to set."""
    key = "scheduler.allocation.preemption"
    configured = scheduler.choice("allocation").options.get("preemption", {})
    if configured is not None:
        yield "as configured", {}, False, ()
    else:
        assumed.append("YARN's preemption is on, with Hadoop's defaults, although the configuration has it off")
        yield "Hadoop's defaults", {key: {}}, False, (ON,)
    base, on = dict(configured or {}), () if configured is not None else (ON,)
    for name in _TRIED_ALONE:
        value, _, shown = _QUICKER[name]
        if base.get(name) != value:
            yield f"{_QUICKER[name][1]}={shown}", {key: {**base, name: value}}, True, (*on, _property(name))
    quickest = {**base, **{name: value for name, (value, _, _) in _QUICKER.items()}}
    yield "YARN at its quickest", {key: quickest}, False, (*on, *map(_property, _QUICKER))


def _property(name: str) -> str:
    _, property_, value = _QUICKER[name]
    return f"{PREFIX}{property_}={value}"
