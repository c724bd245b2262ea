"""The dashboard's figures about clients, limits and brokers, and their use on a phone."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from policies.escaping import escaped
from tests.support.pages.browser import NARROW, keep
from tests.support.pages.dashboard_feed import DashboardFeed
from tests.support.pages.made_up_states import State

pytestmark = pytest.mark.slow

Open = Callable[..., Page]
Serve = Callable[..., DashboardFeed]


def cells(page: Page, table: str, column: int) -> list[str]:
    """Return the texts of one column."""
    return page.locator(f"#{table} tbody tr td:nth-child({column})").all_inner_texts()


def test_invisible_characters_of_a_name_are_escaped(serve: Serve, open_page: Open) -> None:
    """A client id cannot reverse the text around it or hide a part of itself, as in the terminal's tables."""
    names = ["a\u202eb", "c\u200bd", "e\x1bf\n", "g\U000e0041h", "Zoë \u4e2d"]

    def rename(state: State) -> None:
        for row, name in zip(state["principals"], names, strict=False):
            row["client_id"] = name
        state["buckets"][0]["entity"] = "client-id=\u2066x"

    feed = serve(50)
    feed.change = rename
    page = open_page(feed.address)
    page.locator("#t-principals").get_by_role("button", name="Show all").click()

    shown = cells(page, "t-principals", 1)
    assert {escaped(name) for name in names} <= set(shown)
    assert all(text.isprintable() for text in shown)
    assert any(r"client-id=\u2066x" in text for text in cells(page, "t-principals", 16))


def test_clients_that_share_a_limit_are_grouped_under_its_use(
    serve: Serve, open_page: Open
) -> None:
    """The line above them has the bucket's limit, use and wait; none is over 100 %. A sorted table has no groups."""
    feed = serve(400)
    feed.stands_still = True
    page = open_page(feed.address)
    head = page.locator("#t-principals tr.heads", has_text="user=fraud")

    assert head.locator("td").nth(0).inner_text() == "user=fraud, 25 clients"
    assert head.locator("td").nth(7).inner_text() == "8.0 MiB/s in"
    assert head.locator("td").nth(8).inner_text() == "100 %"
    assert head.locator("td").nth(9).inner_text() == "1.8 s, 4 held"
    members = page.locator("#t-principals tr.heads:has-text('user=fraud') ~ tr.member")
    assert members.locator("td:nth-child(2)").first.inner_text() == "fraud"
    page.locator("#t-principals").get_by_role("button", name="Show all").click()
    used = [text for text in cells(page, "t-principals", 9) if "%" in text]
    assert used
    assert all(int(text.removesuffix(" %")) <= 100 for text in used)
    page.locator("#t-principals").get_by_role("button", name="Requests/s").click()
    assert page.locator("#t-principals tr.heads").count() == 0
    assert len(cells(page, "t-principals", 1)) == 200


def test_every_chart_has_an_axis_that_begins_at_zero(serve: Serve, open_page: Open) -> None:
    """It has three evenly spaced ticks; the highest value shown lies below the first."""
    feed = serve(5000)
    feed.stands_still = True
    page = open_page(feed.address)
    charts = page.locator(".chart")
    assert charts.count() == 9
    for place in range(9):
        ticks = charts.nth(place).locator(".axis span").all_inner_texts()
        assert len(ticks) == 3
        assert re.fullmatch(r"0(\.0)?( .*)?", ticks[2])
    rates = charts.nth(0)
    top, middle, _ = (
        float(text.replace(",", "")) for text in rates.locator(".axis span").all_inner_texts()
    )
    assert top == 2 * middle
    assert top >= float(rates.locator(".most").inner_text().removeprefix("max ").replace(",", ""))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_column_is_reached_on_a_phone(
    serve: Serve, open_page: Open, scheme: str, tmp_path: Path
) -> None:
    """A table scrolls by itself to its last column, and the first column, the row's name, stays."""
    feed = serve(5000)
    feed.stands_still = True
    page = open_page(feed.address, NARROW, scheme)
    for section in ("brokers", "connections", "decisions"):
        page.locator(f"#{section}").scroll_into_view_if_needed()
    page.locator("#t-decisions tbody tr").first.wait_for()

    for table in ("t-principals", "t-nodes", "t-connections", "t-decisions"):
        box = page.locator(f"#{table} .scroll")
        left = box.evaluate("(box) => box.getBoundingClientRect().left")
        box.evaluate("(box) => { box.scrollLeft = box.scrollWidth; }")
        row = page.locator(f"#{table} tbody tr").first
        first = row.locator("td").first.bounding_box()
        last = row.locator("td").last.bounding_box()
        assert first is not None
        assert last is not None
        assert abs(first["x"] - left) < 1, table
        assert first["x"] + first["width"] <= last["x"] + last["width"] <= NARROW["width"], table
    keep(page, f"dashboard-phone-{scheme}", tmp_path)


def test_a_silent_or_unreachable_broker_is_shown(serve: Serve, open_page: Open) -> None:
    """It is shown with the length of its silence; one that answers, with its latency and throughput."""

    def unreached(state: State) -> None:
        nothing = {"p50": None, "p99": None}
        down = {
            "connections": 0,
            "heard_ago_ms": None,
            "silent_ms": 0,
            "dial_failures": 4,
            "latency_ms": nothing,
        }
        state["nodes"].append({**state["nodes"][0], "node": 7, **down})

    feed = serve(5000)
    feed.change = unreached
    page = open_page(feed.address)
    page.locator("#brokers").scroll_into_view_if_needed()
    page.locator("#t-nodes tbody tr").first.wait_for()

    assert cells(page, "t-nodes", 3) == ["answers", "answers", "silent for 8.4 s", "not reached"]
    assert cells(page, "t-nodes", 5)[0] == "2.2 / 31"
    assert cells(page, "t-nodes", 9) == ["0", "2", "0", "4"]


def test_an_empty_value_draws_nothing(serve: Serve, open_page: Open) -> None:
    """A bar of zero has no track, and a badge without a text is not shown."""
    feed = serve(0)
    page = open_page(feed.address)
    page.locator("#purgatory").scroll_into_view_if_needed()
    page.locator("#ages tr").first.wait_for()
    bars = page.locator("#ages .bar, #pools .bar").all()

    assert bars
    assert not [bar for bar in bars if bar.is_visible()]
