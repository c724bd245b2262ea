"""Fixtures of tests that look at the dashboard: a browser, made-up feeds, and pages without console messages."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.support.pages.browser import PATIENCE_MS, WIDE, Complaints, NoBrowserError, chromium
from tests.support.pages.dashboard_feed import DashboardFeed

Open = Callable[..., Page]
Serve = Callable[..., DashboardFeed]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return one browser for all tests."""
    try:
        with chromium() as running:
            yield running
    except NoBrowserError as error:
        pytest.skip(f"no browser here: {error}")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a feed; feeds end after the pages that read them."""
    with ExitStack() as stack:

        def served(connections: int, **more: Any) -> DashboardFeed:
            return stack.enter_context(DashboardFeed(connections, **more))

        yield served


@pytest.fixture
def open_page(browser: Browser, serve: Serve) -> Iterator[Open]:
    """Return a function that opens the dashboard of a feed; at the end its page must have no complaints."""
    watched: list[Complaints] = []
    contexts = []

    def opened(
        address: str, size: ViewportSize = WIDE, scheme: str = "light", awaited: str = "serving"
    ) -> Page:
        context = browser.new_context(viewport=size, color_scheme=scheme)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        watched.append(Complaints(page, address.partition("#")[0]))
        page.goto(address)
        page.locator("#mode", has_text=awaited).wait_for()
        return page

    yield opened
    said = [line for complaints in watched for line in complaints.said]
    for context in contexts:
        context.close()
    assert not said
