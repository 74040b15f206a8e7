"""Every kind of page on a wide light screen and a narrow dark one: nothing sticks out, everything can be read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe

from analysis.report.page import report_of
from tests.browsing import Browser
from tests.simulated_runs import simulate

REPOSITORY = Path(__file__).resolve().parents[2]
RULES = {"runOnly": ["wcag2a", "wcag2aa"], "rules": {"scrollable-region-focusable": {"enabled": False}}}
"""All but one that the theme of the docs breaks: blocks of code that scroll cannot be reached by keys."""
_RUN_AXE = "axe.run(document, arguments[0]).then((found) => arguments[1](found.violations));"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of reports: ``one`` run, ``two`` runs, and the variants of a ``campaign``."""
    directory = tmp_path_factory.mktemp("reports")
    campaign = directory / "campaign/runs"
    for mechanism in ("checkpoint", "kill"):
        for seed in (1, 2):
            simulate(campaign / f"mechanism={mechanism}", f"seed-{seed}", f"scheduler.mechanism={mechanism}")
    runs = sorted(campaign.glob("*/*"))
    (directory / "one.html").write_text(report_of(runs[:1]))
    (directory / "two.html").write_text(report_of(runs[::2]))
    (directory / "campaign.html").write_text(report_of([directory / "campaign"]))
    return directory


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built pages, to be opened as files: no server is needed for them."""
    site = tmp_path_factory.mktemp("docs")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    return site


@pytest.fixture(params=["1280 light", "400 dark"])
def screen(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Browser]:
    width, scheme = request.param.split()
    size = {"width": int(width), "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    yield browser
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("page", ["one", "two", "campaign"])
def test_a_report_fits_and_can_be_read(screen: Browser, reports: Path, page: str) -> None:
    screen.open_report(reports / f"{page}.html")
    check(screen)


@pytest.mark.parametrize("page", ["index", "natjam", "policy-fields"])
def test_a_page_of_the_docs_fits_and_can_be_read(screen: Browser, docs: Path, page: str) -> None:
    screen.driver.get((docs / f"{page}.html").as_uri())
    check(screen)


def test_the_search_of_the_docs_works_without_a_server(browser: Browser, docs: Path) -> None:
    browser.driver.get((docs / "index.html").as_uri())
    browser.one("input.md-search__input").send_keys("shuffle service")
    found = browser.wait_until(lambda: browser.all(".md-search-result__item h1"))
    assert "What dies, and what that costs" in [heading.get_attribute("textContent") for heading in found]


def check(browser: Browser) -> None:
    """The page is no wider than the screen, and axe finds nothing against the rules of WCAG 2, contrast among them."""
    wide, screen = browser.driver.execute_script("return [document.documentElement.scrollWidth, innerWidth];")
    assert wide <= screen
    browser.driver.execute_script(Axe().axe_script)
    found = browser.driver.execute_async_script(_RUN_AXE, RULES)
    assert not [(one["id"], one["nodes"][0]["html"][:200], len(one["nodes"])) for one in found]
