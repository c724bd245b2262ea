"""Server-sent events: the state once a second, while a client is connected.

All clients get the same bytes. A slow client misses some events; one that does not read is disconnected
(`send_timeout`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from starlette.responses import Response

from proxy.admin.errors import AdminError
from proxy.admin.json_http import error

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from proxy.admin.live_state import LiveState

EVERY_S = 1.0
MAX_STREAMS = 16


class EventStreams:
    """The clients of /v1/events, at most MAX_STREAMS. One for the whole server."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self.count = 0

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one client until it disconnects."""
        if self.count >= MAX_STREAMS:
            await error(503, f"no more than {MAX_STREAMS} clients may stream at once")(
                scope, receive, send
            )
            return
        self.count += 1
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_gone, receive, nursery.cancel_scope)
                await self._send(send)
        finally:
            self.count -= 1

    async def _send(self, send: Send) -> None:
        kind = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": kind})
        while True:
            due = trio.current_time() + EVERY_S
            body = b"event: state\ndata: " + await self._live.event() + b"\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})
            await trio.sleep_until(due)


async def _until_gone(receive: Receive, scope: trio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class EventEndpoint:
    """The ASGI application of /v1/events."""

    def __init__(self, streams: EventStreams) -> None:
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a client, or the head of a reply. Raises AdminError (400) if there is a query."""
        if scope["query_string"]:
            raise AdminError(400, "unknown parameter: this path takes none")
        if scope["method"] == "HEAD":
            await Response(media_type="text/event-stream")(scope, receive, send)
            return
        await self._streams.serve(scope, receive, send)
