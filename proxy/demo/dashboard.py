"""Sluice's own view of the run, asked for over its admin server: where to look, and what it saw at the end.

Rules:
- It is for looking at, never for the verdict: that comes from the clients' books alone.
- Only what the page of the run shows is read of the state; the rest may change as it likes.
- The token is made for one run, and stands in the address behind `#`: a browser sends that to nobody.
"""

from __future__ import annotations

import http.client
import secrets
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE_S = 5.0


class Delays(msgspec.Struct, frozen=True):
    """Milliseconds; None: nobody was delayed."""

    p50: float | None = None
    p99: float | None = None


class Principal(msgspec.Struct, frozen=True):
    """One user and client id, over the whole run."""

    user: str
    client_id: str
    throttled: int
    throttle_total_ms: int
    throttle_ms: Delays


class Decision(msgspec.Struct, frozen=True):
    """What happened to one request."""

    ts_ms: int
    client_id: str
    api: str
    what: str
    ms: int
    detail: str


class Point(msgspec.Struct, frozen=True):
    """One second."""

    ts_ms: int
    requests_per_s: float
    throttled_per_s: float
    connections: int


class Seen(msgspec.Struct, frozen=True):
    """What Sluice told at the end."""

    principals: list[Principal]
    decisions: list[Decision]
    """The newest first."""
    history: list[Point]


_decoder = msgspec.json.Decoder(Seen)


class Dashboard:
    """The control address of one Sluice, and its token."""

    def __init__(self, host: str, port: int, folder: Path) -> None:
        self._host, self._port = host, port
        self._token = secrets.token_urlsafe(24)
        self.token_file = folder / "token"
        self.token_file.touch(mode=0o600)
        self.token_file.write_text(self._token, "ascii")

    @property
    def listens_at(self) -> str:
        """HOST:PORT, as the setting `admin.control` wants it."""
        return f"{self._host}:{self._port}"

    @property
    def address(self) -> str:
        """For a browser."""
        return f"http://{self.listens_at}/#token={self._token}"

    def maybe_seen(self) -> Seen | None:
        """Ask for the state; None when there is no answer that can be read. Blocks."""
        connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE_S)
        try:
            bearer = {"Authorization": f"Bearer {self._token}"}
            connection.request("GET", "/v1/state", headers=bearer)
            answer = connection.getresponse()
            return _decoder.decode(answer.read()) if answer.status == 200 else None
        except (OSError, http.client.HTTPException, msgspec.MsgspecError):
            return None
        finally:
            connection.close()
