"""Plays a case again and again: the frames go through a session, or through an event loop and sockets.

A play does the same each time: it has a clock of its own, and its sockets are pairs in this process, not TCP, so bytes
arrive when they are sent.
"""

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Final, Protocol, cast

from bench.replay.cases import Case
from bench.replay.connection_play import ConnectionPlay
from proxy.core.errors import CloseReason
from proxy.core.session.channel import Channel
from proxy.core.turns import TURN_LABOUR_BYTES
from proxy.shell.clock import Clock
from proxy.shell.event_loop import EventLoop
from proxy.shell.transport import PlainTransport
from tests.support.shell.sockets import HandClock

WARM_PLAYS: Final = 30
"""Plays before those that are counted: they make plans and fill pools."""
MAX_JOINED_BYTES: Final = 288 << 10
"""The event loop offers the kernel so many bytes at once."""
SLOW_BYTES: Final = 30_000
"""What a slow broker's socket takes, and what it reads at once."""


Taker = Callable[[bytearray, int, int, int], int]
"""Takes the bytes of a buffer between two places at a time, and returns up to where they may be passed on."""


class Play(Protocol):
    """A case that can be played."""

    def once(self) -> int:
        """Play it once; return the number of bytes that were passed on."""

    def close(self) -> None:
        """Close what it has opened."""


class SessionPlay:
    """A case through a session; `idle`: through nothing, which is what the play itself costs."""

    def __init__(self, case: Case, *, idle: bool = False) -> None:
        self._engine = case.engine()
        session = self._engine.connect("127.0.0.1", 40_000, None)
        assert session is not None
        self._session = session
        self._from_client = _pass_all if idle else session.from_client
        self._from_broker = _pass_all if idle else session.from_broker
        self._requests = _pieces(case.frames.request * case.batch, case.reads)
        self._replies = _pieces(case.frames.reply * case.batch, case.reply_reads)
        self._is_rewritten = case.is_rewritten
        self._now_ms = 1000

    def once(self) -> int:
        """See Play."""
        passed = 0
        self._now_ms += 1
        self._engine.advance(self._now_ms)
        for piece in self._requests:
            passed += self._read_client(piece)
            while self._engine.turns.queue:
                passed += self._serve()
        for reply in self._replies:
            # A session rewrites it in place.
            piece = bytearray(reply) if self._is_rewritten else reply
            client, broker = self._session.client, self._session.broker
            passed += self._read(piece, self._from_broker, broker, client)
        return passed

    def close(self) -> None:
        """See Play."""

    def _read_client(self, piece: bytearray) -> int:
        session = self._session
        return self._read(piece, self._from_client, session.client, session.broker)

    def _serve(self) -> int:
        """Give the session a turn, as the event loop does; return how many bytes it has passed on."""
        session, turns = self._session, self._engine.turns
        turns.take()
        turns.labour_bytes = TURN_LABOUR_BYTES
        passed = 0
        if session.paced:
            session.resume()
            passed = self._read_client(bytearray())
        session.on_turn_over()
        turns.end(session, 0)
        return passed

    def _read(self, piece: bytearray, take: Taker, of: Channel, to: Channel) -> int:
        """Let the session take a piece; return how many bytes it has passed on, which count as sent."""
        if of.carry:
            piece = bytearray(of.take()) + piece
        stop = take(piece, 0, len(piece), self._now_ms)
        if stop >= 0:
            return stop
        passed = 0
        self._session.uses_outboxes = False
        while to.outbox:
            front = to.front(MAX_JOINED_BYTES)
            to.sent(len(front))
            passed += len(front)
        return passed


class LoopPlay:
    """A case through the event loop, between a client and a broker that the play plays.

    `step` is the event loop's, and may be replaced by one that counts.
    """

    def __init__(self, case: Case) -> None:
        engine = case.engine()
        self._clock = HandClock()
        self._loop = EventLoop(engine, cast("Clock", self._clock))
        self.step: Callable[[float], int] = self._loop.step
        self._client, near = _pair()
        self._broker, far = _pair()
        self._frames = case.frames
        self._room = memoryview(bytearray(1 << 20))
        self._broker_room = self._room
        if case.through == "slow":
            far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SLOW_BYTES)
            self._broker_room = self._room[:SLOW_BYTES]
        session = engine.connect("127.0.0.1", 40_000, None)
        assert session is not None
        self._loop.attach(session, PlainTransport(near), PlainTransport(far))
        for each in (self._client, self._broker):
            each.setblocking(False)

    def once(self) -> int:
        """See Play."""
        self._clock.now_ms += 1
        request, reply = self._frames
        self._client.sendall(request)
        passed = self._step_until(len(request), self._broker, self._broker_room)
        self._broker.sendall(reply)
        return passed + self._step_until(len(reply), self._client, self._room)

    def close(self) -> None:
        """See Play."""
        self._loop.close_all(CloseReason.INTERNAL)
        self._loop.close()
        self._client.close()
        self._broker.close()

    def slow_kinds(self) -> tuple[int, int, int]:
        """Return what was off the fast path since the start: slow events, refused sends, changes of the poll set."""
        found = self._loop.endpoints
        return found.slow_events, found.refused_sends, found.interest_changes

    def _step_until(self, count: int, receiver: socket.socket, room: memoryview) -> int:
        """Step until so many bytes have arrived; return their number."""
        got = 0
        while got < count:
            self.step(0)
            try:
                while got < count:
                    got += receiver.recv_into(room)
            except BlockingIOError:
                pass
        return got


class _PairSocket(socket.socket):
    """One of a pair of Unix sockets, on which TCP's options are not set."""

    def setsockopt(self, level: int, *option: int) -> None:  # type: ignore[override]
        """Set an option of sockets of any kind."""
        if level != socket.IPPROTO_TCP:
            super().setsockopt(level, *option)


def _pair() -> tuple[socket.socket, socket.socket]:
    """Return the far end and the near end of a pair."""
    far, near = socket.socketpair()
    return far, _PairSocket(fileno=near.detach())


_PLAYS: Final[Mapping[str, Callable[[Case], Play]]] = {
    "session": SessionPlay,
    "port": ConnectionPlay,
}


@contextmanager
def warm_play(case: Case) -> Iterator[Play]:
    """Yield a play of the case that is warm.

    Raises:
        RuntimeError: not all bytes were passed on.
    """
    play = _PLAYS.get(case.through, LoopPlay)(case)
    size = sum(map(len, case.frames)) * case.batch
    with closing(play):
        for _ in range(WARM_PLAYS):
            passed = play.once()
            if passed != size and not (case.is_rewritten and passed > len(case.frames.request)):
                raise RuntimeError(f"{case.name}: {passed:,} of {size:,} bytes were passed on")
        yield play


def _pieces(data: bytes, count: int) -> list[bytearray]:
    size = -(-len(data) // count)
    return [bytearray(data[at : at + size]) for at in range(0, len(data), size)]


def _pass_all(_buf: bytearray, _start: int, end: int, _now_ms: int) -> int:
    return end
