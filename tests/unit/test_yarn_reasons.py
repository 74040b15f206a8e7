"""What is said of a round of YARN's preemption policy: what is taken of which queue, and why not more."""

from __future__ import annotations

from fractions import Fraction

import pytest

from emulator.policies.yarn.capacity import CapacityScheduler, Queue, Request
from emulator.policies.yarn.monitor import PreemptionMonitor
from emulator.policies.yarn.options import YarnPreemption
from emulator.policies.yarn.reasons import Reasons, Verdict

TUNED = YarnPreemption(1, 1, 1, 1, 0)


def rounds(
    preemption: YarnPreemption, held: int, pending: int, size: int = 1, is_spared: bool = False
) -> list[Reasons]:
    """Two rounds, a second apart, of a cluster of 48 GB: "adhoc" is guaranteed 36 GB and holds so much, in containers
    of this size; "prod" is guaranteed 12 GB, holds the rest and asks for so much more."""
    root = Queue("root", Fraction(1))
    prod, adhoc = Queue("prod", Fraction(1, 4)), Queue("adhoc", Fraction(3, 4), is_disabled=is_spared)
    root.add(prod)
    root.add(adhoc)
    scheduler = CapacityScheduler(root, (1024,), 100)
    scheduler.add_node("n", (48 * 1024,))
    for queue, sizes in ((adhoc, [size] * (held // size)), (prod, [1] * (48 - held)), (prod, [1] * pending)):
        application = scheduler.submit(queue.name, queue, 0)
        for number, each in enumerate(sizes):
            scheduler.ask(Request(application, f"{number}", (each * 1024,), 1, number + 1))
        scheduler.heartbeat("n")
    monitor = PreemptionMonitor(scheduler, preemption)
    return [monitor.round(second * 10**9).reasons for second in (0, 1)]


def words(amount: tuple[int, ...]) -> str:
    return f"{amount[0] / 1024:.3g} GB"


@pytest.mark.parametrize(
    ("preemption", "held", "size", "is_spared", "verdict", "says"),
    [
        (TUNED, 48, 1, True, Verdict.SPARED, "nothing is taken of it (disable_preemption)"),
        (
            YarnPreemption(1, 1, 1, 1, 0.1),
            39,
            1,
            False,
            Verdict.IGNORED,
            "not beyond its guarantee by more than that share (max_ignored_over_capacity 0.1)",
        ),
        (TUNED, 48, 16, False, Verdict.TAKEN, "takes 12 GB of the 12 GB beyond that: 1 container marked"),
        (
            YarnPreemption(1, 1, 0.25, 1, 0),
            48,
            16,
            False,
            Verdict.TOO_LITTLE,
            "takes 12 GB of the 12 GB beyond that, and no container that may go fits into this",
        ),
        (
            YarnPreemption(1, 1, 0.125, 1, 0),
            48,
            1,
            False,
            Verdict.TAKEN,
            "takes 6 GB of the 12 GB beyond that (at most 6 GB in all, total_preemption_per_round): 6 containers",
        ),
        (
            YarnPreemption(1, 1, 1, 0.5, 0),
            48,
            1,
            False,
            Verdict.TAKEN,
            "takes 6 GB of the 12 GB beyond that (0.5 of 12 GB, natural_termination_factor): 6 containers marked",
        ),
    ],
)
def test_why_a_round_takes_no_more(
    preemption: YarnPreemption, held: int, size: int, is_spared: bool, verdict: Verdict, says: str
) -> None:
    first, _ = rounds(preemption, held, 12, size, is_spared)
    (shortage,) = first.shortages(words)
    assert shortage.queue == "prod"
    assert shortage.verdicts == (("adhoc", verdict),)
    has = f"queue prod is guaranteed 12 GB, holds {48 - held} GB and asks for {held - 36} GB more"
    assert shortage.why.startswith(f"{has}; queue adhoc is guaranteed 36 GB, holds {held} GB and is entitled to")
    assert says in shortage.why


def test_a_round_that_kills_says_what_each_queue_has_and_gives() -> None:
    _, second = rounds(TUNED, 48, 12)
    assert second.in_words(words).splitlines() == [
        "queue prod is guaranteed 12 GB, holds 0 GB, asks for 12 GB more and is entitled to 12 GB",
        "queue adhoc is guaranteed 36 GB, holds 48 GB, asks for 0 GB more and is entitled to 36 GB;"
        " this round takes 12 GB of the 12 GB beyond that: 12 killed",
    ]


@pytest.mark.parametrize(("held", "pending"), [(36, 20), (48, 0), (30, 6)])
def test_nobody_lacks_anything(held: int, pending: int) -> None:
    assert not [*rounds(TUNED, held, pending)[0].shortages(words)]
