"""Settings that all tests share."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# Examples read files and share two cores with other processes, so a single example has no deadline.
settings.register_profile(
    "natjam", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("natjam")

# Hypothesis draws constants of the modules that happen to be loaded.  With them, a test that makes the same examples at
# each call would make others after other tests.
providers.is_local_module_file = lambda path: False  # type: ignore

# Tests make many small objects beside a large heap of modules; looking for circles among them took a tenth of the time.
gc.set_threshold(50_000, 20, 100)


def pytest_collection_finish() -> None:
    """What is there before the first test stays."""
    gc.freeze()


@pytest.fixture(autouse=True)
def no_module_of_a_test_stays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Modules that a test wrote and had imported: another test may have one of the same name."""
    before, written = set(sys.modules), str(tmp_path_factory.getbasetemp())
    yield
    for name in sys.modules.keys() - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(written):
            del sys.modules[name]
