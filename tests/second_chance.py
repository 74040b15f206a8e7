"""A second chance for tests of real processes, on machines that are busy with other work.

Real processes run at scaled time: an emulated second may be over before a process was given a core.  So a test that
failed is run once more, with everything it uses made anew.  How it failed at first is a warning at the end, so that a
defect which shows only now and then is seen.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run a test, and run it once more if it failed."""
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failures = [report.longreprtext for report in reports if report.failed]
    if failures:
        item.session._setupstate.teardown_exact(None)  # what the failed test had made for others is made anew, too
        item.warn(pytest.PytestWarning("run again, for it failed at first:\n" + "\n".join(failures)))
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
