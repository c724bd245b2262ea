"""The site is built without a warning, and its generated pages are complete.

In a browser, on a desk and on a phone, nothing is cut off and no key breaks.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click import Context
from playwright.sync_api import Page, ViewportSize

from pipeline.cli.main import COMMANDS
from policies import api
from proxy.cli.main import main as sluice
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
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
    return folder


@pytest.fixture(scope="module")
def pages(folder: Path) -> list[str]:
    """The pages of the site, by their paths."""
    return sorted(path.parent.relative_to(folder).as_posix() for path in folder.rglob("index.html"))


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """The site on a loopback port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
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


def test_every_page_is_built(pages: list[str]) -> None:
    """The build makes a page of each document, without a warning."""
    docs = ROOT / "docs"
    named = [path.relative_to(docs) for path in docs.rglob("*.md")]
    assert {
        (path.parent if path.stem == "index" else path.with_suffix("")).as_posix()
        for path in named
        if path.parts[0] != "changelog.d"
    } == set(pages) - {"404"}


def test_every_command_has_a_heading(folder: Path) -> None:
    """Also those that are imported when they are asked for; each option stands below its command."""
    text = (folder / "operate" / "cli" / "index.html").read_text("utf-8")
    headings = set(re.findall(r'<h\d id="([\w-]+)"', text))

    assert {f"sluice-{name}" for name in sluice.list_commands(Context(sluice))} <= headings
    assert {f"sluice-pipeline-{name}" for name in COMMANDS} <= headings
    assert "--config FILE" in text
    assert "--master TEXT" in text


def test_the_reference_has_each_hook_and_each_tool_of_the_host(folder: Path) -> None:
    """The members of a name of the door have headings, also those that it inherits from another module's class."""
    text = (folder / "extend" / "policy-api" / "index.html").read_text("utf-8")
    headings = set(re.findall(r'<h\d id="([\w.]+)"', text))
    members = {
        **dict.fromkeys(vars(api.Policy), "Policy"),
        **dict.fromkeys((*vars(api.Services), *vars(api.HostTools)), "Host"),
    }
    named = {f"sluice.{kind}.{name}" for name, kind in members.items() if name[0] != "_"}

    assert len(named) > 30
    assert named <= headings


@pytest.mark.slow
def test_every_page_fits_its_screen(browser_page: Page, address: str, pages: list[str]) -> None:
    """No page scrolls sideways and no key breaks; on a desk no table and no block of code is cut off."""
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
