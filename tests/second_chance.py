"""A second chance for tests of real processes, on a machine that stood still.

Real processes run at scaled time.  On a machine that is busy with other work an emulated second may be over before a
process was given a core.  So the lag of a thread that wakes up fifty times a second is measured during each test.  A
test that failed while the machine lagged is run once more, and says so; one that failed on a quiet machine has failed.
"""

from __future__ import annotations

import threading
import time

import pytest
from _pytest.runner import runtestprotocol

_BEAT_S = 0.02
_LAG_S = 0.1
"""A longer lag than this makes live runs late: at a time scale of 50 it is five emulated seconds."""


class _Lag:
    """How late a thread that only sleeps has woken up at worst."""

    def __init__(self) -> None:
        self.worst_s = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def _measure(self) -> None:
        asleep_s = time.monotonic()
        while not self._ended.wait(_BEAT_S):
            awake_s = time.monotonic()
            self.worst_s = max(self.worst_s, awake_s - asleep_s - _BEAT_S)
            asleep_s = awake_s

    def __enter__(self) -> _Lag:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, and run it again if it failed while the machine lagged."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with _Lag() as lag:
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports) and lag.worst_s > _LAG_S:
        item.session._setupstate.teardown_exact(None)  # what the failed test had made for others is made anew, too
        item.warn(pytest.PytestWarning(f"run again: the machine lagged by {lag.worst_s:.2f} s when it failed"))
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
