"""The dashboard serves its own files and no others."""

from importlib.resources import files

import pytest

from tests.support.processes.admin_room import everything, roomy
from tests.support.processes.asgi import ask


@pytest.fixture
def app():
    with roomy() as room:
        yield everything(room)


async def test_the_page_is_served(app):
    """It is HTML; the browser validates its copy at each load."""
    answer = await ask(app, "/")
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"


async def test_every_file_of_the_dashboard_is_served(app):
    """Each has its own content type."""
    for file in (files("proxy.admin") / "static").iterdir():
        answer = await ask(app, f"/static/{file.name}")
        assert answer.body == file.read_bytes()
        assert answer.headers["content-type"].split("/")[0] in {"text", "image"}


async def test_no_path_leads_out_of_the_dashboard(app):
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
        assert (await ask(app, path)).status == 404, path
