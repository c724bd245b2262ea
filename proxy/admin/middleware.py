"""Checks of every request before the handlers: host, origin, token, content type, size, rate.

Rules:
- OPEN paths need no token. All others need it if the listener has one; loopback proves nothing in a pod.
- The Host header must be a known name, which stops DNS rebinding. A cross-site request of a browser is refused; there
  are no CORS headers.
- A change must have the content type of JSON, which a form of another site cannot send. Its size, time and rate are
  limited, and it leaves one log line, refused or not.
- All checks come before the first byte of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from proxy.admin.json_http import error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from proxy.admin.change_log import ChangeLog
    from proxy.admin.token import Token

GONE = 499
"""The logged status of a change whose caller disconnected before it was done, as in nginx."""
MAX_BODY_BYTES = 64 << 10
TIMEOUT_S = 5.0
SLOW_S = 60.0
CHANGES_PER_SECOND = 10
CHANGES_AT_ONCE = 20
CHANGES = frozenset({"POST", "PUT", "DELETE", "PATCH"})
LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
OPEN = frozenset({"/", "/startup", "/live", "/ready", "/metrics", "/version"})
"""Paths that need no token, besides those below /static/."""
SLOW = frozenset({"/v1/reload", "/metrics"})
ENDLESS = frozenset({"/v1/events"})
HEADERS = [
    (
        b"content-security-policy",
        b"default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]


class AdminMiddleware:
    """An ASGI application around another. Without `hosts` every Host header is accepted."""

    def __init__(
        self,
        app: ASGIApp,
        change_log: ChangeLog,
        *,
        token: Token | None = None,
        hosts: frozenset[str] | None = None,
    ) -> None:
        self._app = app
        self._change_log = change_log
        self._token = token
        self._hosts = hosts
        self._changes = float(CHANGES_AT_ONCE)
        self._changes_at = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        answer = _RequestResponse(scope, send)
        refusal = self._refusal(scope, headers)
        if refusal is None:
            await self._pass(scope, headers, receive, answer)
        else:
            await answer.say(*refusal)
        if scope["method"] in CHANGES:
            self._change_log.change(scope, answer.status or GONE)

    def _refusal(self, scope: Scope, headers: Mapping[bytes, str]) -> tuple[int, str] | None:
        """Return the status and message of a refusal; None if the request is allowed."""
        path = scope["path"]
        is_change = scope["method"] in CHANGES
        host = headers.get(b"host", "")
        if self._hosts is not None and not {host.lower(), host_name(host)} & self._hosts:
            return 403, "this server does not go by that name (see admin.allowed_hosts)"
        is_open = not is_change and (path in OPEN or path.startswith("/static/"))
        if not is_open:
            if not _is_same_origin(headers, host):
                return 403, "cross-site requests are refused"
            if self._token is not None and not self._token.fits(headers.get(b"authorization", "")):
                return 401, "a token is required: Authorization: Bearer TOKEN"
        if not is_change:
            return None
        kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return 415, "content-type must be application/json"
        if not self._may_change():
            return 429, f"no more than {CHANGES_PER_SECOND} changes a second"
        return None

    def _may_change(self) -> bool:
        now = trio.current_time()
        filled = self._changes + (now - self._changes_at) * CHANGES_PER_SECOND
        self._changes, self._changes_at = min(filled, float(CHANGES_AT_ONCE)), now
        if self._changes < 1:
            return False
        self._changes -= 1
        return True

    async def _pass(
        self, scope: Scope, headers: Mapping[bytes, str], receive: Receive, answer: _RequestResponse
    ) -> None:
        path = scope["path"]
        with trio.move_on_after(SLOW_S if path in SLOW else TIMEOUT_S) as limit:
            try:
                body = await _body(headers, receive)
            except _GoneError:
                return
            if body is None:
                await answer.say(413, f"no more than {MAX_BODY_BYTES} bytes")
                return
            if path in ENDLESS:
                limit.deadline = float("inf")
            await self._app(scope, _Replay(body, receive), answer)
        if limit.cancelled_caught and not answer.status:
            await answer.say(
                408 if scope["method"] in CHANGES else 503, "the request took too long"
            )


class _RequestResponse:
    """Sends an answer with the headers that all answers have, and keeps its status."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            there = {name for name, _ in message["headers"]}
            added = [each for each in HEADERS if each[0] not in there]
            if b"cache-control" not in there:
                added.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*message["headers"], *added]}
        await self._send(message)

    async def say(self, status: int, words: str) -> None:
        """Send an Error."""
        response = error(status, words)
        if status == 401:
            response.headers["www-authenticate"] = "Bearer"
        await response(self._scope, _nothing, self)


class _GoneError(Exception):
    """The client disconnected or broke the protocol before its request ended: nothing is executed."""


class _Replay:
    """Receives the body that was read already, then later messages."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        return await self._receive()


async def _body(headers: Mapping[bytes, str], receive: Receive) -> bytes | None:
    """Return the whole body; None if it is too long. Raises _GoneError if the client disconnects."""
    length = headers.get(b"content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        return None
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _GoneError
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            return None
        if not message.get("more_body", False):
            return bytes(body)


def _is_same_origin(headers: Mapping[bytes, str], host: str) -> bool:
    """Return whether a browser's headers name this host; other clients send none."""
    origin = headers.get(b"origin")
    if origin is not None and origin.lower() not in {
        f"http://{host}".lower(),
        f"https://{host}".lower(),
    }:
        return False
    return headers.get(b"sec-fetch-site", "none") in {"none", "same-origin"}


def host_name(host: str) -> str:
    """Return a Host header without its port, in lower case."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdecimal() and not name.endswith(":") else host.lower()


async def _nothing() -> Message:
    return {"type": "http.disconnect"}
