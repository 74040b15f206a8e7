"""Vectors of resources: what a node has, what a container asks for; exact, in thousandths.

A cluster names its resources once (``cpu``, ``memory_gb``, ``gpu``, any names); a vector has one whole number for each,
in that order.  A cluster whose containers have one size names none, and all its vectors are empty.

Few different vectors are compared again and again, so what is found is kept for the last thousands of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from functools import lru_cache
from operator import add, ge, sub
from typing import TypeVar

from emulator.vocabulary import Resources

_T = TypeVar("_T")

PARTS = 1000
"""Parts of one: 1.5 cpu are 1500."""
UNLIMITED = 1 << 62
"""As many as one likes."""
WHOLE_PPM = 1_000_000
"""The whole cluster in the millionths in which queues of several sizes are counted."""


def plus(one: Resources, other: Resources) -> Resources:
    """The sum."""
    if len(one) == len(other) == 1:  # equal containers, by far the most frequent: a third of the time
        return (one[0] + other[0],)
    return tuple(map(add, one, other))


def minus(one: Resources, other: Resources) -> Resources:
    """The difference; it may be below 0."""
    if len(one) == len(other) == 1:
        return (one[0] - other[0],)
    return tuple(map(sub, one, other))


@lru_cache(maxsize=1 << 14)
def lacking(request: Resources, there: Resources) -> Resources:
    """What of ``wanted`` is not there."""
    return tuple([need - have if need > have else 0 for need, have in zip(request, there, strict=True)])


def common(one: Resources, other: Resources) -> Resources:
    """What both have, of each resource."""
    return tuple(map(min, one, other))


def times(count: int, one: Resources) -> Resources:
    """So many of the same."""
    return one if count == 1 else tuple([count * each for each in one])


def total(vectors: Iterable[Resources], names: Sized) -> Resources:
    """The sum of many; ``names``: as many as each of them has amounts."""
    return tuple(map(sum, zip(*vectors, strict=True))) or (0,) * len(names)


@lru_cache(maxsize=1 << 14)
def fits(request: Resources, there: Resources) -> bool:
    """Whether all that is requested is there."""
    return all(map(ge, there, request))


def irreducible(short: Resources, givers: Iterable[_T], frees: Callable[[_T], Resources]) -> tuple[_T, ...] | None:
    """The first of ``givers`` that make free what is ``short``, none of them superfluous; None: all make too little.

    Those that make nothing free of what is lacking are passed over.  Then every one is left out that is not needed, the
    last first.  So with any one less it is too little.
    """
    chosen: list[tuple[_T, Resources]] = []
    left, nothing = short, (0,) * len(short)
    for giver in givers:
        if left == nothing:
            break
        freed = frees(giver)
        after = lacking(left, freed)
        if after != left:
            chosen.append((giver, freed))
            left = after
    if left != nothing:
        return None
    if len(chosen) < 2:
        return tuple(giver for giver, _ in chosen)
    made, kept = total((freed for _, freed in chosen), short), list[_T]()
    for giver, freed in reversed(chosen):
        without = minus(made, freed)
        if fits(short, without):
            made = without
        else:
            kept.append(giver)
    return tuple(reversed(kept))


def most(vectors: Iterable[Resources]) -> Resources:
    """The most of each resource that any of these vectors has."""
    return tuple(map(max, zip(*vectors, strict=True)))


def least(vectors: Iterable[Resources]) -> Resources:
    """The least of each resource that any of these vectors has."""
    return tuple(map(min, zip(*vectors, strict=True)))


def count_fitting(request: Resources, there: Resources) -> int:
    """How many of the same request fit together."""
    return min((have // need for need, have in zip(request, there, strict=True) if need), default=UNLIMITED)


def first_fit(requests: Iterable[Resources], nodes: Iterable[Resources]) -> tuple[int, list[Resources]]:
    """How many of the requests find room, each in turn on the first node with some, and what the nodes then have."""
    left, placed = list(nodes), 0
    begin: dict[Resources, int] = {}
    for request in requests:
        after = begin.get(request, 0)
        place = next((place for place in range(after, len(left)) if fits(request, left[place])), len(left))
        begin[request] = place  # what is full for it stays so
        if place < len(left):
            left[place], placed = minus(left[place], request), placed + 1
    return placed, left


def have_capacity(requests: Iterable[Resources], nodes: Iterable[Resources]) -> bool:
    """Whether all requests find room so."""
    wanted = list(requests)
    return first_fit(wanted, nodes)[0] == len(wanted)


@lru_cache(maxsize=1 << 14)
def dominant_ppm(part: Resources, whole: Resources) -> int:
    """The largest share that ``part`` has of any resource of ``whole``, in millionths, rounded down: the dominant share
    (Ghodsi et al., Dominant Resource Fairness, NSDI 2011; YARN's DominantResourceCalculator)."""
    return max([each * WHOLE_PPM // all_of for each, all_of in zip(part, whole, strict=True) if all_of], default=0)


def written(vector: Resources, names: Sequence[str]) -> str:
    """``2 gpu, 0.5 cpu``: what a vector has, for messages."""
    amounts = (f"{each / PARTS:g} {name}" for name, each in zip(names, vector, strict=True) if each)
    return ", ".join(amounts) or "nothing"


def named(vector: Resources, names: Sequence[str]) -> dict[str, int]:
    """What a vector has, by name, in thousandths."""
    return {name: each for name, each in zip(names, vector, strict=False) if each}


def vector_of(amounts: Mapping[str, float], names: Sequence[str]) -> Resources:
    """The vector of amounts in a file, which have at most three decimals."""
    return tuple([round(amounts.get(name, 0) * PARTS) for name in names])


def amount_text(resource: str, amount: int) -> str:
    """An amount that Kubernetes or Kueue counts, with its resource: of cpu thousandths, shown in cores."""
    return f"{amount / 1000:g} cpu" if resource == "cpu" else f"{amount:,} {resource}"
