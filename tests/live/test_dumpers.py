"""Real processes saved and made again, by criu where it works (as root), and their memory alone, without root."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from emulator.live.dumpers import DumpError
from emulator.live.dumpers.criu import find_criu
from emulator.live.dumpers.images import restore_process, save_process
from emulator.live.dumpers.pages import PagesDumper
from emulator.storage.images import PAGE_BYTES, ImageChain, ImageDamaged
from tests.full_disk import file_size_limit
from tests.programs import Program, criu_or_skip, kmeans_command, restore_newest, running, state_of

SLEEPER = "import time\nmemory = bytearray(b'natjam! ' * (2 << 20))\nprint('ready', flush=True)\ntime.sleep(1000)"
GUARDED = """
import mmap, time
PAGE, GUARD_INSTALL = mmap.PAGESIZE, 102
memory = mmap.mmap(-1, 3 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.write((b"before! " * (PAGE // 8)) + (b"guarded " * (PAGE // 8)) + (b"behind! " * (PAGE // 8)))
try:
    memory.madvise(GUARD_INSTALL, PAGE, PAGE)
except OSError:
    print("no guards, ", end="")
print("ready", flush=True)
time.sleep(1000)
"""
"""A page that no one can read between two others, as glibc 2.42 puts one at the end of a thread's stack."""
KMEANS = ("--memory-mb", "4", "--iterations", "40")


def test_k_means_is_the_same_to_the_bit_however_often_it_is_restored(tmp_path: Path) -> None:
    dumper = criu_or_skip()
    chain = ImageChain(tmp_path / "images", at_most=2)
    undisturbed, disturbed = tmp_path / "undisturbed.npy", tmp_path / "disturbed.npy"
    subprocess.run(kmeans_command(*KMEANS, "--out", str(undisturbed)), stdout=subprocess.DEVNULL, check=True)
    with running(kmeans_command(*KMEANS, "--out", str(disturbed)), tmp_path / "printed") as program:
        for turn in range(4):
            program.printed(f"\n{turn + 1} ")
            assert program.stop()
            saved = save_process(dumper, program.pid, chain)
            program.kill()
            restored = restore_newest(dumper, chain)
            program.alive = True
            assert restored.pid == program.pid
            assert state_of(program.pid) == "T"
            if turn:
                assert saved.image.written_bytes < saved.image.memory_bytes / 2
            program.go_on()
        assert program.ended() == 0
    assert disturbed.read_bytes() == undisturbed.read_bytes()


def sleeping(tmp_path: Path, code: str = SLEEPER) -> Program:
    program = Program([sys.executable, "-c", code], tmp_path / "printed")
    program.printed("ready")
    assert program.stop()
    return program


def test_a_dump_onto_a_full_disk_costs_the_process_nothing(tmp_path: Path) -> None:
    dumper = criu_or_skip()
    program, chain = sleeping(tmp_path), ImageChain(tmp_path / "images")
    try:
        with file_size_limit(1 << 20), pytest.raises(DumpError, match="criu dump: "):
            save_process(dumper, program.pid, chain)
        assert state_of(program.pid) == "T"
        assert chain.numbers() == []
        assert save_process(dumper, program.pid, chain).image.memory_bytes > 16 << 20
        program.go_on()
    finally:
        program.kill()


def test_a_process_is_not_made_again_beside_one_of_the_same_id(tmp_path: Path) -> None:
    dumper = criu_or_skip()
    program, chain = sleeping(tmp_path), ImageChain(tmp_path / "images")
    try:
        save_process(dumper, program.pid, chain)
        with pytest.raises(DumpError, match=r"criu restore: .*exists"):
            restore_newest(dumper, chain)
        assert state_of(program.pid) == "T"
    finally:
        program.kill()


def test_a_damaged_image_is_refused_and_the_one_before_restored(tmp_path: Path) -> None:
    dumper = criu_or_skip()
    program, chain = sleeping(tmp_path), ImageChain(tmp_path / "images")
    save_process(dumper, program.pid, chain)
    save_process(dumper, program.pid, chain)
    program.kill()
    os.truncate(tmp_path / "images" / "2" / "state", 100)
    with pytest.raises(ImageDamaged, match="images/2/state"):
        restore_process(dumper, chain, 2)
    assert restore_newest(dumper, chain).image.number == 1
    program.kill()


def test_a_restored_process_dies_with_the_one_that_restored_it(tmp_path: Path) -> None:
    """As a supervisor's tasks do: the signal they asked for at their parent's death outlasts the image."""
    criu_or_skip()
    code = (
        "import ctypes, os, signal, sys; from pathlib import Path\n"
        "from emulator.live.dumpers.criu import CriuDumper; from emulator.live.dumpers.images import *\n"
        "from tests.programs import Program, criu_or_skip, restore_newest\n"
        f"program = Program([sys.executable, '-c', {('import ctypes; ctypes.CDLL(None).prctl(1, 9);' + SLEEPER)!r}],"
        f" Path({str(tmp_path / 'printed')!r}))\n"
        "program.printed('ready'); program.stop(); dumper = criu_or_skip()\n"
        f"chain = ImageChain(Path({str(tmp_path / 'images')!r})); save_process(dumper, program.pid, chain)\n"
        "program.kill(); restore_newest(dumper, chain); program.go_on(); print(program.pid, flush=True); input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        handle = os.pidfd_open(pid)
        parent.kill()
    try:
        assert select.select([handle], [], [], 30)[0], "the restored process goes on without its parent"
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


def test_pages_hold_the_memory_that_a_process_has_written_to(tmp_path: Path) -> None:
    program, chain = sleeping(tmp_path), ImageChain(tmp_path / "images")
    dumper = PagesDumper()
    try:
        parts = tmp_path / "parts"
        first = save_process(dumper, program.pid, chain, {"keys_done": 7}, staging=parts).image
        restore_process(dumper, chain, first.number, staging=parts)
        assert list(parts.iterdir()) == [], "nothing staged is left"
        assert 16 << 20 < first.memory_bytes < 64 << 20
        assert first.written_bytes < first.memory_bytes / 2, "the 4096 equal pages are written once"
        second = save_process(dumper, program.pid, chain, {"keys_done": 8}).image
        assert second.needs == (1,)
        assert (tmp_path / "images" / "2" / "pages").stat().st_size == 0, "it was stopped meanwhile"
        assert state_of(program.pid) == "T"
        staged = tmp_path / "staged"
        staged.mkdir()
        assert chain.load(2, staged).counters == {"keys_done": 8}
        assert (b"natjam! " * (PAGE_BYTES // 8)) * 100 in (staged / "pages-1.img").read_bytes()
        assert restore_newest(dumper, chain).pid is None
    finally:
        program.kill()
    with pytest.raises(DumpError, match="is gone"):
        save_process(dumper, program.pid, chain)


def test_pages_leave_out_the_guards_of_stacks(tmp_path: Path) -> None:
    program = sleeping(tmp_path, GUARDED)
    try:
        if "no guards" in program.output.read_text():
            pytest.skip("this kernel makes no guard pages")
        PagesDumper().dump(program.pid, tmp_path)
    finally:
        program.kill()
    saved = (tmp_path / "pages-1.img").read_bytes()
    assert b"before! " * (PAGE_BYTES // 8) + b"behind! " * (PAGE_BYTES // 8) in saved


def test_an_image_of_one_dumper_is_refused_by_the_other(tmp_path: Path) -> None:
    dumper = criu_or_skip()
    program, chain = sleeping(tmp_path), ImageChain(tmp_path / "images")
    save_process(PagesDumper(), program.pid, chain)
    program.kill()
    with pytest.raises(DumpError, match="dumper pages, not criu"):
        restore_newest(dumper, chain)


def test_a_criu_that_does_not_work_is_found_with_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "criu"
    program.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo Version: 3.17 && exit\n'
        'echo "Error (criu/vdso.c:9): no vdso" >&2; exit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("NATJAM_CRIU", str(program))
    found = find_criu()
    assert found is not None
    assert found.version == "3.17"
    assert found.problem is not None
    assert ("no vdso" if os.geteuid() == 0 else "root") in found.problem
    monkeypatch.setenv("NATJAM_CRIU", str(tmp_path / "nothing"))
    found = find_criu()
    assert found is not None
    assert "cannot be run" in str(found.problem)
