"""An ASGI application called by hand: one request in, the answer out, without a server."""

import json
from dataclasses import dataclass
from typing import Any

import trio
from starlette.types import ASGIApp, Message


@dataclass
class Answer:
    """The answer of an application."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: ASGIApp,
    path: str = "/v1/pool",
    method: str = "GET",
    body: bytes | list[bytes] = b"",
    **headers: str,
) -> Answer:
    """Send one request; `_` in a header's name stands for `-`. A body may come in pieces."""
    pieces = [body] if isinstance(body, bytes) else body
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path.partition("?")[0],
        "raw_path": path.partition("?")[0].encode(),
        "query_string": path.partition("?")[2].encode(),
        "root_path": "",
        "headers": [
            (name.replace("_", "-").encode(), value.encode("latin-1"))
            for name, value in {"host": "localhost", **headers}.items()
        ],
        "client": ("10.0.0.9", 40000),
        "state": {},
    }
    waiting: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": place < len(pieces) - 1}
        for place, piece in enumerate(pieces)
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        if waiting:
            return waiting.pop(0)
        return await trio.sleep_forever()  # the client stays and sends no more

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start = sent[0]
    return Answer(
        start["status"],
        {name.decode(): value.decode() for name, value in start["headers"]},
        b"".join(each.get("body", b"") for each in sent[1:]),
    )
