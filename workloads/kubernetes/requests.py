"""What a pod requests, as Kubernetes sums its containers.

Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers and
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
"""

from __future__ import annotations

from collections.abc import Mapping

from workloads.kubernetes.api import Requesting, Resources
from workloads.kubernetes.quantities import amount


def requests_of(pod: Requesting) -> dict[str, int]:
    """The sum of the pod's containers, or its largest init container, and its overhead; by resource, in order of names.

    Init containers that go on running beside the others (sidecars, with restartPolicy Always) add to the sum, and to
    each init container after them.  What is requested for the whole pod takes the place of what its containers request.
    A limit counts where there is no request.  Raises ValueError: a bad quantity, which the message does not repeat.
    """
    beside: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in pod.initContainers:
        asked = _asked(container.resources)
        if container.restartPolicy == "Always":
            _add(beside, asked)
        else:
            _add(asked, beside)
        largest = {each: max(largest.get(each, 0), asked.get(each, 0)) for each in {*largest, *asked}}
    for container in pod.containers:
        _add(beside, _asked(container.resources))
    total = {each: max(beside.get(each, 0), largest.get(each, 0)) for each in {*beside, *largest}}
    total |= _asked(pod.resources)
    _add(total, _asked(Resources(pod.overhead)))
    return {each: total[each] for each in sorted(total)}


def _asked(resources: Resources) -> dict[str, int]:
    both = {**resources.limits, **resources.requests}
    return {resource: amount(resource, quantity) for resource, quantity in both.items()}


def _add(to: dict[str, int], more: Mapping[str, int]) -> None:
    for resource, value in more.items():
        to[resource] = to.get(resource, 0) + value
