"""The dashboard in a real Chromium: its content without clients and with thousands, and its use.

The states are made up by the feed, so that each situation can be shown; `test_dashboard_live`
shows a real proxy's. Skipped, with the reason, where there is no browser.
"""

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.support.pages.browser import (
    NARROW,
    PATIENCE_MS,
    WIDE,
    keep,
    violations,
)
from tests.support.pages.dashboard_feed import DashboardFeed
from tests.support.pages.made_up_states import State

Open = Callable[..., Page]
Serve = Callable[..., DashboardFeed]

SHARED = 2
"""Buckets that several clients share, in the made-up states."""
STATIC = files("proxy.admin") / "static"


def cells(page: Page, table: str, column: int) -> list[str]:
    """Return the texts of one column."""
    return page.locator(f"#{table} tbody tr td:nth-child({column})").all_inner_texts()


def figure(page: Page, label: str) -> str:
    """Return the large figure above a chart."""
    return page.locator(".chart", has_text=label).locator(".figure").inner_text()


def test_the_page_is_small_and_whole() -> None:
    """All files together stay under 300 kB, and none of them loads from another host."""
    names = [path for path in STATIC.iterdir() if path.is_file()]
    texts = {path.name: path.read_text("utf-8") for path in names}

    assert {"index.html", "app.js", "style.css", "favicon.svg"} <= set(texts)
    assert sum(len(text.encode()) for text in texts.values()) < 300_000
    for name, text in texts.items():
        plain = text.replace("http://www.w3.org/2000/svg", "")
        assert not re.findall(r"https?://\w|url\(|@import|//cdn", plain), name
        assert not re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|eval\(|<script>|style=", text
        )


@pytest.mark.slow
def test_without_clients_each_table_says_so(serve: Serve, open_page: Open, tmp_path: Path) -> None:
    """No table is an empty frame."""
    feed = serve(0)
    page = open_page(feed.address)

    page.get_by_text("No client is connected.").wait_for()
    page.get_by_text("None: every channel is read from.").wait_for()
    page.get_by_text("No connection is open.").wait_for()
    page.locator("#decisions").scroll_into_view_if_needed()
    page.get_by_text("Nothing was throttled, held, refused or expired.").wait_for()
    assert figure(page, "Connections") == "0"
    keep(page, "dashboard-0", tmp_path)


@pytest.mark.slow
def test_with_thousands_connected_few_are_listed(
    serve: Serve, open_page: Open, tmp_path: Path
) -> None:
    """Five thousand connections are counted; more rows are shown on demand."""
    feed = serve(5000)
    page = open_page(feed.address)

    assert figure(page, "Connections") == "5,000"
    assert len(cells(page, "t-principals", 1)) == 12
    page.locator("#t-principals").get_by_role("button", name="Show all 200").click()
    assert len(cells(page, "t-principals", 1)) == 200 + SHARED
    page.locator("#connections").scroll_into_view_if_needed()
    page.get_by_text("5,000, 200 of them listed").wait_for()
    page.locator("#t-connections").get_by_role("button", name="Show all 200").click()
    assert len(cells(page, "t-connections", 1)) == 200
    page.locator("#decisions").scroll_into_view_if_needed()
    page.locator("#t-decisions tbody tr").first.wait_for()
    keep(page, "dashboard-5000", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("connections", "size", "scheme"),
    [(0, WIDE, "light"), (0, NARROW, "dark"), (5000, WIDE, "dark"), (5000, NARROW, "light")],
    ids=["none-wide-light", "none-narrow-dark", "many-wide-dark", "many-narrow-light"],
)
def test_axe_finds_nothing(
    serve: Serve, open_page: Open, connections: int, size: ViewportSize, scheme: str, tmp_path: Path
) -> None:
    """No rule of axe is broken (contrast, names, roles, keyboard), and no page is wider than its window."""
    feed = serve(connections, trace_url="https://traces.example/{trace_id}")
    page = open_page(feed.address, size, scheme)
    for section in (
        "brokers",
        "purgatory",
        "connections",
        "decisions",
    ):  # only visible parts are drawn
        page.locator(f"#{section}").scroll_into_view_if_needed()
    page.locator("#t-decisions").locator("tbody tr, .empty:visible").first.wait_for()
    page.locator("#pause").click()

    assert not violations(page)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= size["width"]
    keep(page, f"dashboard-{connections}-{scheme}-{size['width']}", tmp_path)


