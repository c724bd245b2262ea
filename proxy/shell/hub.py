"""One level-triggered poll set, stepped from outside: bytes move here, and nothing is decided.

Rules:
- Registered once per socket; the mask changes only when a channel is muted or has something unsent.
- One receive per event into one shared scratch buffer; what the session lets through is sent from there.
  Only what the kernel does not take is copied, and that copy is the channel's.
- A step handles at most 64 events or about a MiB, so that nobody waits long for anybody.
- While a pool is pressed reads take what the core grants, and nobody is always the last to be served.
- A side ends gracefully: what is due is sent, then FIN, then the other side's bytes are read and thrown
  away until it closes too or its time is up. Closing with unread bytes would send a reset and cut off
  the last replies.
- An error or hang-up on a side that is not read from closes it at once: a level-triggered set would spin.
- Operating-system errors of connections are caught here and in the dialer only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.channel import Mute
from proxy.core.errors import CloseReason
from proxy.core.histogram import bucket_of
from proxy.shell.end import End
from proxy.shell.order import in_fair_order
from proxy.shell.poller import ERR, HUP, IN, OUT, RDHUP, make_poller
from proxy.shell.unread import unread_bytes

if TYPE_CHECKING:
    from trio import CancelScope

    from proxy.core.engine import Engine
    from proxy.core.session import Session
    from proxy.shell.clock import Clock
    from proxy.shell.transport import Transport

READ_BYTES = 256 << 10
HEADROOM_BYTES = 384 << 10
"""Where carried bytes are laid, in front of the next read: a head, or what waited for its turn."""
STEP_EVENTS = 64
STEP_BYTES = 1 << 20
LINGER_MS = 2_000
"""How long an ended side may take to say its last byte."""
FLUSH_MS = 30_000
"""How long an ended side may take to accept what is still due to it."""
_QUIET = Mute.THROTTLED | Mute.OUT_OF_MEMORY
"""Who is not read for so long that it may be gone."""
_LINGERING = -1
"""`expect` of an end whose bytes are thrown away: every event of it is unusual."""


class Hub:
    """All connections of a process. `step` is the whole interface to its driver."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._now_us = clock.now_us
        self._steps = 0
        self._left_bytes = 0  # of a step's budget, while reads are careful
        self._poller = make_poller()
        self._ends: dict[int, End] = {}
        self.arriving = 0  # clients that are being connected, counted by who does it
        self.asleep: CancelScope | None = None  # the driver, when it waits (`driver.nudge`)
        self._paced: list[End] = []
        self._closed: list[End] = []
        self._scratch = bytearray(HEADROOM_BYTES + READ_BYTES)
        self._view = memoryview(self._scratch)
        self._area = self._view[HEADROOM_BYTES:]
        engine.room.unread_bytes = unread_bytes

    def fileno(self) -> int:
        """Readable while there is something to do."""
        return self._poller.fileno()

    def attach(self, session: Session, client: Transport, broker: Transport) -> None:
        """Both sides are connected: from now on bytes move."""
        a = End(client, session, session.client, session.from_client)
        b = End(broker, session, session.broker, session.from_broker)
        a.other, b.other = b, a
        a.forward, b.forward = b.send, a.send
        session.handle = a
        for end in (a, b):
            self._ends[end.fd] = end
            self._poller.register(end.fd, IN)
        if session.attention:
            self._settle(a)

    def step(self, timeout_s: float) -> int:
        """Wait at most `timeout_s` for something to happen and handle it; how many things it was."""
        if self._closed:
            self._part()
        events = self._poller.poll(0 if self._paced else timeout_s, STEP_EVENTS)
        engine = self._engine
        now_us = self._now_us()
        now_ms = now_us // 1000
        engine.advance(now_ms, now_us)
        if self._paced:
            self._resume(now_ms)
        if engine.attending:
            self.attend()
        find = self._ends.get
        at = HEADROOM_BYTES
        scratch, area, view = self._scratch, self._area, self._view
        budget = STEP_BYTES
        requests, replies = engine.request_pool, engine.reply_pool
        careful = requests.pressed or replies.pressed
        if careful:
            self._left_bytes = budget
            for fd, event in in_fair_order(events, requests):
                if self._left_bytes >= 0 and (end := find(fd)) is not None:
                    self._unusual(end, event, now_ms)
        for fd, event in () if careful else events:
            end = find(fd)
            if end is None:
                continue  # closed earlier in this very step
            if event != IN or end.expect != IN:
                self._unusual(end, event, now_ms)
                if requests.pressed:
                    break  # what is left over comes again, and is read with care
                continue
            try:
                received = end.recv_into(area)
            except OSError as error:
                self._refused(end, error, now_ms)
                continue
            if not received or end.channel.carry:
                self._received(end, received, now_ms)
                if requests.pressed:
                    break
                continue
            stop = end.take(scratch, at, at + received, now_ms)
            if stop < 0:
                self._settle(end)
                if requests.pressed:
                    break
                continue
            try:
                sent = end.forward(view[at:stop])
            except OSError as error:
                self._refused(end.other, error, now_ms)
                sent = 0
            if at + sent != stop:
                self._keep(end.other, at + sent, stop)
            budget -= received
            if budget < 0:
                break  # level-triggered: what is left over comes again
        self._steps += 1
        if not self._steps & 15:
            engine.meters.step_us[bucket_of(self._now_us() - now_us)] += 1
        if engine.attending:
            self.attend()
        return len(events) + len(self._paced)

    def attend(self) -> None:
        """Look at the sessions to which something happened outside their own reads."""
        engine = self._engine
        while engine.attending:
            end = engine.attending.pop().handle
            if isinstance(end, End):
                self._settle(end)

    def close_all(self, reason: CloseReason) -> None:
        """Close everything now, whatever is in flight."""
        now_ms = self._clock()
        for end in tuple(self._ends.values()):
            if not end.closed:
                end.session.end(reason, "", now_ms)
                self._close(end, now_ms)

    def close(self) -> None:
        """Give the poll set back."""
        self._poller.close()

    @property
    def open_sockets(self) -> int:
        """How many sockets are registered."""
        return len(self._ends)

    # -- one end ---------------------------------------------------------------------------------

    def _resume(self, now_ms: int) -> None:
        """Sessions that had enough for one turn have their next one."""
        ends, self._paced = self._paced, []
        for end in ends:
            if not (end.closed or end.session.ended):
                end.session.resume()
                self._take(end, 0, now_ms)
                self._settle_rest(end)
            self._engine.room.heard(end.session)

    def _received(self, end: End, received: int, now_ms: int) -> None:
        """The general form of what `step` does with a receive: EOF, or bytes to lay in front."""
        if received:
            self._take(end, received, now_ms)
        else:
            self._eof(end, now_ms)

    def _take(self, end: End, received: int, now_ms: int) -> None:
        start = HEADROOM_BYTES
        channel = end.channel
        if channel.carry:
            carry = channel.take()
            start -= len(carry)
            self._scratch[start:HEADROOM_BYTES] = carry
        stop = end.take(self._scratch, start, HEADROOM_BYTES + received, now_ms)
        if stop < 0:
            self._settle(end)
        elif stop > start:
            if not end.other.channel.outbox:
                try:
                    start += end.forward(self._view[start:stop])
                except OSError as error:
                    self._refused(end.other, error, now_ms)
            if start != stop:
                self._keep(end.other, start, stop)

    def _keep(self, end: End, start: int, stop: int) -> None:
        """Give what could not be sent straight away to this end's channel."""
        if not end.closed:
            end.channel.put(bytes(self._view[start:stop]))
            self._settle(end)

    def _refused(self, end: End, error: OSError, now_ms: int) -> None:
        """A receive or send failed: not now, or never again."""
        if not isinstance(error, BlockingIOError):
            self._broken(end, now_ms)

    def _unusual(self, end: End, event: int, now_ms: int) -> None:
        """Not simply readable: writable again, broken, or lingering."""
        if end.lingering:
            self._discard(end, now_ms)
            return
        if event & (ERR | HUP) and not (event & IN and end.expect & IN):
            self._broken(end, now_ms)
            return
        if event & RDHUP and end.expect & RDHUP:
            end.hung_up = True
            if end.session.held is not None:
                end.session.client_hung_up(now_ms)
            elif not end.channel.carry and end.transport.is_finished():
                self._eof(end, now_ms)  # nothing of it is left to be quiet about
                return
            self._settle(end)
        elif event & OUT and end.channel.outbox:
            self._settle(end)
        if event & IN and end.expect & IN and not end.closed:
            self._receive(end, now_ms)

    def _receive(self, end: End, now_ms: int) -> None:
        """The general form of a read: as much as is granted."""
        reads = self._engine.reads
        most = reads.request_bytes(end.session) if end.is_client else reads.reply_bytes()
        try:
            received = end.recv_into(self._area[:most])
        except OSError as error:
            self._refused(end, error, now_ms)
        else:
            self._left_bytes -= received
            self._received(end, received, now_ms)

    def _settle(self, end: End) -> None:
        """The session asked for attention, or something can be sent again: bring both ends in order."""
        session = end.session
        session.attention = False
        for each in (end, end.other):
            if each.channel.outbox and not each.closed:
                self._send_outbox(each)
        client, broker = (end, end.other) if end.is_client else (end.other, end)
        if session.ended:
            self._finish(client)
            self._finish(broker)
        else:
            if session.paced and client not in self._paced:
                self._paced.append(client)
            stuck = bool(client.channel.outbox)
            broker.channel.press(on=stuck)
            client.channel.press(on=stuck or bool(broker.channel.outbox))
        self._watch(client)
        self._watch(broker)

    def _send_outbox(self, end: End) -> None:
        channel = end.channel
        try:
            while channel.outbox:
                front = channel.front(READ_BYTES)
                sent = end.send(front)
                channel.sent(sent)
                if sent < len(front):
                    return
        except BlockingIOError:
            return
        except OSError:
            self._lost(end, self._engine.now_ms)

    def _watch(self, end: End) -> None:
        """Register what this end now waits for."""
        if end.closed:
            return
        if end.lingering:
            if end.expect != _LINGERING:
                end.expect = _LINGERING
                self._poller.modify(end.fd, IN)
            return
        channel = end.channel
        want = (OUT if channel.outbox else 0) | (0 if channel.muted else IN)
        held = end.session.held
        waits = channel.muted & _QUIET and not end.hung_up if held is None else not held.hung_up
        if waits and end.is_client:
            want |= RDHUP  # who hangs up gives its place, or its sockets, to who stays
        if want != end.expect:
            end.expect = want
            self._poller.modify(end.fd, want)

    # -- the end of an end -----------------------------------------------------------------------

    def _eof(self, end: End, now_ms: int) -> None:
        if end.is_client:
            end.channel.mute(Mute.ENDING)  # nothing more comes; it may still be reading
            end.session.client_gone(now_ms)
        else:
            end.session.broker_gone(CloseReason.BROKER_CLOSED, now_ms)
            self._close(end, now_ms)
        self._settle_rest(end)

    def _broken(self, end: End, now_ms: int) -> None:
        self._lost(end, now_ms)
        self._settle_rest(end)

    def _lost(self, end: End, now_ms: int) -> None:
        """The connection is gone; tell the session."""
        if end.is_client:
            end.session.client_lost(now_ms)
        else:
            end.session.broker_gone(CloseReason.BROKER_RESET, now_ms)
        self._close(end, now_ms)

    def _settle_rest(self, end: End) -> None:
        if not (end.closed and end.other.closed):
            self._settle(end)

    def _finish(self, end: End) -> None:
        """The session has ended: let this side go gracefully, or wait until it has taken what is due."""
        if end.closed or end.lingering:
            return
        now_ms = self._engine.now_ms
        if end.channel.outbox:
            if end.timer is None:
                end.timer = self._engine.timers.arm(
                    now_ms + FLUSH_MS, lambda at: self._close(end, at)
                )
            return
        if end.timer is not None:
            end.timer.cancel()
        try:
            end.transport.shutdown()
        except OSError:
            self._close(end, now_ms)
            return
        end.lingering = True
        end.timer = self._engine.timers.arm(now_ms + LINGER_MS, lambda at: self._close(end, at))

    def _discard(self, end: End, now_ms: int) -> None:
        try:
            if end.recv_into(self._area):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        self._close(end, now_ms)

    def _close(self, end: End, now_ms: int) -> None:
        if end.closed:
            return
        end.closed = True
        if end.timer is not None:
            end.timer.cancel()
        self._ends.pop(end.fd, None)
        self._poller.unregister(end.fd)
        end.transport.close()
        end.channel.clear()
        if end.other.closed:
            end.session.handle = None
            end.session.release(now_ms)
            self._closed.append(end)
        else:
            end.session.end(CloseReason.INTERNAL, "", now_ms)

    def _part(self) -> None:
        """Ends that are both closed forget each other: nothing has to be collected."""
        for end in self._closed:
            del end.other.other, end.other
        self._closed.clear()
