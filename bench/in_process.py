"""One session in this process, without sockets or kernel: a Produce v9 of 100 bytes and its reply.

Requests and replies come in batches, as the event loop delivers them. The caller advances the session's clock, so a
throttle of a second takes no time.
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.engine import Engine

BATCH: Final = 16
_RECORDS: Final = bytes(100)
_TOPIC: Final = b"\x02\x06topic\x02"
_HEAD: Final = pack(">hhi", 0, 9, 1) + pack(">h", 6) + b"client" + b"\x00"
_BODY: Final = (
    b"\x00"  # no transactional id
    + pack(">hi", -1, 30_000)  # acks=all
    + _TOPIC
    + pack(">i", 0)
    + bytes([len(_RECORDS) + 1])
    + _RECORDS
    + b"\x00\x00\x00"
)
_REPLY: Final = (
    _TOPIC + pack(">ihqqq", 0, 0, 17, -1, 0) + b"\x01\x00\x00\x00" + pack(">i", 0) + b"\x00"
)
PRODUCE: Final = pack(">i", len(_HEAD) + len(_BODY)) + _HEAD + _BODY
PRODUCE_REPLY: Final = pack(">iix", 5 + len(_REPLY), 1) + _REPLY


class SessionLoop:
    """A session that is fed batches of the same request and reply. `throttles`: every request must be throttled."""

    def __init__(
        self, name: str, engine: Engine, batch: int = BATCH, *, throttles: bool = False
    ) -> None:
        session = engine.connect("127.0.0.1", 40000, None)
        if session is None:
            raise RuntimeError(f"{name}: the connection was refused")
        self.name = name
        self.engine = engine
        self.session = session
        self.batch = batch
        self.throttles = throttles
        self.now_ms = 1000
        self._requests = bytearray(PRODUCE * batch)
        self._replies = bytearray(PRODUCE_REPLY * batch)

    def run(self, batches: int, clock_ns: Callable[[], int], per_ms: int = 1) -> int:
        """Feed so many batches, `per_ms` in each millisecond of the session's clock; return the nanoseconds taken.

        Raises:
            RuntimeError: the session did something else than forward (or throttle) every request.
        """
        session, engine = self.session, self.engine
        requests, replies = self._requests, self._replies
        size, answer, now_ms = len(requests), len(replies), self.now_ms
        muted = 0
        began = clock_ns()
        for turn in range(batches):
            now_ms += turn % per_ms == 0
            engine.advance(now_ms)
            sent = session.from_client(requests, 0, size, now_ms)
            muted |= session.client.muted
            left = session.from_broker(replies, 0, answer, now_ms)
            if sent != size or left != answer:
                break  # some bytes were kept
            while engine.ready:
                engine.ready.popleft().ready = False
        taken_ns = clock_ns() - began
        self.now_ms = now_ms
        if session.ended or session.queue or bool(muted) != self.throttles:
            raise RuntimeError(f"{self.name}: the session did not do what this case measures")
        return taken_ns
