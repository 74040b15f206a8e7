"""A headless Chromium; tests that want it are skipped where it is not installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.browsing import TIMEOUT_S, Browser
from tests.second_chance import pytest_runtest_protocol

__all__ = ["pytest_runtest_protocol"]

_OPTIONS = (
    *("--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--window-size=1280,900"),
)


def _installed(*names: str) -> str | None:
    return next((path for name in names if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    binary = _installed("chromium", "chromium-browser", "google-chrome")
    driver = _installed("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs Chromium and its driver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in _OPTIONS:
        options.add_argument(option)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    opened = webdriver.Chrome(options, Service(driver))
    opened.set_page_load_timeout(TIMEOUT_S)
    yield opened
    opened.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[Browser]:
    """An empty page; what the console says while the test lasts must be nothing."""
    chromium.get_log("browser")
    yield Browser(chromium)
    chromium.get("about:blank")
    said = chromium.get_log("browser")
    assert not said, said
