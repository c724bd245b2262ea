"""The dashboard of a real Sluice, without clients and with five thousand real connections, in a real Chromium.

It must show what the clients did, and viewing it must cost the proxy almost nothing.
"""

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from bench.harness.ports import free_ports
from bench.harness.processes import module_process
from tests.support.messages import frames as f
from tests.support.messages.raw import receive
from tests.support.pages.browser import (
    PATIENCE_MS,
    WIDE,
    Complaints,
    NoBrowserError,
    chromium,
    keep,
    violations,
)
from tests.support.processes.sluice_process import SluiceProcess

pytestmark = pytest.mark.slow

Open = Callable[..., Page]

CONNECTIONS = 5000
GROUPS = 150
"""Client ids."""
LIMIT = 20
TOKEN = "a-token-for-one-test"  # noqa: S105 - made up
POLICIES = f"[{{use: quota, config: {{quotas: [{{client_id: loud, request_rate: {LIMIT}}}]}}}}]"
MOST_PAGE_BYTES = 300_000
CSP = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


@pytest.fixture(scope="module")
def sluice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SluiceProcess]:
    """A Sluice with a dashboard, and a quota for `loud`."""
    wanted = CONNECTIONS + 500
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2 * wanted:
        pytest.skip(f"fewer than {2 * wanted} open files are allowed here")
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "token").write_text(TOKEN, "ascii")
    with module_process("tests.support.faults.stub_broker") as server:
        proxy = SluiceProcess(server, folder)
        proxy.variables |= {
            "SLUICE_ADMIN_CONTROL": f"127.0.0.1:{free_ports()}",
            "SLUICE_ADMIN_TOKEN_FILE": str(folder / "token"),
            "SLUICE_POLICIES": POLICIES,
        }
        proxy.start()
        yield proxy
        proxy.stop()


@pytest.fixture(scope="module")
def crowd(sluice: SluiceProcess) -> Iterator[list[socket.socket]]:
    """Connect so many clients; each has sent its client id."""
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", sluice.port), timeout=120))
            for _ in range(CONNECTIONS)
        ]
        for n, client in enumerate(clients):
            client.sendall(f.heartbeat(1, f"crowd-{n % GROUPS}"))
        for client in clients:
            receive(client, int.from_bytes(receive(client, 4), "big"))
        yield clients


@pytest.fixture
def open_page(sluice: SluiceProcess) -> Iterator[Open]:
    """Open the dashboard; the browser must report no error."""
    control = f"http://{sluice.variables['SLUICE_ADMIN_CONTROL']}/"
    watched: list[Complaints] = []
    try:
        with chromium() as browser:

            def opened(*, dark: bool = False) -> Page:
                page = browser.new_page(viewport=WIDE, color_scheme="dark" if dark else "light")
                page.set_default_timeout(PATIENCE_MS)
                watched.append(Complaints(page, control))
                page.goto(f"{control}#token={TOKEN}")
                page.locator("#mode", has_text="serving").wait_for()
                return page

            yield opened
    except NoBrowserError as error:
        pytest.skip(f"no browser here: {error}")
    assert not [line for each in watched for line in each.said]


def row(page: Page, table: str, wanted: str) -> Any:
    """Return the first row with this text."""
    return page.locator(f"#{table} tbody tr", has_text=wanted).first


def draw_all(page: Page) -> None:
    """Scroll through the page, because only visible parts are drawn."""
    for section in ("brokers", "purgatory", "connections", "decisions"):
        page.locator(f"#{section}").scroll_into_view_if_needed()
    page.locator("#t-decisions").locator("tbody tr, .empty:visible").first.wait_for()
    page.locator("#pause").click()
    page.evaluate("scrollTo(0, 0)")


def test_a_proxy_without_clients_is_shown(open_page: Open, tmp_path: Path) -> None:
    """The page is complete, small and restricted by its policy, says that no client is
    connected, and is accessible in light and in dark; the keyboard reaches every control.
    """
    page = open_page(dark=True)
    loaded = page.evaluate(
        "performance.getEntries().filter((e) => 'encodedBodySize' in e && !e.name.includes('/v1/'))"
        ".map((e) => [e.name, e.encodedBodySize])"
    )
    assert {name.rpartition("/")[2].partition("#")[0] for name, _ in loaded} >= {"app.js", ""}
    assert 10_000 < sum(size for _, size in loaded) < MOST_PAGE_BYTES
    for name, _ in loaded:
        assert page.request.get(name).headers["content-security-policy"] == CSP
    page.get_by_text("No client is connected.").wait_for()
    page.get_by_text("No connection is open.").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the tables"
    draw_all(page)
    assert not violations(page)
    keep(page, "dashboard-live-0-dark", tmp_path)
    page.emulate_media(color_scheme="light")
    assert not violations(page)
    keep(page, "dashboard-live-0-light", tmp_path)


def test_the_clients_activity_is_shown(
    sluice: SluiceProcess, crowd: list[socket.socket], open_page: Open, tmp_path: Path
) -> None:
    """Five thousand are counted; a client over its quota is at the top of
    the principals and of the connections, muted, and in the decisions.
    """
    with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as loud:
        page = open_page()
        shown = page.locator(".chart", has_text="Connections").locator(".figure")
        # More than ten seconds' credit at once: the rest waits.
        loud.sendall(b"".join(f.heartbeat(n, "loud") for n in range(LIMIT * 14)))

        principal = row(page, "t-principals", "loud")
        page.locator("#t-principals tbody tr:first-child", has_text="loud").wait_for()
        page.locator("#find").fill("loud")
        principal.locator("td:nth-child(11)", has_text="1").wait_for()  # throttled now
        assert principal.locator("td:nth-child(8)").inner_text() == f"{LIMIT}/s"
        assert principal.locator("td:nth-child(9)").inner_text() == "100 %"
        page.get_by_text("THROTTLED").first.wait_for()
        assert shown.inner_text() == f"{CONNECTIONS + 1:,}"
        page.locator("#decisions").scroll_into_view_if_needed()
        decision = row(page, "t-decisions", "throttled")
        decision.wait_for()
        assert "Heartbeat" in decision.inner_text()
        assert "client-id=loud" in decision.inner_text()
        page.locator("#find").fill("")
        page.locator("#connections").scroll_into_view_if_needed()
        page.get_by_text(f"{CONNECTIONS + 1:,}, 200 of them listed").wait_for()
        first = page.locator("#t-connections tbody tr").first
        first.get_by_text("THROTTLED").wait_for()
        assert "loud" in first.inner_text()
        draw_all(page)
        keep(page, "dashboard-live-5000", tmp_path)
