"""A cluster of Kubernetes from its objects: as it stands, its classes and budgets, and the pods that arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from emulator.errors import ConfigError, printable
from emulator.files.progress import OnBytes, ignore
from emulator.sites.kubernetes import (
    Arrival,
    Bound,
    Budget,
    BudgetSpec,
    Kubernetes,
    Pending,
    PriorityClass,
    Replacement,
    State,
)
from emulator.sites.labels import Selector
from emulator.vocabulary import SECOND_NS
from workloads.kubernetes import objects as api
from workloads.kubernetes.pods import PodMaker, class_of, context_of, group_of, node_of
from workloads.kubernetes.present import Owner, Pods, Present, expected_ns, lengths_of
from workloads.kubernetes.reading import Found, Objects, read_objects, unique
from workloads.kubernetes.selectors import selector_of
from workloads.setting_effects import Effect, Loss, basis_of, settings_of

_WITHOUT_PODS = tuple(kind for kind in api.KINDS if kind not in (api.Pod, *api.MAKERS))
"""Of pods, and of what makes them, only what becomes of them counts."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What was found in the files."""

    cluster: Kubernetes
    losses: list[Loss]
    running: tuple[Arrival, ...]
    """The pods that are on nodes, or wait, as arrivals at 0 and before."""


def read_kubernetes(
    paths: Sequence[Path], on_bytes: OnBytes = ignore, values: Mapping[str, int] | None = None
) -> Imported:
    """Kubernetes' objects in files and folders; its pods arrive when they were created.

    ``values``: by name of a PriorityClass, the value that it is to have instead.  Pods that are there keep the priority
    that they were admitted with; those that arrive have the new one.  Raises ConfigError.
    """
    objects = read_objects(paths, api.KINDS, settings_of("kubernetes"), on_bytes)
    if not objects.of(api.Node):
        files = ", ".join(map(str, paths))
        raise ConfigError(f"{files}: no Node in it; get them with: kubectl get nodes,pods,priorityclasses -A -o json")
    nodes = {each.name: each for each in map(node_of, unique(objects.of(api.Node)))}
    classes = tuple(_revalued(map(class_of, unique(objects.of(api.PriorityClass))), values or {}))
    by_name = {each.name: each for each in classes}
    groups = tuple(group_of(each, by_name) for each in unique(objects.of(api.PodGroup)))
    context = context_of(objects)
    maker = PodMaker(by_name, nodes, {each.name: each for each in groups}, context, frozenset(values or ()))
    present = Pods(objects, maker).read()
    now_ns = max((at_ns for each in present for at_ns in each.times_ns()), default=0)
    budgets, specs = _budgets(objects.of(api.PodDisruptionBudget), present)
    state = State(
        tuple(nodes.values()),
        tuple(_bound(each, now_ns) for each in present if each.node and not each.ended),
        tuple(_pending(each, now_ns) for each in present if not each.node and not each.ended),
        budgets,
        groups,
    )
    totals = objects.totals(api.KINDS)
    names = {each.pod.name for each in present} | {each.value.full_name for each in objects.of(api.Pod)}
    totals[api.Pod.COUNTED] = len(names)
    lengths = lengths_of(present)
    arrivals = _by_creation(present, lengths, now_ns, maker.losses)
    losses = [*maker.losses, *objects.decides(_WITHOUT_PODS), *_of_one_pod(objects), *objects.losses]
    partial = {each.pod.name: maker.partial.get(each.pod.name, ()) for each in state.waiting}
    cluster = Kubernetes(state, classes, specs, arrivals, partial, basis_of(losses, totals), context)
    return Imported(cluster, losses, tuple(_running(present, lengths, now_ns)))


def _of_one_pod(objects: Objects) -> Iterator[Loss]:
    """What is lost with claims that only one pod may use."""
    mode, table = "ReadWriteOncePod", settings_of("kubernetes")
    for each in objects.of(api.PersistentVolumeClaim):
        if mode in each.value.accessModes:
            yield from each.lost(table, each.value.kind, "spec.accessModes", mode, api.PersistentVolumeClaim.COUNTED)


_WAITING_NS = SECOND_NS


def _revalued(classes: Iterable[PriorityClass], values: Mapping[str, int]) -> Iterable[PriorityClass]:
    found = {each.name: each for each in classes}
    for name in values:
        if name not in found:
            known = ", ".join(map(printable, found)) or "none"
            raise ConfigError(f"--class {printable(name)}: there is no such PriorityClass (classes: {known})")
    return (replace(each, value=values.get(each.name, each.value)) for each in found.values())


