"""Chromium, driven by Playwright, for the pages that Sluice serves; and axe, which finds accessibility faults.

The browser is the system's own (Debian: `chromium`); nothing is downloaded. A page must log nothing to its console and
send requests to its own server only.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, Page, ViewportSize

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS: Final = ("--no-sandbox", "--disable-dev-shm-usage")
WIDE: Final[ViewportSize] = {"width": 1440, "height": 900}
NARROW: Final[ViewportSize] = {"width": 390, "height": 844}
PATIENCE_MS: Final = 120_000
"""How long a page may take on a busy machine until a test gives up."""


class NoBrowserError(Exception):
    """No browser can be started; the text says what is missing."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser. Raises NoBrowserError."""
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 - it may be absent
    except ImportError as error:
        raise NoBrowserError("playwright is not installed") from error
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise NoBrowserError(f"none of {', '.join(NAMES)} is installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


class Complaints:
    """The console messages of a page, and its requests to other servers than its own."""

    def __init__(self, page: Page, address: str) -> None:
        self.said: list[str] = []
        page.on("console", lambda told: self.said.append(f"{told.type}: {told.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda asked: self._asked(asked.url, address))

    def _asked(self, url: str, address: str) -> None:
        if not url.startswith((address, "data:")):
            self.said.append(f"asked {url}")


def violations(page: Page) -> list[str]:
    """Return the faults that axe finds on the page: rule, elements, and the reason of each."""
    axe = files("axe_playwright_python") / "axe.min.js"
    page.evaluate(axe.read_text("utf-8"))
    found: dict[str, Any] = page.evaluate("axe.run()")
    return [
        f"{rule['id']} {node['target']}: {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def keep(page: Page, name: str, folder: Path) -> Path:
    """Save a picture of the whole page in SLUICE_SCREENSHOTS if that is set, else in `folder`."""
    path = Path(os.environ.get("SLUICE_SCREENSHOTS") or folder) / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    return path
