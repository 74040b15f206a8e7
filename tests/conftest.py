"""Settings that all tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Examples read files and share two cores with other processes, so a single example has no deadline.
settings.register_profile(
    "natjam", deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
settings.load_profile("natjam")
