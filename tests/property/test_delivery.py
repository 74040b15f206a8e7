"""The three ways of delivery in a network that loses, repeats and reorders: each says truly what is awaited."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.core.delivery import CommandLedger, LatestValue, NumberedUpdates
from emulator.core.messages import (
    ContainerReport,
    ContainerState,
    KillContainer,
    Message,
    Outcome,
    ResumeContainer,
    StartContainer,
    SuspendContainer,
)
from emulator.vocabulary import REDUCE, Mechanism

STEPS = st.lists(st.tuples(st.sampled_from(("news", "say", "arrive", "lose", "again")), st.integers(0, 9)), max_size=80)


def taken(waiting: list, at: int):
    """Some message of those on their way; it may arrive once more later, so it stays there every other time."""
    place = at % len(waiting)
    return waiting[place] if at % 2 else waiting.pop(place)


@given(STEPS)
def test_each_piece_of_news_is_applied_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    news: NumberedUpdates[str] = NumberedUpdates()
    must_send, applied, heard = [], [], 0
    down: list[tuple[int, str]] = []
    up = [0]

    def beat(acknowledged: int) -> None:
        piece = news.unacknowledged(acknowledged)
        if piece is None and len(must_send) > news.number:
            piece = news.send(news.number + 1, must_send[news.number])
        if piece is not None:
            down.append((news.number, piece))

    for step, at in steps:
        if step == "news":
            must_send.append(f"piece {len(must_send)}")
        elif step == "say":
            up.append(heard)
        elif step == "again":
            beat(taken(up, at) if up else heard)
        elif down and step == "lose":
            down.pop(at % len(down))
        elif down:
            number, piece = taken(down, at)
            if number == heard + 1:
                applied.append(piece)
                heard = number
        assert applied == must_send[:heard]
        assert (news.unacknowledged(heard) is None) == (heard == news.number)
    while heard < len(must_send):  # from now on everything arrives
        beat(heard)
        number, piece = down.pop()
        applied += [piece] if number == heard + 1 else []
        heard = max(heard, number)
    assert applied == must_send


@given(STEPS, st.integers(0, 5))
def test_the_latest_value_is_said_until_it_is_known(steps: list[tuple[str, int]], retry_ns: int) -> None:
    sender, value, known, version = LatestValue(retry_ns), 0, 0, 0
    down: list[tuple[int, int]] = []
    up: list[int] = []

    def say(now_ns: int) -> None:
        sender.send(version, now_ns)
        down.append((version, value))

    for now_ns, (step, at) in enumerate(steps):
        if step == "news":
            value, version = value + 1, version + 1
            say(now_ns)
        elif step == "say" and sender.due_ns is not None and sender.due_ns <= now_ns:
            say(now_ns)
        elif step == "arrive" and down:
            number, said = taken(down, at)
            known = max(known, said)
            up.append(number)
        elif step == "lose":
            (down or up or [0]).pop()
        elif step == "again" and up:
            sender.acknowledge(taken(up, at))
        assert sender.is_unacknowledged == (sender.due_ns is not None)
        assert sender.is_unacknowledged or known == value, "nothing is awaited and something is not known"


CONTAINER = "c"


class Node:
    """A container that does what it is told, each command once; its reports have revisions."""

    def __init__(self) -> None:
        self.state: ContainerState | None = None
        self.revision = 0
        self._done: set[type[Message]] = set()

    def take(self, command: Message) -> ContainerReport:
        goes: dict[tuple[type[Message], ContainerState | None], ContainerState] = {
            (StartContainer, None): ContainerState.RUNNING,
            (SuspendContainer, ContainerState.RUNNING): ContainerState.SUSPENDED,
            (ResumeContainer, ContainerState.SUSPENDED): ContainerState.RUNNING,
        }
        after = ContainerState.DONE if isinstance(command, KillContainer) else goes.get((type(command), self.state))
        if after is not None and type(command) not in self._done:
            self._done.add(type(command))
            self.state, self.revision = after, self.revision + 1
        state = self.state or ContainerState.LAUNCHING
        outcome = Outcome.KILLED if state is ContainerState.DONE else None
        return ContainerReport(CONTAINER, "job", REDUCE, "node", self.revision, state, outcome=outcome)


@given(STEPS)
def test_a_command_is_repeated_until_a_report_shows_it(
    steps: list[tuple[str, int]],
) -> None:
    ledger, node, newest, now_ns = CommandLedger(3, start_ns=2), Node(), 0, 0
    life = (
        StartContainer(CONTAINER, "job", REDUCE, 0, "attempt", 0),
        SuspendContainer(CONTAINER, Mechanism.SUSPEND, 0),
        ResumeContainer(CONTAINER, 1),
        KillContainer(CONTAINER, "job", "the end"),
    )
    ends = (ContainerState.RUNNING, ContainerState.SUSPENDED, ContainerState.RUNNING, ContainerState.DONE)
    down: list[Message] = [ledger.send(CONTAINER, "node", life[0], 0).message]
    up: list[ContainerReport] = []

    def take(report: ContainerReport) -> None:
        nonlocal newest
        if report.revision >= newest:
            newest = report.revision
            ledger.acknowledge(report)

    stage = 0
    for step, at in steps:
        now_ns += 1
        assert (CONTAINER in ledger) <= (ledger.due_ns is not None and ledger.due_ns <= now_ns + 5)
        if step == "news" and CONTAINER not in ledger and stage < len(life) - 1:
            stage += 1
            down.append(ledger.send(CONTAINER, "node", life[stage], now_ns).message)
        elif step == "say":
            down += [send.message for send in ledger.repeat(now_ns)]
        elif step == "arrive" and down:
            up.append(node.take(taken(down, at)))
        elif step == "lose" and down:
            down.pop(at % len(down))
        elif step == "again" and up:
            take(taken(up, at))
    for later_ns in range(now_ns, now_ns + 12):  # from now on everything arrives
        for send in ledger.repeat(later_ns):
            take(node.take(send.message))
    assert CONTAINER not in ledger
    assert node.state in ends[stage:]
    assert ledger.repeat(now_ns + 100) == []
    assert ledger.due_ns is None
