"""The command who."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.options import Strict
from emulator.display.basis import head_answer
from emulator.display.console import say, warn
from emulator.errors import ConfigError, RunError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from emulator.policies.kubernetes.cycle import Decision
    from emulator.sites.kubernetes import Kubernetes, Pod, State

_SAMPLED_NODES = 100
_MAX_NAMES = 10
_BEST_NODES = 5
_STARTS = 24
"""From so many nodes the search is begun, to see what chance does."""
_SUFFIXES = (".yaml", ".yml", ".json")


def who(
    file: Annotated[
        Path,
        typer.Argument(help="Kubernetes' objects (YAML, JSON, a folder), or an imported file.", show_default=False),
    ],
    pod: Annotated[
        str, typer.Argument(help="A pod that waits there (NAMESPACE/NAME), or a manifest's file.", show_default=False)
    ],
    strict: Strict = False,
) -> None:
    """Say who would be evicted for a pod now, by kube-scheduler's rules, and from which node.

    Answers from one snapshot, without a cluster and without an experiment. It shows the five best nodes, and for the
    others why the pod does not go there, by reason. If the pod fits somewhere, nobody is evicted, and the scores of the
    nodes are shown. If the pod is in a PodGroup, the answer is for all pods of the group that wait.

    A manifest may have a Pod, or a Job, Deployment, StatefulSet or DaemonSet: then the answer is for all of its pods in
    turn, each in the cluster that the one before leaves.

    \b
    Examples:
      kubectl get nodes,namespaces,pods,deployments,replicasets,statefulsets,daemonsets,jobs,services \\
        -A -o json > cluster.json
      kubectl get priorityclasses,poddisruptionbudgets,pv,pvc -A -o json >> cluster.json
      natjam who cluster.json shop/train-7
      natjam who cluster.json new-pod.yaml
    """
    from emulator.cli.options import reading
    from emulator.sites.kubernetes import Kubernetes
    from workloads.kubernetes.cluster import read_kubernetes
    from workloads.saved import read_saved, system_of

    with reading(file) as on_bytes:
        is_imported = system_of(file) is not None
        cluster = read_saved(file, Kubernetes) if is_imported else read_kubernetes([file], on_bytes).cluster
    pods, not_modelled = _from_manifest(cluster, Path(pod)) if pod.endswith(_SUFFIXES) else _waiting(cluster, pod)
    head_answer(cluster.basis, strict)
    for each in not_modelled:
        say(f"of this pod, {each}")
    if strict and not_modelled:
        raise RunError("--strict: the lines above say what of this pod decides and is not modelled")
    for line in _answer(cluster.state, pods):
        say(line)


def _answer(state: State, pods: Sequence[Pod]) -> Iterator[str]:
    from emulator.policies.kubernetes.cycle import one_by_one
    from emulator.policies.kubernetes.gangs import gang_of, place_gang
    from emulator.policies.kubernetes.terms import first_of_best
    from emulator.policies.kubernetes.why import why_gang, why_placement, why_preemption

    gang = gang_of(state, pods[0])
    if gang is not None:
        yield from why_gang(place_gang(state, gang, first_of_best))
        return
    decisions = []
    for each in one_by_one(state, pods, first_of_best):
        decisions.append(each)
        lines = (
            why_placement(each.placement, _BEST_NODES)
            if each.preemption is None
            else why_preemption(each.preemption, _BEST_NODES)
        )
        # Of the further pods of a workload, which are like the first one, only what becomes of them.
        yield from lines if len(decisions) == 1 else islice(lines, 1 + bool(each.victims))
    yield from _sampled(state, decisions[0])
    if len(decisions) > 1:
        bound = sum(each.preemption is None for each in decisions)
        preempting = sum(bool(each.victims) for each in decisions)
        evicted = [printable(name) for each in decisions for name in each.evicted]
        would = f"; evicted: {', '.join(evicted)}" if evicted else ""
        rest = len(decisions) - bound - preempting
        yield f"of {len(decisions):,} pods {bound:,} fit, {preempting:,} preempt, {rest:,} wait{would}"


def _sampled(state: State, decision: Decision) -> Iterator[str]:
    """What kube-scheduler may do else where it looks at a part of the nodes."""
    from emulator.policies.kubernetes.cycle import from_other_starts
    from emulator.policies.kubernetes.terms import first_of_best

    nodes, placement = len(state.nodes), decision.placement
    if nodes <= _SAMPLED_NODES:
        return
    if decision.preemption is not None:
        draws = max(_SAMPLED_NODES, nodes // 10)
        if len(decision.preemption.candidates) > draws:
            yield f"kube-scheduler compares {draws:,} of these candidates, by chance; this is the best of all of them"
        return
    others = from_other_starts(state, placement.pod, first_of_best, _STARTS)
    here = others.pop(placement.node or "", 0)
    yield (
        f"kube-scheduler looked at {placement.looked:,} of {nodes:,} nodes, from a start that moves on with each pod;"
        f" from {_STARTS} starts all around it takes {placement.node} {here} times"
    )
    for node, times in others.most_common(_BEST_NODES):
        yield f"  and {printable(node)} {times} times"


def _waiting(cluster: Kubernetes, name: str) -> tuple[list[Pod], tuple[str, ...]]:
    """The pod of this name.  Raises ConfigError: there is none, it runs already, or several have the name."""
    waiting = [each.pod for each in cluster.state.waiting]
    found = [each for each in waiting if name in (each.name, each.name.rpartition("/")[2])]
    if len(found) == 1:
        return found, cluster.partial.get(found[0].name, ())
    if found:
        raise ConfigError(f"POD {name}: {', '.join(each.name for each in found[:_MAX_NAMES])} have this name; name one")
    on = next((each.node for each in cluster.state.bound if each.pod.name == name), None)
    if on is not None:
        raise ConfigError(f"POD {name}: it is on {printable(on)} already; name a pod that waits, or a manifest's file")
    names = ", ".join(printable(each.name) for each in waiting[:_MAX_NAMES])
    there = f"these wait: {names}{', ...' * (len(waiting) > _MAX_NAMES)}" if names else "no pod waits"
    raise ConfigError(f"POD {name}: no pod of this name waits; {there}; or name a manifest's file, such as pod.yaml")


def _from_manifest(cluster: Kubernetes, path: Path) -> tuple[list[Pod], tuple[str, ...]]:
    """The pods of a manifest, and what of the first is not modelled.  Raises ConfigError."""
    from workloads.kubernetes.objects import KINDS
    from workloads.kubernetes.pods import PodMaker, context_of
    from workloads.kubernetes.present import Pods
    from workloads.kubernetes.reading import read_objects
    from workloads.setting_effects import Effect, settings_of

    classes = {each.name: each for each in cluster.classes}
    nodes = {each.name: each for each in cluster.state.nodes}
    groups = {each.name: each for each in cluster.state.groups}
    objects = read_objects([path], KINDS, settings_of("kubernetes"))
    maker = PodMaker(classes, nodes, groups, context_of(objects, cluster.context))
    found = [each.pod for each in Pods(objects, maker).read() if not each.node and not each.ended]
    left_out = [str(each) for each in maker.losses if each.effect is Effect.LEFT_OUT]
    if not found:
        others = [f"does not take {each}" for each in objects.others] or [f"leaves out {each}" for each in left_out]
        but = f"; natjam {', '.join(others[:_MAX_NAMES])}" if others else ""
        raise ConfigError(f"{path}: has no Pod, nor anything with pods that wait{but}")
    for each in left_out:
        warn(f"left out: {each}")
    return found, maker.partial.get(found[0].name, ())