def _bound(each: Present, now_ns: int) -> Bound:
    start_ns = None if each.start_ns is None else each.start_ns - now_ns
    return Bound(each.pod, each.node, start_ns, each.terminating, each.terminating and each.preempted)


def _pending(each: Present, now_ns: int) -> Pending:
    since_ns = 0 if each.created_ns is None else each.created_ns - now_ns
    return Pending(each.pod, each.nominated or None, since_ns=since_ns)


# ---- budgets ----


def _budgets(
    found: Iterable[Found[api.PodDisruptionBudget]], present: Iterable[Present]
) -> tuple[tuple[Budget, ...], tuple[BudgetSpec, ...]]:
    """Each as it stands, and as its owner wants it; if it does not say how it stands, as its pods are."""
    now: list[Budget] = []
    specs: list[BudgetSpec] = []
    here = [each for each in present if not each.ended]
    bound = [_bound(each, 0) for each in here if each.node]
    for each in unique(found):
        given, name = each.value, each.value.full_name
        selector = Selector() if given.selector is None else selector_of(each, "spec.selector", given.selector)
        counted = Budget(name, selector, 0, namespace=given.in_namespace)
        expected = sum(counted.covers(pod.pod) for pod in here) if given.expectedPods is None else given.expectedPods
        spec = BudgetSpec(name, selector, _min_available(each, expected), given.in_namespace)
        standing = spec.now(bound)
        if given.disruptionsAllowed is not None:
            disrupted = tuple(f"{given.namespace}/{pod}" for pod in given.disruptedPods)
            standing = replace(standing, allowed=given.disruptionsAllowed, disrupted=disrupted)
        now.append(standing)
        specs.append(spec)
    return tuple(now), tuple(specs)


def _min_available(found: Found[api.PodDisruptionBudget], expected: int) -> int:
    """How many pods have to stay.  Raises ConfigError.

    Percentages are of the expected pods, rounded up
    (https://kubernetes.io/docs/tasks/run-application/configure-pdb/).
    """
    spec = found.value
    if spec.maxUnavailable is not None:
        return max(0, expected - _share(found, "spec.maxUnavailable", spec.maxUnavailable, expected))
    if spec.minAvailable is not None:
        return _share(found, "spec.minAvailable", spec.minAvailable, expected)
    raise found.problem("spec", "has neither minAvailable nor maxUnavailable")


def _share(found: Found[Any], field: str, given: str | int, of: int) -> int:
    text = str(given).strip()
    number = text.removesuffix("%")
    if not (number.isdecimal() and number.isascii() and len(number) < 10):
        raise found.problem(field, "must be a whole number or a percentage")
    return -(-of * int(number) // 100) if text.endswith("%") else int(number)


# ---- arrivals ----


def _by_creation(
    present: Iterable[Present], lengths: Mapping[Owner, list[int]], now_ns: int, losses: list[Loss]
) -> tuple[Arrival, ...]:
    """Every pod when it was created, from an empty cluster; times count from the first."""
    arrivals: list[Arrival] = []
    for each in present:
        if each.preempted and each.replacement is not Replacement.NEVER:
            what, why = f"Pod {printable(each.pod.name)}", "it was evicted, and the pod in its place arrives"
            losses.append(Loss(what, each.where, why, Effect.LEFT_OUT, api.Pod.COUNTED))
            continue
        created_ns = now_ns if each.created_ns is None else each.created_ns
        length_ns = expected_ns(each, lengths, now_ns)
        pod = replace(each.pod, priority=each.priority_now)
        arrivals.append(Arrival(pod, created_ns, length_ns, each.grace_ns, each.replacement))
    arrivals.sort(key=lambda each: (each.submit_ns, each.pod.name))
    first_ns = arrivals[0].submit_ns if arrivals else 0
    return tuple(replace(each, submit_ns=each.submit_ns - first_ns) for each in arrivals)


def _running(present: Iterable[Present], lengths: Mapping[Owner, list[int]], now_ns: int) -> Iterator[Arrival]:
    """Those that have not ended: on their nodes since they started; those that wait, the oldest first, a second after
    0, when those that run have their containers."""
    for each in sorted(present, key=lambda each: each.created_ns or now_ns):
        if each.ended or each.terminating:
            continue
        length_ns = expected_ns(each, lengths, now_ns)
        at_ns = each.start_ns - now_ns if each.start_ns is not None else 0
        submit_ns = at_ns if each.node else _WAITING_NS
        yield Arrival(each.pod, submit_ns, length_ns, each.grace_ns, each.replacement, each.node or None)
