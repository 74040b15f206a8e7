"""Actions of a user on a page, for tests: open it, point at a segment of the timeline, press keys, read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.wait import WebDriverWait

TIMEOUT_S = 120

_SEGMENT = """
const [attempt, state, run, done] = arguments;
showRun(run).then((view) => {
  const found = view.run;
  let first = -1;
  for (let at = 0; at < found.segment_lane.length; at += 1) {
    if (found.attempt[found.segment_attempt[at]] !== attempt) continue;
    if (found.states[found.segment_state[at]] !== state) continue;
    if (first < 0 || found.segment_start[at] < found.segment_start[first]) first = at;
  }
  if (first < 0) return done(null);
  const middle = (found.segment_start[first] + found.segment_end[first]) / 2;
  done([view.xOf(middle), AXIS_PIXELS + (found.segment_lane[first] - view.topRow + 0.5) * view.rowPixels]);
});
"""
_VIEW = "const [run, done] = arguments; showRun(run).then((v) => done([v.from * v.run.tick_s, v.to * v.run.tick_s]));"
_PIXEL = """
const [canvas, x, y] = arguments, ratio = window.devicePixelRatio;
const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
brush.drawImage(canvas, Math.round(x * ratio), Math.round(y * ratio), 1, 1, 0, 0, 1, 1);
return Array.from(brush.getImageData(0, 0, 1, 1).data);
"""


class Browser:
    """A browser with one page open."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open_report(self, file: Path) -> None:
        """Open a report and wait until its first run is drawn."""
        self.driver.get(file.as_uri())
        self.wait_until(lambda: self.one("#run-0").get_attribute("data-ready"))

    def one(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def wait_until(self, holds: Callable[[], Any]) -> Any:
        """Wait until ``holds`` returns something true, and return it.  Raises TimeoutException."""
        return WebDriverWait(self.driver, TIMEOUT_S, poll_frequency=0.05).until(lambda _: holds())

    def place_of(self, attempt: str, state: str, run: int = 0) -> tuple[float, float]:
        """The middle of an attempt's earliest segment in a state, in pixels from its canvas' upper left corner."""
        found = self.driver.execute_async_script(_SEGMENT, attempt, state, run)
        assert found is not None, f"{attempt} has no segment {state}"
        return found[0], found[1]

    def shown_s(self, run: int = 0) -> tuple[float, float]:
        """The time span that the timeline shows."""
        start_s, end_s = self.driver.execute_async_script(_VIEW, run)
        return start_s, end_s

    def point_at(self, canvas: WebElement, place: tuple[float, float]) -> None:
        """Move the pointer to a point."""
        self._moved(canvas, place).perform()

    def press_at(self, canvas: WebElement, place: tuple[float, float]) -> None:
        """Move the pointer to a point and press its button."""
        self._moved(canvas, place).click().perform()

    def turn_wheel(self, canvas: WebElement, place: tuple[float, float], by: int, *, control: bool = False) -> None:
        """Turn the wheel over a point; negative means away from the user."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
        origin = ScrollOrigin.from_element(canvas, *_from_centre(canvas, place))
        actions = ActionChains(self.driver)
        if control:
            actions.key_down(Keys.CONTROL)
        actions.scroll_from_origin(origin, 0, by)
        if control:
            actions.key_up(Keys.CONTROL)
        actions.perform()

    def pixel(self, canvas: WebElement, place: tuple[float, float]) -> list[int]:
        """Red, green, blue and opacity of a pixel, as painted."""
        return self.driver.execute_script(_PIXEL, canvas, *place)

    def said(self, selector: str) -> Mapping[str, str]:
        """A list of definitions as the user reads it, by term."""
        pairs = zip(self.all(f"{selector} dt"), self.all(f"{selector} dd"), strict=True)
        return {term.text: text.text for term, text in pairs}

    def _moved(self, element: WebElement, place: tuple[float, float]) -> ActionChains:
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        return ActionChains(self.driver, duration=0).move_to_element_with_offset(element, *_from_centre(element, place))


def _from_centre(element: WebElement, place: tuple[float, float]) -> tuple[int, int]:
    size = element.size
    return round(place[0] - size["width"] / 2), round(place[1] - size["height"] / 2)
