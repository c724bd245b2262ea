"""Clients of small requests that use all of a quota, each in one of the ways by which a quota may be evaded.

`Load` has any number of rows; `run` runs any number of loads at once, in one thread. The request is a Heartbeat of a
group that does not exist, which a broker answers at once, or the row's own. A caller ignores throttle_time_ms, sends
the next request as soon as it is answered, and logs in by SASL PLAIN at each connection.
"""

import heapq
import itertools
import selectors
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.quotas.quota_rows import Row, Tally

_CHUNK: Final = 65_536
_HEARTBEAT: Final = f.string("no group") + struct.pack(">i", 1) + f.string("none") + f.string(None)


class Load:
    """Runs `rows` against the ports of `address`; `ports` are those of the nodes, one for each that a row may use."""

    def __init__(
        self, address: str, ports: list[int], rows: Iterable[Row], passwords: Mapping[str, str]
    ) -> None:
        self.tallies: dict[str, Tally] = {}
        self._callers: list[_Caller] = []
        for row in rows:
            tally = self.tallies[row.user] = Tally()
            sign_on = _SignOn(row.user, passwords[row.user])
            for place in range(row.connections):
                target = (address, ports[place % row.nodes])
                self._callers.append(_Caller(row, place, target, sign_on, tally))


def run(loads: Iterable[Load], seconds: float) -> float:
    """Run every load at once, for so long; return its start by `time.monotonic`."""
    callers = [caller for load in loads for caller in load._callers]
    began = time.monotonic()
    ends = began + seconds
    serial = itertools.count()
    # When a caller may ask next, where its row is not asked for all it can do.
    due = [(caller.next_at(began), next(serial), caller) for caller in callers]
    heapq.heapify(due)

    def rest(caller: _Caller) -> None:
        if caller.resting:
            caller.resting = False
            heapq.heappush(due, (caller.next_at(time.monotonic()), next(serial), caller))

    with selectors.DefaultSelector() as selector:
        while (now := time.monotonic()) < ends:
            while due and due[0][0] <= now:
                caller = heapq.heappop(due)[2]
                caller.begin(selector)
                rest(caller)
            wait = min(ends, due[0][0] if due else ends) - now
            for key, _ in selector.select(max(0.0, wait)):
                key.data.receive(selector)
                rest(key.data)
        for caller in callers:
            caller.close(selector)
    return began


class _SignOn:
    """The two frames of SASL PLAIN."""

    def __init__(self, user: str, password: str) -> None:
        self.frames = [
            sasl.handshake(1, "PLAIN"),
            sasl.authenticate(2, sasl.plain(user, password)),
        ]


class _Caller:
    """One connection after another, of one row."""

    __slots__ = (
        "_buffer",
        "_client_id",
        "_correlation_id",
        "_interval_s",
        "_last_start",
        "_row",
        "_sent",
        "_serial",
        "_sign_on",
        "_signing",
        "_socket",
        "_tally",
        "_target",
        "resting",
    )

    def __init__(
        self, row: Row, place: int, target: tuple[str, int], sign_on: _SignOn, tally: Tally
    ) -> None:
        self._row, self._target, self._sign_on, self._tally = row, target, sign_on, tally
        self._socket: socket.socket | None = None
        self._buffer = bytearray()
        self._client_id = f"load-{row.user}"
        self._serial = place << 32  # of the disguises
        self._signing = 0
        self._correlation_id = 0
        self._sent: list[float] = []  # of the unanswered requests, oldest first
        self._interval_s = row.connections / row.offered_per_s if row.offered_per_s else 0.0
        self._last_start: float | None = None
        self.resting = False

    def next_at(self, now: float) -> float:
        """Return the time of its next request."""
        if self._last_start is None:
            return now
        return max(now, self._last_start + self._interval_s)

    def begin(self, selector: selectors.BaseSelector) -> None:
        """Connect, or send on the open connection."""
        self._last_start = time.monotonic()
        if self._socket is not None:
            self._ask()
            return
        self._buffer.clear()
        self._sent.clear()
        self._signing, self._correlation_id = 0, 2
        try:
            self._socket = socket.create_connection(self._target, 60)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.settimeout(0)
            self._socket.sendall(self._sign_on.frames[0])
        except OSError as error:
            self._fail(f"cannot connect: {error!r}", selector)
            return
        selector.register(self._socket, selectors.EVENT_READ, self)

    def receive(self, selector: selectors.BaseSelector) -> None:
        """Read what has arrived."""
        if self._socket is None:
            return
        try:
            data = self._socket.recv(_CHUNK)
        except OSError as error:
            self._fail(f"after {self._correlation_id}: {error!r}", selector)
            return
        if not data:
            self._fail(f"closed after {self._correlation_id}", selector)
            return
        self._buffer += data
        while len(self._buffer) >= 4:
            size = 4 + struct.unpack_from(">i", self._buffer)[0]
            if len(self._buffer) < size:
                break
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._answered(frame, selector)
            if self._socket is None:
                break

    def close(self, selector: selectors.BaseSelector) -> None:
        """Close, as an ordinary client does."""
        if self._socket is not None:
            with suppress(KeyError, ValueError):
                selector.unregister(self._socket)
            self._socket.close()
            self._socket = None

    def _answered(self, frame: bytes, selector: selectors.BaseSelector) -> None:
        assert self._socket is not None
        correlation_id = struct.unpack_from(">i", frame, 4)[0]
        if self._signing < 2:
            self._signing += 1
            (error_code,) = struct.unpack_from(">h", frame, 8)
            if error_code or correlation_id != self._signing:
                self._fail(f"sign-on: {correlation_id}, error {error_code}", selector)
            elif self._signing == 1:
                self._socket.sendall(self._sign_on.frames[1])
            else:
                self._tally.signed_on += 1
                for _ in range(1 if self._row.reconnect else self._row.depth):
                    self._ask()
            return
        now = time.monotonic()
        expected = self._correlation_id - len(self._sent) + 1
        if not self._sent or correlation_id != expected:
            self._fail(f"answer {correlation_id}, not {expected}", selector)
            return
        self._tally.asked.append(self._sent.pop(0))
        self._tally.answered.append(now)
        # Heartbeat v3 tells it first, Produce v7 last.
        at = 8 if self._row.produce is None else len(frame) - 4
        self._tally.throttle_ms.append(struct.unpack_from(">i", frame, at)[0])
        if self._row.reconnect:
            self.close(selector)
        if self._row.reconnect or self._interval_s:
            self.resting = True
        else:
            self._ask()

    def _ask(self) -> None:
        assert self._socket is not None
        self._correlation_id += 1
        client_id = self._client_id
        if self._row.disguise:
            self._serial += 1
            client_id = f"{self._serial * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF:016x}"
        if self._row.produce is not None:
            key, version, body = f.PRODUCE, 7, self._row.produce
        else:
            key, version, body = f.HEARTBEAT, 3, _HEARTBEAT
        self._sent.append(time.monotonic())
        with suppress(OSError):  # a connection that is gone shows when something is received
            self._socket.sendall(
                f.request(key, version, self._correlation_id, body, client_id=client_id)
            )

    def _fail(self, problem: str, selector: selectors.BaseSelector) -> None:
        self._tally.problems.append(problem)
        self.close(selector)
        self._last_start = time.monotonic() + 0.2  # then try again, not in a hot loop
        self.resting = True
