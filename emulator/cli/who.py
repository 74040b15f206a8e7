"""The command who."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from emulator.cli.options import Strict
from emulator.display.basis import head_answer
from emulator.display.console import say, warn
from emulator.errors import ConfigError, RunError, printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.sites.kubernetes import Kubernetes, Pod, State

_SAMPLED_NODES = 100
_MAX_NAMES = 10
_BEST_NODES = 5
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

    A manifest may have a Pod, or a Job or Deployment, of which one pod is taken.

    \b
    Examples:
      kubectl get nodes,pods,priorityclasses,poddisruptionbudgets,jobs,deployments -A -o json > cluster.json
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
    asked, not_modelled = _from_manifest(cluster, Path(pod)) if pod.endswith(_SUFFIXES) else _waiting(cluster, pod)
    head_answer(cluster.basis, strict)
    for each in not_modelled:
        say(f"of this pod, {each}")
    if strict and not_modelled:
        raise RunError("--strict: the lines above say what of this pod decides and is not modelled")
    for line in _answer(cluster.state, asked):
        say(line)
    if len(cluster.state.nodes) > _SAMPLED_NODES:
        warn(f"above {_SAMPLED_NODES} nodes kube-scheduler looks at a sample of them; natjam looked at all")


def _answer(state: State, pod: Pod) -> Iterator[str]:
    from emulator.policies.kubernetes.cycle import place, victims
    from emulator.policies.kubernetes.gangs import gang_of, place_gang
    from emulator.policies.kubernetes.terms import first_of_best
    from emulator.policies.kubernetes.why import why_gang, why_placement, why_preemption

    gang = gang_of(state, pod)
    if gang is not None:
        return why_gang(place_gang(state, gang, first_of_best))
    placement = place(state, pod, first_of_best)
    if placement.node is not None:
        return why_placement(placement, _BEST_NODES)
    return why_preemption(victims(state, pod, first_of_best), _BEST_NODES)


def _waiting(cluster: Kubernetes, name: str) -> tuple[Pod, tuple[str, ...]]:
    """The pod of this name.  Raises ConfigError: there is none, it runs already, or several have the name."""
    waiting = [each.pod for each in cluster.state.waiting]
    found = [each for each in waiting if name in (each.name, each.name.rpartition("/")[2])]
    if len(found) == 1:
        return found[0], cluster.partial.get(found[0].name, ())
    if found:
        raise ConfigError(f"POD {name}: {', '.join(each.name for each in found[:_MAX_NAMES])} have this name; name one")
    on = next((each.node for each in cluster.state.bound if each.pod.name == name), None)
    if on is not None:
        raise ConfigError(f"POD {name}: it is on {printable(on)} already; name a pod that waits, or a manifest's file")
    names = ", ".join(printable(each.name) for each in waiting[:_MAX_NAMES])
    there = f"these wait: {names}{', ...' * (len(waiting) > _MAX_NAMES)}" if names else "no pod waits"
    raise ConfigError(f"POD {name}: no pod of this name waits; {there}; or name a manifest's file, such as pod.yaml")


def _from_manifest(cluster: Kubernetes, path: Path) -> tuple[Pod, tuple[str, ...]]:
    """The pod of a manifest, and what of it is not modelled.  Raises ConfigError."""
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
        raise ConfigError(f"{path}: has no Pod, Job or Deployment with a pod that waits{but}")
    for each in left_out:
        warn(f"left out: {each}")
    return found[0], maker.partial.get(found[0].name, ())
