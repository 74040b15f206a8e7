"""Ending a command from outside: once only, whatever it is doing, and within a bounded time.

Theory of operation
-------------------
The first SIGINT, SIGTERM or SIGHUP raises KeyboardInterrupt in the main thread, as Ctrl-C does; but under ``nohup``
SIGHUP stays ignored.  Further signals are ignored, so that nothing interrupts the cleanup.  In some places an exception
could do harm: inside Ray, and while things are being closed.  There a signal is only recorded, and the code checks for
it now and then (``check_interrupted``).

Not every exception comes up.  Python swallows those in destructors; pydantic drops those raised while it makes a schema
or writes a union, and tries something else.  Whoever does that deletes the exception, while one that is on its way up,
or that somebody handles, lives.  So an interrupt that is deleted within the block has been lost: a moment later an
alarm (SIGALRM) raises it again, as often as it is lost.  A library may also make an error of its own of it: then the
block still ends with KeyboardInterrupt.

If the cleanup takes too long, the process exits at once.  Its watchers then end the processes it has started.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from types import FrameType
from typing import Any, NoReturn, TypeVar

EXIT_CODE = 130
END_TIMEOUT_REAL_S = 8.0
"""Time from the first signal to the forced exit: cleaning up after a run takes two to four seconds."""
_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HANDLED = (*_NUMBERS, signal.SIGALRM)
_SHOW_CURSOR = "\x1b[?25h"
_LOOK_REAL_S = 0.002

T = TypeVar("T")


class _Interrupt(KeyboardInterrupt):
    """One that tells when it is deleted."""

    def __init__(self, on_deleted: Callable[[], None]) -> None:
        super().__init__()
        self._on_deleted = on_deleted

    def __del__(self) -> None:
        self._on_deleted()


class _Interruption:
    """State of the interruption; one for the whole process, because signals belong to the whole process."""

    def __init__(self) -> None:
        self.handling = False
        self.numbers: tuple[signal.Signals, ...] = _NUMBERS
        """The signals that are handled."""
        self.deferred = 0
        self.asked = False
        self.hook: Callable[[Any], object] = sys.unraisablehook
        """The one for other swallowed exceptions."""
        self._deadline: threading.Timer | None = None
        self._alive = 0
        """Interrupts that are on their way up, or that somebody handles."""
        self._wait_real_s = 0.0

    def on_signal(self, number: int, frame: object) -> None:
        if self.asked:
            return
        self.asked = True
        self._deadline = threading.Timer(END_TIMEOUT_REAL_S, _end_at_once)
        self._deadline.daemon = True
        self._deadline.start()
        if not self.deferred:
            self.interrupt()

    def interrupt(self) -> NoReturn:
        self._alive += 1
        raise _Interrupt(self.on_deleted)

    def on_deleted(self) -> None:
        """An interrupt has come to its end, or is lost: then it is raised again a moment later."""
        self._alive -= 1
        if self.handling and not self._alive:
            self._raise_in(_LOOK_REAL_S)  # raised here, in a destructor, it would be lost again

    def on_swallowed(self, unraisable: Any) -> None:
        """The hook for exceptions that Python swallows: nothing is said of an interrupt, which ``on_deleted`` sees."""
        if not isinstance(unraisable.exc_value, KeyboardInterrupt):
            self.hook(unraisable)

    def on_alarm(self, number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if frame.f_code is _Interrupt.__del__.__code__:  # still at work
                self._raise_in(2 * self._wait_real_s)
                return
            frame = frame.f_back
        if not self.deferred and not self._alive:
            self.interrupt()

    def _raise_in(self, wait_real_s: float) -> None:
        self._wait_real_s = wait_real_s
        signal.setitimer(signal.ITIMER_REAL, wait_real_s)

    def end(self, handlers: Mapping[signal.Signals, Any]) -> bool:
        """Install ``handlers`` in place of ours; whether the first signal came meanwhile, and was only recorded."""
        asked_before, self.handling = self.asked, False
        self.deferred += 1  # an exception here would leave some handlers of ours
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        self.deferred -= 1
        is_late, self.asked = self.asked and not asked_before, False
        if self._deadline is not None:
            self._deadline.cancel()
        return is_late


_state = _Interruption()


def _end_at_once() -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"{_SHOW_CURSOR if os.isatty(2) else ''}natjam: interrupted\n".encode())
    os._exit(EXIT_CODE)


@contextlib.contextmanager
def interruptible(finally_ignored: bool = False) -> Iterator[None]:
    """The first signal raises KeyboardInterrupt in the block; see the module's theory of operation.

    After the block the old handlers are back; with ``finally_ignored``, signals are ignored from then on.
    """
    if _state.handling or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    before = {number: signal.getsignal(number) for number in _HANDLED}
    _state.hook = sys.unraisablehook
    sys.unraisablehook = _state.on_swallowed
    _state.numbers = tuple(number for number in _NUMBERS if number != signal.SIGHUP or before[number] != signal.SIG_IGN)
    _state.handling = True
    _install()
    try:
        yield
    except Exception as error:
        if _state.asked:
            raise KeyboardInterrupt from error  # and not one that could be lost: the block has ended
        raise
    finally:
        is_late = _state.end(dict.fromkeys(before, signal.SIG_IGN) if finally_ignored else before)
        sys.unraisablehook = _state.hook
        if is_late and not finally_ignored:
            raise KeyboardInterrupt


def _install() -> None:
    for number in _state.numbers:
        signal.signal(number, _state.on_signal)
    signal.signal(signal.SIGALRM, _state.on_alarm)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """Signals are only recorded in the block; the next ``check_interrupted``, or the end of the block, raises."""
    _state.deferred += 1
    try:
        yield
    finally:
        _state.deferred -= 1
    check_interrupted()


def check_interrupted() -> None:
    """Raise KeyboardInterrupt if a signal has been recorded."""
    if _state.asked:
        _state.interrupt()


@contextlib.contextmanager
def unheard_by_children() -> Iterator[None]:
    """Processes that this thread starts in the block get neither Ctrl-C (SIGINT) nor the terminal's SIGHUP."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def result_of(future: Future[T], timeout_real_s: float = math.inf) -> T:
    """Wait for the work of another thread, in a library that installs its own signal handlers: ours are put back often.

    Raises what the work raises, and TimeoutError if it has not ended in time.
    """
    until_real_s = time.monotonic() + timeout_real_s
    while not wait([future], _LOOK_REAL_S).done:
        _take_back()
        if time.monotonic() > until_real_s:
            raise TimeoutError
    _take_back()
    return future.result()


def _take_back() -> None:
    if _state.handling:
        _install()
