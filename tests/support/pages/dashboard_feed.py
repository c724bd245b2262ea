"""The dashboard's files and made-up states on 127.0.0.1, under the paths of the admin server.

It is for states that would need thousands of clients, or that a real proxy cannot be brought into: `change` may alter
a state before it is sent. It runs in a thread of its own.
"""

import json
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from importlib.resources import files
from typing import Self

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Send

from bench.harness.ports import free_ports
from tests.support.pages.made_up_states import State, made_up

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
HEADERS = {"Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'none'"}


class EventStream(StreamingResponse):
    """A stream whose generator ends with it, also when the viewer leaves while a state is being sent."""

    def __init__(self, events: AsyncGenerator[str]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events

    async def stream_response(self, send: Send) -> None:
        """Send the events until either side ends."""
        async with aclosing(self._events):
            await super().stream_response(send)


class DashboardFeed:
    """`with DashboardFeed(5000) as feed: ... feed.address`."""

    def __init__(
        self, connections: int, *, token: str = "", trace_url: str = "", port: int | None = None
    ) -> None:
        self.connections = connections
        self.token = token
        self.trace_url = trace_url
        self.every_s = 1.0
        self.change: Callable[[State], None] = lambda _: None
        self.stands_still = False
        """Whether every state is like the one before."""
        self.viewers = 0
        """The number of open streams."""
        self.port = port or free_ports()
        self.address = f"http://127.0.0.1:{self.port}/"
        self._second = 0
        self._ended = trio.Event()
        self._up = threading.Event()
        self._trio: trio.lowlevel.TrioToken | None = None
        self._thread = threading.Thread(target=trio.run, args=(self._run,), daemon=True)

    def state(self) -> State:
        """Return the next state to be sent."""
        self._second += not self.stands_still
        state = made_up(self.connections, self._second, trace_url=self.trace_url)
        self.change(state)
        return state

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._up.wait(120), "the feed does not listen"
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the server, as if the proxy had ended."""
        if self._trio is not None and self._thread.is_alive():
            self._trio.run_sync_soon(self._ended.set)
        self._thread.join(10)

    async def _run(self) -> None:
        self._trio = trio.lowlevel.current_trio_token()
        config = Config()
        config.bind = [f"127.0.0.1:{self.port}"]
        config.errorlog = config.accesslog = None
        config.graceful_timeout = 0.1
        app = Starlette(
            routes=[
                Route("/", self._file),
                Route("/static/{name}", self._file),
                Route("/v1/state", self._state),
                Route("/v1/events", self._events),
            ]
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(partial(serve, app, config, shutdown_trigger=self._ended.wait))
            self._up.set()

    async def _file(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        path = files("proxy.admin") / "static" / name
        if not path.is_file():
            return Response(status_code=404)
        return Response(
            path.read_bytes(), headers=HEADERS, media_type=TYPES[name[name.rindex(".") :]]
        )

    def _refused(self, request: Request) -> bool:
        return bool(self.token) and request.headers.get("authorization") != f"Bearer {self.token}"

    async def _state(self, request: Request) -> Response:
        if self._refused(request):
            return JSONResponse({"error": "a token is required"}, 401)
        state = self.state()
        del state["point"]
        return JSONResponse(state)

    async def _events(self, request: Request) -> Response:
        if self._refused(request):
            return JSONResponse({"error": "a token is required"}, 401)
        return EventStream(self._stream())

    async def _stream(self) -> AsyncGenerator[str]:
        self.viewers += 1
        try:
            while True:
                state = self.state()
                del state["history"]
                yield f"event: state\ndata: {json.dumps(state)}\n\n"
                await trio.sleep(self.every_s)
        finally:
            self.viewers -= 1
