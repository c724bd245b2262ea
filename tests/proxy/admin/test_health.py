"""Probes, metrics, the version and the dashboard's files: the paths that need no token."""

import threading
from importlib.resources import files

import pytest
import trio
import trio.testing

from proxy.admin.health import PAGE_KEPT_S
from proxy.telemetry.metrics.exposition import OPENMETRICS, TEXT
from tests.support.processes.admin_room import everything, roomy
from tests.support.processes.asgi import ask


@pytest.fixture
def room():
    with roomy() as made:
        yield made


@pytest.mark.parametrize("path", ["/startup", "/live"])
async def test_a_draining_proxy_is_alive(room, path):
    """A kubelet must not restart a proxy that drains or is full."""
    room.drained = room.full = True
    answer = await ask(everything(room), path)
    assert (answer.status, answer.said["ok"]) == (200, True)


@pytest.mark.parametrize(
    ("drained", "full", "status"),
    [(False, False, 200), (True, False, 503), (False, True, 503), (True, True, 503)],
)
async def test_a_proxy_is_ready_while_it_accepts_new_clients(room, drained, full, status):
    """The answer names the check that failed."""
    room.drained, room.full = drained, full
    answer = await ask(everything(room), "/ready?verbose=1")
    assert answer.status == status
    checks = {each["name"]: each["ok"] for each in answer.said["checks"]}
    assert checks == {"serving": not drained, "connections": not full, "nodes": True}
    assert answer.said["degraded"] is False


async def test_a_broker_outside_the_ports_makes_it_degraded_and_not_unready(room):
    """A pod that serves the other brokers stays in service: its replicas have the same settings."""
    room.engine.topology.advertise(7_000, b"kafka-7000", 9092)
    answer = await ask(everything(room), "/ready")
    assert (answer.status, answer.said["ok"], answer.said["degraded"]) == (200, True, True)
    (check,) = (each for each in answer.said["checks"] if not each["ok"])
    assert check["name"] == "nodes"
    assert check["detail"].startswith("brokers 7000 are outside listen.nodes")
    room.drained = True
    answer = await ask(everything(room), "/ready")
    assert (answer.status, answer.said["ok"], answer.said["degraded"]) == (503, False, True)


async def test_a_scrape_that_is_cancelled_leaves_no_thread_behind(room, monkeypatch):
    """The next one waits for its page."""
    begun, ends, rendered = trio.Event(), threading.Event(), []
    token = trio.lowlevel.current_trio_token()

    def render(_, *, openmetrics):
        rendered.append(openmetrics)
        token.run_sync_soon(begun.set)
        ends.wait()
        return b"page"

    monkeypatch.setattr("proxy.telemetry.metrics.exposition.render", render)
    app = everything(room)
    async with trio.open_nursery() as nursery:
        first = trio.CancelScope()

        async def scrape():
            with first:
                await ask(app, "/metrics")

        nursery.start_soon(scrape)
        await begun.wait()
        first.cancel()
        nursery.start_soon(ask, app, "/metrics")
        await trio.testing.wait_all_tasks_blocked()
        ends.set()
    assert rendered == [False]


async def test_metrics_are_sent_in_the_format_that_is_asked_for(room):
    """OpenMetrics is sent only to a client that accepts it."""
    app = everything(room)
    page = await ask(app, "/metrics")
    assert page.headers["content-type"] == TEXT
    assert b"sluice_connections" in page.body
    assert b"# EOF" not in page.body
    opened = await ask(
        app, "/metrics", accept="application/openmetrics-text; version=1.0.0,*/*;q=0.1"
    )
    assert opened.headers["content-type"] == OPENMETRICS
    assert opened.body.endswith(b"# EOF\n")


async def test_scrapers_of_the_same_second_share_one_page(room, monkeypatch, autojump_clock):
    """The page is kept for a second."""
    made = []

    async def page(*, openmetrics: bool) -> bytes:
        made.append(openmetrics)
        await trio.sleep(0.1)
        return b"x"

    monkeypatch.setattr(room.service, "metrics_page", page)
    app = everything(room)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask, app, "/metrics")
    assert made == [False]
    await trio.sleep(PAGE_KEPT_S)
    await ask(app, "/metrics")
    assert made == [False, False]


async def test_the_version_names_the_configuration(room):
    """The answer has the configuration's hash, which reveals none of its values."""
    said = (await ask(everything(room), "/version")).said
    assert said["config_hash"] == room.reloader.config_hash
    assert said["version"]


async def test_the_page_is_served(room):
    """It is HTML; the browser validates its copy at each load."""
    answer = await ask(everything(room), "/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


async def test_every_file_of_the_dashboard_is_served(room):
    """Each has its own content type."""
    for file in (files("proxy.admin") / "static").iterdir():
        answer = await ask(everything(room), f"/static/{file.name}")
        assert answer.body == file.read_bytes()
        assert answer.headers["content-type"].split("/")[0] in {"text", "image"}


async def test_no_path_leads_out_of_the_dashboard(room):
    """Names are looked up in a table, not in the file system."""
    for path in (
        "/static/",
        "/static/none.js",
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static//etc/passwd",
        "/static/app.js/",
        "/static/APP.JS",
        "/static/a\x00b",
        "/index.html",
    ):
        assert (await ask(everything(room), path)).status == 404, path
