"""Dashboard: the address for a browser, and what is made of each answer of the admin server."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from bench.harness.ports import free_ports
from proxy.demo.dashboard import Dashboard, Delays
from tests.support.made_up_states import made_up

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Admin(HTTPServer):
    """An admin server that answers `said` to whoever has the token."""

    said: tuple[int, bytes] = (200, b"{}")
    token = ""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nobody asks."""


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Admin

    def do_GET(self) -> None:
        """Answer /v1/state."""
        good = self.headers["Authorization"] == f"Bearer {self.server.token}"
        status, body = self.server.said if good and self.path == "/v1/state" else (401, b"{}")
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def admin() -> Iterator[Admin]:
    """A server in a thread."""
    with Admin(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def dashboard(admin: Admin, folder: Path) -> Dashboard:
    """Return one that looks at this server, whose token it makes."""
    made = Dashboard("127.0.0.1", admin.server_port, folder)
    admin.token = made.token_file.read_text("ascii")
    return made


def test_a_state_is_read_as_far_as_it_is_shown(admin: Admin, tmp_path: Path) -> None:
    """The answer of an admin server, with all that the page does not show, is understood."""
    state = made_up(40)
    admin.said = 200, json.dumps(state).encode()

    seen = dashboard(admin, tmp_path).maybe_seen()

    assert seen is not None
    assert [p.client_id for p in seen.principals] == [p["client_id"] for p in state["principals"]]
    assert Delays(84.0, 912.0) in {p.throttle_ms for p in seen.principals}
    assert len(seen.history) == 900
    assert seen.decisions[0].ts_ms == state["decisions"][0]["ts_ms"]


@pytest.mark.parametrize("said", [(200, b"{}"), (200, b"not JSON"), (503, b"{}"), (401, b"")])
def test_any_other_answer_is_none(admin: Admin, said: tuple[int, bytes], tmp_path: Path) -> None:
    """What cannot be read is left out of the page; it is no failure of the run."""
    admin.said = said

    assert dashboard(admin, tmp_path).maybe_seen() is None


def test_nobody_there_is_none(tmp_path: Path) -> None:
    """A Sluice without an admin server tells nothing."""
    assert Dashboard("127.0.0.1", free_ports(), tmp_path).maybe_seen() is None


def test_the_token_is_the_runs_own_and_nobody_elses(tmp_path: Path) -> None:
    """Two runs have two tokens, in files that only we read; the address has it behind the `#`."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, two = (Dashboard("127.0.0.1", 9644, tmp_path / name) for name in ("a", "b"))
    token = one.token_file.read_text("ascii")

    assert one.address == f"http://127.0.0.1:9644/#token={token}"
    assert len(token) >= 16
    assert token != two.token_file.read_text("ascii")
    assert one.token_file.stat().st_mode & 0o077 == 0
