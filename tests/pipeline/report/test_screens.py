"""The page of a report in a real Chromium, on a desk and on a phone, light and dark. Skipped where there is no browser.

SLUICE_SCREENSHOTS=FOLDER keeps the pictures.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from pipeline.report.page import html_of
from tests.support.pages.browser import (
    NARROW,
    Complaints,
    NoBrowserError,
    chromium,
    keep,
    violations,
)
from tests.support.pipeline.report_facts import busy_facts

DESK: ViewportSize = {"width": 1280, "height": 900}
CUT_OFF = """() => {
  const faults = [], edge = document.documentElement.clientWidth;
  for (const text of document.querySelectorAll("figure text")) {
    const box = text.getBoundingClientRect();
    if (box.width && (box.left < 0 || box.right > edge)) faults.push("cut off: " + text.textContent);
    if (box.width && box.height < 8) faults.push("tiny: " + text.textContent);
  }
  for (const svg of document.querySelectorAll("figure svg")) {
    const labels = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
    for (const [a, one] of labels) for (const [b, other] of labels)
      if (one !== other && one.width && one.left < other.right - 1 && other.left < one.right - 1
          && one.top < other.bottom - 4 && other.top < one.bottom - 4) faults.push(a + " over " + b);
  }
  return faults;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    try:
        with chromium() as running:
            yield running
    except NoBrowserError as error:
        pytest.skip(f"no browser here: {error}")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a busy day."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html_of(busy_facts()), "utf-8")
    return path


@pytest.mark.parametrize(
    ("size", "scheme"), [(DESK, "light"), (NARROW, "dark")], ids=["desk", "phone"]
)
def test_the_page_fits_and_can_be_read(
    browser: Browser, file: Path, size: ViewportSize, scheme: str, tmp_path: Path
) -> None:
    """Nothing is wider than the screen, no label is cut off or lies over another, and axe finds no fault."""
    page = browser.new_context(viewport=size, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    complaints = Complaints(page, file.as_uri())
    page.goto(file.as_uri())

    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert page.evaluate(CUT_OFF) == []
    assert page.locator("figure svg:visible").count() == page.locator("figure").count() > 0
    is_dark = page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 20, 23)"
    assert is_dark is (scheme == "dark")
    for folded in page.locator("summary").all():
        folded.click()
    assert not violations(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    assert complaints.said == []
    keep(page, f"report-{size['width']}-{scheme}", tmp_path)


def test_print_is_light_and_whole(browser: Browser, file: Path) -> None:
    """On paper the page is dark on light also for readers of the dark scheme, with the wide drawings."""
    page: Page = browser.new_context(viewport=NARROW, color_scheme="dark").new_page()
    page.goto(file.as_uri())
    page.emulate_media(media="print", color_scheme="dark")

    colours = "getComputedStyle(document.documentElement).getPropertyValue('--ground')"
    assert page.evaluate(colours) == "#ffffff"
    assert page.locator("svg.wide:visible").count() == page.locator("figure").count() > 0
    assert page.locator("svg.narrow:visible").count() == 0
    page.close()
