"""Which flavors a podset may have at all: those whose nodes its pods do not exclude.

https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/ and https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/.
Kueue 0.19.2 looks, for a flavor, at the labels that this flavor itself has.  What a podset wants of another label is
ignored there, even if other flavors of its queue have the label; earlier versions looked at the labels of all.
"""

from __future__ import annotations

from emulator.sites.kubernetes import Effect, Taint
from emulator.sites.kueue import Flavor, PodSet


def why_excluded(flavor: Flavor, podset: PodSet) -> str:
    """Why the podset may not have the flavor, in words; empty: it may."""
    for taint in flavor.taints:
        if taint.effect is not Effect.PREFER_NO_SCHEDULE and not _is_tolerated(taint, flavor, podset):
            return f"its pods do not tolerate the taint {taint.key}={taint.value}:{taint.effect}"
    for key, value in podset.selector.items():
        if flavor.labels.get(key, value) != value:
            return f"its pods select nodes with {key}={value}, and these have {flavor.labels[key]}"
    if not _meets_affinity(flavor, podset):
        return "the node affinity of its pods excludes these nodes"
    return ""


def _is_tolerated(taint: Taint, flavor: Flavor, podset: PodSet) -> bool:
    return any(each.tolerates(taint) for each in (*podset.tolerations, *flavor.tolerations))


def _meets_affinity(flavor: Flavor, podset: PodSet) -> bool:
    """Whether one of the terms holds.  Only what is about the flavor's own labels counts; one left empty holds."""
    if not podset.affinity:
        return True
    terms = [[each for each in term.expressions if each.key in flavor.labels] for term in podset.affinity]
    if not all(terms):
        return True
    return any(all(each.matches(flavor.labels[each.key]) for each in term) for term in terms)