def test_a_client_id_is_shown_as_text(serve: Serve, open_page: Open) -> None:
    """Markup in a client id is shown as it is written, and makes no element."""
    feed = serve(50)
    page = open_page(feed.address)
    page.locator("#t-principals").get_by_role("button", name="Show all").click()

    assert any("<img src=x" in text for text in cells(page, "t-principals", 1))
    assert page.locator("img").count() == 0


def test_the_page_follows_the_events(serve: Serve, open_page: Open) -> None:
    """A changed figure is shown within two seconds, without loading the page again."""
    feed = serve(5)
    page = open_page(feed.address)
    before = page.evaluate("performance.timeOrigin")

    feed.connections = 77

    page.locator(".chart", has_text="Connections").locator(".figure", has_text="77").wait_for()
    assert page.evaluate("performance.timeOrigin") == before


@pytest.mark.slow
def test_an_unchanged_state_writes_no_cell(serve: Serve, open_page: Open) -> None:
    """However often it is sent; this keeps the page cheap."""
    feed = serve(5000)
    feed.stands_still = True
    feed.every_s = 0.05
    page = open_page(feed.address)
    page.wait_for_timeout(500)

    touched = page.evaluate("""() => new Promise((resolve) => {
        const seen = [];
        const note = (changes) => seen.push(...changes.map((c) => c.target.nodeName));
        const observer = new MutationObserver(note);
        observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
        setTimeout(() => { observer.disconnect(); resolve(seen); }, 700);
    })""")

    assert touched == []


@pytest.mark.slow
def test_rows_are_sorted_in_both_directions(serve: Serve, open_page: Open) -> None:
    """A click on a heading sorts by it, largest first; a second one reverses the order."""
    feed = serve(400)
    feed.stands_still = True
    page = open_page(feed.address)
    heading = page.locator("#t-principals").get_by_role("button", name="Connections")

    heading.click()
    down = [int(text.replace(",", "")) for text in cells(page, "t-principals", 15)]
    heading.click()
    up = [int(text.replace(",", "")) for text in cells(page, "t-principals", 15)]

    assert down == sorted(down, reverse=True)
    assert up == sorted(up)
    assert up[-1] < down[0]
    assert page.locator("#t-principals th[aria-sort=ascending]").inner_text().startswith("Conn")


@pytest.mark.slow
def test_the_keyboard_is_enough(serve: Serve, open_page: Open) -> None:
    """Tab finds the link past the head; `/` filters, Escape clears it; arrows walk along a chart."""
    feed = serve(400)
    feed.stands_still = True
    page = open_page(feed.address)

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the tables"
    page.keyboard.press("/")
    page.keyboard.type("billing")
    page.get_by_text("25 of 200 listed match").first.wait_for()
    assert set(cells(page, "t-principals", 2)) == {"billing"}
    page.keyboard.press("Escape")
    page.locator("#t-principals tbody td:nth-child(2):not(:text-is('billing'))").first.wait_for()

    chart = page.locator(".chart", has_text="Requests/s")
    chart.locator("svg").focus()
    page.keyboard.press("PageUp")
    page.keyboard.press("ArrowLeft")
    assert re.fullmatch(r"\d\d:\d\d:\d\d", chart.locator(".when").inner_text())
    assert " at " in (chart.locator("svg").get_attribute("aria-label") or "")


@pytest.mark.slow
def test_pause_stops_the_page_until_it_is_resumed(serve: Serve, open_page: Open) -> None:
    """Nothing changes while it is paused; afterwards it shows the present state."""
    feed = serve(5)
    feed.every_s = 0.05
    page = open_page(feed.address)
    page.get_by_role("button", name="Pause").click()
    feed.connections = 88

    page.wait_for_timeout(400)
    assert figure(page, "Connections") == "5"
    page.get_by_role("button", name="Go on").click()
    page.locator(".chart .figure", has_text="88").wait_for()


