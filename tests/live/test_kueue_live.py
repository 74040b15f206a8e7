"""An imported cluster with Kueue on real processes: a gang is evicted for another, and goes on."""

from __future__ import annotations

from pathlib import Path

from emulator.records.replay import replay
from emulator.sites.kueue import (
    Arrival,
    Cluster,
    ClusterQueue,
    FlavorQuotas,
    Kueue,
    PodSet,
    Policy,
    Preemption,
    Quota,
    ResourceGroup,
    Workload,
)
from emulator.vocabulary import SECOND_NS
from tests.hosts_here import HostsHere
from workloads.saved import write_saved


def gang(name: str, priority: int, at_s: int, length_s: int) -> Arrival:
    """A workload that needs all of the queue."""
    podsets = (PodSet("main", 2, {"cpu": 2000}),)
    return Arrival(Workload(name, "team", podsets, priority, at_s * SECOND_NS), length_s * SECOND_NS)


def test_a_gang_is_stopped_for_another_and_goes_on(tmp_path: Path) -> None:
    group = ResourceGroup(("cpu",), (FlavorQuotas("default", {"cpu": Quota(4000)}),))
    queue = ClusterQueue("team", groups=(group,), preemption=Preemption(Policy.LOWER_PRIORITY))
    arrivals = (gang("low", 0, 0, 40), gang("high", 1, 10, 10))
    write_saved(tmp_path / "mine.yaml", Kueue(Cluster((queue,)), arrivals=arrivals), ())
    settings = "engine: live\ntime_scale: 20\nscheduler: {mechanism: suspend}\n"
    experiment = f"name: kueue\nsite: {tmp_path / 'mine.yaml'}\n{settings}"
    with HostsHere(tmp_path, experiment=experiment) as run:
        run.check_verified()
        attempts = [row for row in run.table("attempts") if row["kind"] == "pod"]
        assert replay(run.records(), run.machine) is None
    stops = {row["job"]: row["suspensions"] for row in run.table("tasks") if row["kind"] == "pod"}
    assert (len(attempts), stops) == (4, {"low": 1, "high": 0}), "both tasks of the gang went on where they were"
