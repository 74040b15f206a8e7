"""Some of these tests start processes: those have a second chance, as the live tests have."""

from tests.second_chance import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]