@pytest.mark.slow
def test_a_lost_proxy_is_shown_and_found_again(serve: Serve, browser: Browser) -> None:
    """The page shows the time of its figures; when the proxy is back it continues by itself."""
    feed = serve(5)
    page = browser.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(feed.address)
    page.locator("#mode", has_text="serving").wait_for()
    feed.stop()
    page.locator("#mode", has_text="not connected").wait_for()
    assert "The figures are of" in page.locator("#link").inner_text()

    serve(9, port=feed.port)
    page.locator("#mode", has_text="serving").wait_for()
    assert figure(page, "Connections") == "9"
    assert page.locator("#link").inner_text() == ""
    page.close()


@pytest.mark.slow
def test_a_drain_is_shown(serve: Serve, open_page: Open) -> None:
    """The badge and the title of the page say that the proxy drains."""

    def drain(state: State) -> None:
        state["now"]["draining"] = True

    feed = serve(5)
    feed.change = drain
    page = open_page(feed.address, awaited="draining")

    assert page.title() == "Sluice: draining"


def test_the_token_is_asked_for(serve: Serve, browser: Browser) -> None:
    """Without the token a dialog opens; a wrong one is refused, the right one opens the page."""
    feed = serve(5, token="a-long-secret")  # noqa: S106 - made up
    page = browser.new_page()
    page.goto(feed.address)
    page.locator("#token").fill("wrong")
    page.keyboard.press("Enter")
    page.get_by_text("The token was refused.").wait_for()
    assert not violations(page)
    page.locator("#token").fill("a-long-secret")
    page.keyboard.press("Enter")

    page.locator("#mode", has_text="serving").wait_for()
    page.reload()  # kept for this tab
    page.locator("#mode", has_text="serving").wait_for()
    page.close()


@pytest.mark.slow
def test_a_token_in_the_address_is_removed_from_it(serve: Serve, open_page: Open) -> None:
    """`#token=...` opens the page at once, and stays neither in the address nor in the history."""
    feed = serve(5, token="a-long-secret")  # noqa: S106 - made up
    page = open_page(feed.address + "#token=a-long-secret")

    assert page.url == feed.address


@pytest.mark.slow
def test_traces_are_linked_to_the_web_only(serve: Serve, open_page: Open) -> None:
    """A decision links to its trace by the template; a template that is no web address makes no link."""
    for template, links in (("https://traces.example/t/{trace_id}", True), ("javascript:x", False)):
        feed = serve(50, trace_url=template)
        page = open_page(feed.address)
        page.locator("#decisions").scroll_into_view_if_needed()
        page.locator("#t-decisions tbody tr").first.wait_for()
        found = page.locator("#t-decisions a")

        assert (found.count() > 0) == links
        if links:
            href = found.first.get_attribute("href") or ""
            assert re.fullmatch(r"https://traces\.example/t/[0-9a-f]{32}", href)


@pytest.mark.slow
def test_the_theme_is_chosen_and_kept(serve: Serve, open_page: Open) -> None:
    """The button changes from the system's theme to light to dark, and a reload keeps the choice."""
    feed = serve(5)
    page = open_page(feed.address)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.get_by_role("button", name="Theme")
    button.click()
    button.click()
    dark = page.evaluate(ground)
    page.reload()
    page.locator("#mode", has_text="serving").wait_for()

    assert light != dark
    assert page.evaluate(ground) == dark
    assert button.inner_text() == "Theme: dark"


@pytest.mark.slow
def test_a_hidden_tab_costs_nothing(serve: Serve, open_page: Open) -> None:
    """A hidden tab closes its stream, and opens it when it is shown again."""
    hide = """(hidden) => {
        Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    feed = serve(5)
    feed.every_s = 0.05
    page = open_page(feed.address)
    for hidden, viewers in ((True, 0), (False, 1)):
        page.evaluate(hide, hidden)
        for _ in range(100):
            if feed.viewers == viewers:
                break
            page.wait_for_timeout(50)
        assert feed.viewers == viewers
