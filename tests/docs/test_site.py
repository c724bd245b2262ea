"""The site is built without a warning. In a browser, on a desk and on a phone, nothing is cut off and no key breaks."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize

from tests.support.pages.browser import NARROW, PATIENCE_MS, NoBrowserError, chromium

ROOT = Path(__file__).resolve().parents[2]
DESK: ViewportSize = {"width": 1280, "height": 900}
FAULTS = """() => {
  const faults = [], root = document.documentElement;
  const wider = (each) => each.scrollWidth > each.clientWidth + 1;
  if (wider(root)) faults.push("the page scrolls sideways");
  for (const key of document.querySelectorAll("code .key"))
    if (key.getClientRects().length > 1) faults.push("broken: " + key.innerText);
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap"))
    if (wider(table) && (root.clientWidth > 1000 || !table.querySelector("td:nth-child(5)")))
      faults.push("wide table: " + table.innerText.slice(0, 60));
  for (const code of document.querySelectorAll("pre > code"))
    if (wider(code) && root.clientWidth > 1000) faults.push("wide code: " + code.innerText.slice(0, 60));
  if (!document.querySelector(".md-footer__link")) faults.push("no previous or next page");
  if (document.querySelectorAll("[data-md-component=palette] input").length < 3) faults.push("no toggle");
  return faults;
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a line for each."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The built site on a loopback port: its address and its pages."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", ".mkdocs.yml", "-d", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = [path.parent.relative_to(folder).as_posix() for path in folder.rglob("index.html")]
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", sorted(pages)
        server.shutdown()
        thread.join()


@pytest.fixture
def browser_page() -> Iterator[Page]:
    """A page of a browser."""
    try:
        with chromium() as browser:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE_MS)
            yield page
    except NoBrowserError as error:
        pytest.skip(f"no browser here: {error}")


def test_every_page_is_built(site: tuple[str, list[str]]) -> None:
    """The build makes a page of each document, without a warning."""
    _, pages = site
    docs = ROOT / "docs"
    named = {path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")}
    assert {
        name for name in named if name != "index" and not name.startswith("changelog.d/")
    } <= set(pages)


def test_every_page_fits_its_screen(browser_page: Page, site: tuple[str, list[str]]) -> None:
    """No page scrolls sideways and no key breaks; on a desk no table and no block of code is cut off."""
    address, pages = site
    faults = {}
    for name in pages:
        browser_page.set_viewport_size(DESK)
        browser_page.goto(f"{address}/{name}/", wait_until="domcontentloaded")
        for screen in (DESK, NARROW):
            browser_page.set_viewport_size(screen)
            if found := browser_page.evaluate(FAULTS):
                faults[name, screen["width"]] = found

    assert len(pages) > 40
    assert not faults
