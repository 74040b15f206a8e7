"""A node where tasks of a job keep failing is avoided by that job, unless too many are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from simulated import SECOND_NS, CheckedCluster, make_job, make_settings, run_checked

from emulator.core.application_master.asks import Blacklist
from emulator.core.effects import Launch
from emulator.core.messages import JobState
from emulator.core.settings import NodeSettings
from emulator.records.journal import merge
from emulator.vocabulary import Resources, Work


def nodes(sizes: Mapping[str, Resources]) -> list[NodeSettings]:
    (one,) = make_settings(nodes=1, containers=1).nodes
    return [replace(one, name=name, resources=resources) for name, resources in sizes.items()]


def test_a_node_is_avoided_once_enough_has_failed_there_and_none_where_a_third_would_be() -> None:
    blacklist = Blacklist(2, nodes(dict.fromkeys("abcdefg", ())), {()})
    for node in ("b", "a", "b", "c"):
        blacklist.failed(node)
    assert blacklist.avoided == ("b",)
    blacklist.failed("a")
    assert blacklist.avoided == ("a", "b")
    blacklist.failed("c")
    assert blacklist.avoided == (), "three of seven are a third"
    blacklist.node_lost("c")
    assert blacklist.avoided == (), "two of six are"
    blacklist.node_lost("a")
    assert blacklist.avoided == ("b",)
    blacklist.node_lost("d")
    blacklist.node_lost("e")
    assert blacklist.avoided == (), "one of three is"
    blacklist.node_is_there("e")
    assert blacklist.avoided == ("b",)


def test_no_node_is_avoided_if_a_group_would_have_no_other_that_is_large_enough() -> None:
    sizes = {"large": (8,), "other": (8,), **dict.fromkeys("abcde", (2,))}
    blacklist = Blacklist(1, nodes(sizes), {(1,), (4,)})
    blacklist.failed("large")
    assert blacklist.avoided == ("large",)
    blacklist.node_lost("other")
    assert blacklist.avoided == ()
    blacklist.node_is_there("other")
    assert blacklist.avoided == ("large",)


def test_what_fails_again_and_again_on_a_node_goes_elsewhere() -> None:
    settings = make_settings(nodes=4, containers=2)
    job = make_job("research", reduces_s=(30.0,) * 7)

    def run(every_heartbeat: bool) -> CheckedCluster:
        def disturb(cluster: CheckedCluster) -> None:
            def crash() -> None:
                tasks = cluster.processes.tasks
                for container in [name for name, task in tasks.items() if task.node == "node-2"]:
                    if tasks[container].launch.work is Work.KEYS:
                        cluster.processes.crash(container, 11, "segmentation fault")

            for at_s in (8, 16):
                cluster.kernel.at(at_s * SECOND_NS, crash)

        return run_checked(settings, (job,), disturb=disturb, every_heartbeat=every_heartbeat)

    cluster = run(every_heartbeat=False)
    assert cluster.finished_jobs == {"research": JobState.SUCCEEDED}
    launched = [
        (record.t_ns, record.actor)
        for record in cluster.records
        for effect in record.effects
        if isinstance(effect, Launch) and effect.work is Work.KEYS
    ]
    assert len(launched) >= 7 + 3
    assert "nm:node-2" not in {actor for at_ns, actor in launched if at_ns > 18 * SECOND_NS}
    assert merge(cluster.records) == merge(run(every_heartbeat=True).records)
