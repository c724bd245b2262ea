"""The dashboard of a real Sluice with five thousand real connections, in a real Chromium.

What it shows must be what the clients did; and looking at it must cost the proxy next to nothing.
"""

from __future__ import annotations

import resource
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.support import frames as f
from tests.support.browser import Complaints, NoBrowserError, chromium, keep, violations
from tests.support.ports import free_ports
from tests.support.raw import receive
from tests.support.sluice_process import SluiceProcess
from tests.support.stub_broker import far_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    Open = Callable[[], Page]

CONNECTIONS = 5000
GROUPS = 150
"""Client ids."""
LIMIT = 20
TOKEN = "a-token-for-one-test"  # noqa: S105 - made up
POLICIES = f"[{{use: quota, config: {{quotas: [{{client_id: loud, request_rate: {LIMIT}}}]}}}}]"
VIEWERS = 4
LOOK_S = 5.0
MOST_PERCENT = 1.0
"""Of one core, for each more who looks."""


def beat(client: socket.socket, client_id: str, ident: int = 1) -> None:
    """One request and its reply."""
    client.sendall(f.heartbeat(ident, client_id))
    (size,) = [int.from_bytes(receive(client, 4), "big")]
    receive(client, size)


@pytest.fixture(scope="module")
def sluice(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SluiceProcess]:
    """With a dashboard, and a quota for `loud`."""
    wanted = CONNECTIONS + 500
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2 * wanted:
        pytest.skip(f"fewer than {2 * wanted} open files are allowed here")
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "token").write_text(TOKEN, "ascii")
    with far_broker() as server:
        proxy = SluiceProcess(server, folder)
        proxy.variables |= {
            "SLUICE_ADMIN_CONTROL": f"127.0.0.1:{free_ports('127.0.0.1')}",
            "SLUICE_ADMIN_TOKEN_FILE": str(folder / "token"),
            "SLUICE_POLICIES": POLICIES,
        }
        proxy.start()
        yield proxy
        proxy.stop()


@pytest.fixture(scope="module")
def crowd(sluice: SluiceProcess) -> Iterator[list[socket.socket]]:
    """Connected, each has said who it is."""
    with ExitStack() as stack:
        clients = []
        for n in range(CONNECTIONS):
            client = socket.create_connection(("127.0.0.1", sluice.port), timeout=30)
            clients.append(stack.enter_context(client))
            beat(client, f"crowd-{n % GROUPS}")
        yield clients


@pytest.fixture
def open_page(sluice: SluiceProcess) -> Iterator[Open]:
    """Opens the dashboard; nothing may be complained of."""
    control = f"http://{sluice.variables['SLUICE_ADMIN_CONTROL']}/"
    watched: list[Complaints] = []
    try:
        with chromium() as browser:

            def opened() -> Page:
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                page.set_default_timeout(20_000)
                watched.append(Complaints(page, control))
                page.goto(f"{control}#token={TOKEN}")
                page.locator("#mode", has_text="serving").wait_for()
                return page

            yield opened
    except NoBrowserError as error:
        pytest.skip(f"no browser here: {error}")
    assert not [line for each in watched for line in each.said]


def row(page: Page, table: str, wanted: str) -> Any:
    """The first row with this text."""
    return page.locator(f"#{table} tbody tr", has_text=wanted).first


@pytest.mark.slow
def test_what_clients_do_is_what_is_shown(
    sluice: SluiceProcess, crowd: list[socket.socket], open_page: Open, tmp_path: Path
) -> None:
    """Five thousand are counted; who is over its quota is at the top of the principals, muted, and in the decisions."""
    with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as loud:
        page = open_page()
        shown = page.locator(".chart", has_text="Connections").locator(".figure")
        # More than ten seconds' credit at once: the rest waits.
        loud.sendall(b"".join(f.heartbeat(n, "loud") for n in range(LIMIT * 14)))

        principal = row(page, "t-principals", "loud")
        page.locator("#find").fill("loud")
        principal.locator("td:nth-child(8)", has_text="1").wait_for()  # throttled now
        assert principal.locator("td:nth-child(5)").inner_text() == str(LIMIT)
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
        page.locator("#pause").click()
        assert not violations(page)
        keep(page, "dashboard-live", tmp_path)


def used_s(process: psutil.Process) -> float:
    """The CPU seconds of a process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def busy_percent(process: psutil.Process) -> float:
    """How busy it is for a while, in per cent of one core."""
    began, before = time.monotonic(), used_s(process)
    time.sleep(LOOK_S)
    return (used_s(process) - before) / (time.monotonic() - began) * 100


@pytest.mark.slow
def test_looking_costs_next_to_nothing(
    sluice: SluiceProcess,
    crowd: list[socket.socket],
    open_page: Open,
) -> None:
    """With five thousand connections, each who looks costs the proxy less than one per cent of a core."""
    process = psutil.Process(sluice.pid)
    nobody = busy_percent(process)
    pages = [open_page() for _ in range(VIEWERS)]
    time.sleep(1)
    busy = busy_percent(process)

    assert not any(page.evaluate("document.hidden") for page in pages), "they do not look"
    each = (busy - nobody) / VIEWERS
    assert each < MOST_PERCENT, f"nobody looks: {nobody:.2f} %, {VIEWERS} do: {busy:.2f} %"
