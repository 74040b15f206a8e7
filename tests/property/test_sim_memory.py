"""Memory in virtual time: whatever processes do with it, RAM is never over-committed and nothing is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from emulator.sim.memory import MemoryTimes, Moved, NodeMemory

RAM = 10
STEPS = st.lists(
    st.tuples(st.sampled_from(("write", "read", "stop", "go on", "end")), st.sampled_from("abc"), st.integers(0, 8)),
    max_size=40,
)


@given(STEPS)
def test_ram_is_never_over_committed_and_every_byte_is_somewhere(steps: list[tuple[str, str, int]]) -> None:
    memory = NodeMemory(RAM)
    held: dict[str, int] = {}
    for step, who, size in steps:
        if step == "write" and held.get(who, 0) + size <= RAM:
            assert memory.write(who, size).used_bytes == size
            held[who] = held.get(who, 0) + size
        elif step == "read" and who in held:
            assert memory.read(who).used_bytes == held[who]
            assert memory.resume(who) == 0
        elif step == "stop":
            memory.stop(who)
        elif step == "go on":
            in_swap = {name: memory.resume(name) for name in held}
            assert all(0 <= in_swap[name] <= held[name] for name in held)
            assert sum(held.values()) - sum(in_swap.values()) <= RAM
        elif step == "end":
            assert memory.end(who) <= held.pop(who, 0)


def test_stopped_processes_leave_ram_first_the_first_stopped_before_others() -> None:
    memory = NodeMemory(RAM)
    for name in "abc":
        memory.write(name, 3)
    memory.stop("c")
    memory.stop("b")
    assert memory.write("d", 5) == Moved(5, paged_out_bytes=4)
    assert (memory.resume("c"), memory.resume("b"), memory.resume("a")) == (3, 1, 0)
    assert memory.end("d") == 0
    assert memory.read("c") == Moved(3, paged_out_bytes=0, paged_in_bytes=3)


def test_what_is_paged_takes_longer() -> None:
    times = MemoryTimes(write_bytes_s=100, read_bytes_s=50, swap_out_bytes_s=10, swap_in_bytes_s=5)
    assert times.write_ns(Moved(200, 100)) == 11 * 10**9
    assert times.read_ns(Moved(100, 0, 50)) == 11 * 10**9
    assert MemoryTimes().write_ns(Moved(200, 100)) == 0
