"""Signals that end a run, and the spell in which they must not."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def ended_like_interrupted() -> Iterator[None]:
    """SIGTERM and SIGHUP end a run as Ctrl-C does: everything is closed on the way out."""
    with _handling((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        yield


@contextlib.contextmanager
def no_interrupts() -> Iterator[None]:
    """Cleaning up is bounded and must not be stopped half-way by a second Ctrl-C."""
    with _handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN):
        yield


@contextlib.contextmanager
def _handling(numbers: tuple[signal.Signals, ...], handler: Any) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
