"""One level-triggered poll set, stepped by the driver. It moves bytes; sessions decide.

Rules:
- A socket is registered once; its mask changes only when its channel is muted or has unsent bytes (`settling`).
- One receive per event into one shared scratch buffer; the bytes that the session passes are sent from there.
  While many sockets are readable, each read is smaller. Only bytes that the kernel does not accept are copied, into
  the channel.
- A step handles at most 64 events, about 1 MiB or 2 ms, then one turn (`engine.turns`) or more. Events that are left
  over are handled first in the next step, so no socket starves; requests of the general path wait for turns meanwhile.
- Bytes that were in the sockets when the clock was read are handled before timers fire. If every poll returns its
  maximum, timers wait until as many events were handled as there are sockets, and no longer.
- A side whose bytes were not all accepted by the other gets smaller reads, as small as those that were; each read that
  is accepted whole makes the next one larger. So a slow client costs few copies, and few bytes wait for it. Meanwhile
  the bytes that were not accepted wait for room (`settling`); then reads are on the fast path again, small as they are.
- A muted channel is not read, even if its socket is readable.
- While a pool is near its limit a read takes what the core grants, and the order of events is random.
- An error or hang-up on a muted side closes it at once: a level-triggered set would spin.
- Bytes that OpenSSL has decrypted and not yet given (`pending`) do not make a socket readable. They remain after a
  read that was smaller than a record; the session then has a turn, and its sides are read in it unless they are muted.
- Clients are accepted, and connections to brokers made, after the events of all sockets (`Endpoints.watched`).
- Operating-system errors of connections are caught here and in the dialer only. Another exception ends its session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session import mutes
from proxy.core.stats.histogram import bucket_of
from proxy.core.turns import TURN_LABOUR_BYTES
from proxy.shell import loop_limits, masks, settling, side_ending, system_calls
from proxy.shell.endpoint import (
    Endpoint,
    Endpoints,
    add,
    find,
    has_pending,
    register_connected,
    try_expect_early,
    unread_bytes,
)
from proxy.shell.loop_limits import (
    READ_BYTES,
    SLICE_BYTES,
    SLICE_EVENTS,
    STEP_BYTES,
    STEP_EVENTS,
)
from proxy.shell.poller import EpollPoller, in_fair_order
from proxy.shell.steppable import Steppable
from proxy.shell.transport import UndialledTransport

if TYPE_CHECKING:
    from trio import CancelScope

    from proxy.core.engine import Engine
    from proxy.core.errors import CloseReason
    from proxy.core.session.session import Session
    from proxy.shell.clock import Clock
    from proxy.shell.transport import Transport

CROWD_READ_BYTES = 64 << 10
"""The largest read while a poll returns more than CROWD_EVENTS."""
WAITING_READ_BYTES = 16 << 10
"""The largest read while sessions wait for turns: bytes that are read too early are copied in each turn."""
SLOWED_READ_BYTES = 16 << 10
"""The smallest read from a side whose bytes were not all accepted."""
STEP_US = 2_000
EVENTS_US = 1_500
"""The time of a step, and that of its events if sessions wait for turns."""
_UNDIALLED = UndialledTransport()
_READ_CLOCK = -1  # no byte is left of a slice


class EventLoop(Steppable):
    """All connections of a process. The driver calls `step`."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__()
        self.endpoints = Endpoints(engine)
        self._engine = engine
        self._timers, self._turns, self._usage = engine.timers, engine.turns, engine.usage
        self._requests, self._replies = engine.request_pool, engine.reply_pool
        self._clock = clock
        poller = self.endpoints.poller
        self._epoll = poller if isinstance(poller, EpollPoller) else None
        # In fields, because tests change them: the others are constants of the compiled code.
        self._step_bytes, self._step_events = STEP_BYTES, STEP_EVENTS
        self._slice_bytes, self._slice_events = SLICE_BYTES, SLICE_EVENTS
        self._steps = 0
        self._then_us = 0  # when the last step began
        self._found = system_calls.new_events()  # the events of the last poll
        self._tail: list[tuple[Endpoint, int]] = []  # events left over from the last step
        self._others: list[int] = []  # ready descriptors of the poll set that no endpoint has
        self._checks_backlog = False  # whether to call _check_backlog after the next poll
        self._behind = False  # sockets may hold more than was read: timers wait
        self._unfired = 0  # events handled while timers wait
        self._fired_ms = -1  # timers fire once per millisecond
        self._due = engine.timers.due
        self.asleep: CancelScope | None = None  # the driver's wait (`driver.nudge`)
        self._scratch = bytearray(loop_limits.HEADROOM_BYTES + READ_BYTES)
        self._view = memoryview(self._scratch)
        area = self._view[loop_limits.HEADROOM_BYTES :]
        self._areas = area, area[:CROWD_READ_BYTES]
        self._area = area  # what the next reads may fill
        self._area_bytes = READ_BYTES
        self._small_area = self._area[:WAITING_READ_BYTES]
        engine.reservations.unread_bytes = unread_bytes
        engine.try_expect_early = try_expect_early

    def fileno(self) -> int:
        """Return a descriptor that is readable while a socket is ready."""
        return self.endpoints.poller.fileno()

    def attach(self, session: Session, client: Transport, broker: Transport | None = None) -> None:
        """Start to move bytes between two connected sides. None: the broker follows (`join`) when it is needed.

        Raises OSError if they cannot be registered; both sockets then remain the caller's.
        """
        from_client, from_broker = self._engine.topology.nodes.traffic_of(session.peer.node_id)
        a = Endpoint(client, session, session.client, from_client)
        b = Endpoint(broker or _UNDIALLED, session, session.broker, from_broker)
        a.other, b.other = b, a
        a.forward, b.forward = b.send, a.send
        poller = self.endpoints.poller
        poller.register(a.fd, masks.IN)  # it raises if the user has no epoll watches left
        if b.fd >= 0:
            try:
                poller.register(b.fd, masks.IN)
            except OSError:
                poller.unregister(a.fd)
                raise
            add(self.endpoints, b)
        add(self.endpoints, a)
        session.handle = a
        if session.uses_outboxes or has_pending(a) or has_pending(b):
            self._engine.schedule(session)
            if self.asleep is not None:
                self.asleep.cancel()

    def join(self, session: Session, broker: Transport) -> None:
        """Give a session the broker that it waits for.

        Raises OSError if it cannot be registered, and ValueError if none is awaited; then it remains the caller's.
        """
        a = session.handle
        if not isinstance(a, Endpoint) or a.other.fd >= 0 or a.other.closed:
            raise ValueError("no broker is awaited")
        b = a.other
        register_connected(self.endpoints, broker.fileno())
        b.use(broker)
        a.forward = b.send
        b.expect = masks.IN
        add(self.endpoints, b)
        if not a.lingering:  # the wait for the broker says nothing about its speed
            a.read_bytes = READ_BYTES
            a.expect &= ~masks.SLOWED
        self._engine.ask_for_turn(session)

    def step(self, timeout_s: float) -> int:
        """Wait at most `timeout_s` for events and handle them. Returns how many events and turns were handled.

        Sockets are read first, then timers fire, then sessions have their turns.
        """
        endpoints, engine, turns, clock = self.endpoints, self._engine, self._turns, self._clock
        if endpoints.closed:
            side_ending.unlink_closed(endpoints)
        ready = turns.queue
        if self._tail:
            count = self._take_tail()
            now_us = clock.now_us()
        else:
            count = self._poll(0.0 if ready else timeout_s)
            now_us = clock.now_us()
            if (
                now_us - self._then_us > loop_limits.STALL_US
                or count > loop_limits.CROWD_EVENTS
                or self._checks_backlog
            ):
                count = self._check_backlog(count, now_us)
        self._then_us = now_us
        engine.now_us = now_us
        engine.now_ms = now_ms = now_us // 1000
        by_fd, found = endpoints.by_fd, self._found
        known = len(by_fd)
        at = loop_limits.HEADROOM_BYTES
        scratch, area, view = self._scratch, self._area, self._view
        area_end = at + self._area_bytes
        requests, replies = self._requests, self._replies
        fast = masks.IN  # the event of the fast path; NO_EVENT: each read takes what is granted
        if requests.near_limit or replies.near_limit:
            fast = masks.NO_EVENT
            events = [system_calls.event_at(found, each) for each in range(count)]
            system_calls.put_events(found, in_fair_order(events, requests))
        elif ready:
            fast = (
                masks.NO_EVENT
            )  # a muted session's socket may be watched still, and reads are small
        left, budget = self._slice_bytes, self._step_bytes
        budget -= left
        end: Endpoint | None = None
        place, stop_at, slice_at = 0, count, self._slice_events
        while place < stop_at:
            try:
                while place < stop_at:
                    fd, event = system_calls.event_at(found, place)
                    if left < 0 or place == slice_at:
                        budget += left + _READ_CLOCK
                        if budget <= 0 or self._is_over(now_us):
                            stop_at = place
                            self._save_tail(place, count)
                            break
                        if ready and not turns.labour_bytes:
                            fast = masks.NO_EVENT
                        left, slice_at = self._slice_bytes, place + self._slice_events
                        budget -= left
                    place += 1  # before anything can raise
                    end = by_fd[fd] if fd < known else None
                    if end is None:
                        self._on_other(fd)
                        continue
                    if event != fast or end.expect != event:
                        budget += left - self._on_slow_path(end, event, now_ms)
                        left = _READ_CLOCK
                        if requests.near_limit:
                            fast = masks.NO_EVENT
                        continue
                    limit = end.read_bytes
                    if end.direct >= 0:
                        received = system_calls.receive(
                            end.direct, scratch, at, min(area_end, at + limit)
                        )
                        if received < 0:
                            budget, left = budget + left, _READ_CLOCK
                            if received == system_calls.BROKEN:
                                settling.on_broken(endpoints, end, now_ms)
                            continue
                    else:
                        try:
                            received = end.recv_into(
                                area if limit >= loop_limits.READ_BYTES else area[:limit]
                            )
                        except OSError as error:
                            budget, left = budget + left, _READ_CLOCK
                            self._refused(end, error, now_ms)
                            continue
                    if received >= loop_limits.LARGE_BYTES:
                        left -= received
                    end.traffic.read_bytes += received
                    if not received or end.channel.carry:
                        budget, left = budget + left, _READ_CLOCK
                        self._received(end, received, now_ms)
                        if requests.near_limit:
                            fast = masks.NO_EVENT
                        continue
                    if end.is_client:
                        stop = end.session.from_client(scratch, at, at + received, now_ms)
                    else:
                        stop = end.session.from_broker(scratch, at, at + received, now_ms)
                    if stop < 0:
                        budget, left = budget + left, _READ_CLOCK
                        settling.settle(endpoints, end)
                        if requests.near_limit:
                            fast = masks.NO_EVENT
                        continue
                    to = end.other
                    if to.direct >= 0:
                        sent = system_calls.send(to.direct, scratch, at, stop)
                        if sent < 0:
                            if sent == system_calls.BROKEN:
                                settling.on_broken(endpoints, to, now_ms)
                            sent = 0
                    else:
                        try:
                            sent = end.forward(view[at:stop])
                        except OSError as error:
                            self._refused(to, error, now_ms)
                            sent = 0
                    if at + sent != stop:
                        self._buffer_unsent(to, at + sent, stop)
                    elif limit < loop_limits.READ_BYTES:
                        self._read_more(end)
            except Exception as error:  # noqa: BLE001 - any error ends this session only
                budget, left = budget + left, _READ_CLOCK
                settling.on_fault(endpoints, end, error, now_ms)
        if self._others:
            self._serve_others(now_ms, now_us + STEP_US)
        if (now_ms != self._fired_ms or self._due) and not (self._tail or self._behind):
            self._fired_ms = now_ms
            if now_ms >= self._usage.ends_ms:
                engine.fire(now_ms)
            else:  # the rest of `fire`
                self._timers.advance(now_ms)
        handled = count - len(self._tail)
        if ready:
            handled += self._serve(now_ms, now_us + STEP_US)
        self._steps += 1
        if not self._steps & 15:
            engine.meters.step_us[bucket_of(clock.now_us() - now_us)] += 1
        return handled

    def _poll(self, timeout_s: float) -> int:
        """Wait at most `timeout_s` for events, put them into `_found`, and return how many."""
        poller, epoll = self.endpoints.poller, self._epoll
        if epoll is not None and poller is epoll:
            return system_calls.poll_into(self._found, epoll.fd, timeout_s, self._step_events)
        return system_calls.put_events(self._found, poller.poll(timeout_s, self._step_events))

    def _on_other(self, fd: int) -> None:
        """Note an event of a descriptor that no endpoint has: of a port, or of a connection that is being made."""
        if fd in self.endpoints.watched:
            self._others.append(fd)
        else:  # Trio's poll set, or a socket closed earlier in this step
            self.called = 1

    def _serve_others(self, now_ms: int, until_us: int) -> None:
        """Accept clients, and finish connections that are made: as many as there is time for, but at least one.

        No event of this step is left then. So none can be taken for one of a socket that is opened here, and has the
        number of one that this step has closed. Those that are left over come again with the next poll.
        """
        ready_of = self.endpoints.watched.get
        others, self._others = self._others, []
        for fd in others:
            on_ready = ready_of(fd)
            if on_ready is None:  # closed in this step
                continue
            try:
                on_ready(now_ms)
            except Exception as error:  # noqa: BLE001 - it costs one client
                self._engine.report(error)
            if self._clock.now_us() >= until_us:
                break

    def _is_over(self, begun_us: int) -> bool:
        """Return whether the step that began at `begun_us` has no more time for events."""
        limit_us = EVENTS_US if self._turns.queue else STEP_US
        return self._clock.now_us() - begun_us >= limit_us

    def _check_backlog(self, count: int, now_us: int) -> int:
        """Decide after a poll whether timers wait, because sockets may hold more; return how many events to handle."""
        if now_us - self._then_us > loop_limits.STALL_US:
            # Nothing is lost by polling again: the set is level-triggered.
            count = self._poll(0.0)
        self._unfired += count
        self._behind = count == self._step_events and self._unfired < self.endpoints.open_sockets
        if not self._behind:
            self._unfired = 0
        if not self._turns.queue:
            self._turns.labour_bytes = TURN_LABOUR_BYTES
        crowded = count > loop_limits.CROWD_EVENTS
        self._area = self._areas[crowded]
        self._area_bytes = len(self._area)
        self._checks_backlog = self._behind or crowded
        return count

    def _take_tail(self) -> int:
        """Take the events left over from the last step, except those of sockets closed since; return how many."""
        if self._clock.now_us() - self._then_us > loop_limits.STALL_US:
            self._behind = self._checks_backlog = True  # more may have arrived meanwhile
        tail, self._tail = self._tail, []
        return system_calls.put_events(
            self._found,
            [(end.fd, event) for end, event in tail if find(self.endpoints, end.fd) is end],
        )

    def _save_tail(self, place: int, count: int) -> None:
        """Save the events from `place` on, by endpoint: the next step may see a descriptor in use by another socket."""
        rest = [system_calls.event_at(self._found, each) for each in range(place, count)]
        self._tail = [
            (end, event) for fd, event in rest if (end := find(self.endpoints, fd)) is not None
        ]
        self._turns.labour_bytes = 0
        self._checks_backlog = True

    def serve_ready(self) -> None:
        """Give ready sessions their turns now, as many as fit in a step; another task calls this after a change."""
        engine = self._engine
        now_us = engine.now_us = self._clock.now_us()
        engine.now_ms = now_us // 1000
        self._serve(engine.now_ms, now_us + STEP_US)

    def _serve(self, now_ms: int, until_us: int) -> int:
        """Give ready sessions their turns until `until_us`, at least to one; return how many had theirs."""
        turns, clock = self._turns, self._clock
        begun_us = clock.now_us()
        served = 0
        for _ in range(len(turns.queue)):
            served += 1
            session = turns.take()
            end = session.handle
            if isinstance(end, Endpoint):
                try:
                    self._turn(end, now_ms)
                except Exception as error:  # noqa: BLE001 - any error ends this session only
                    settling.on_fault(self.endpoints, end, error, now_ms)
            now_us = clock.now_us()
            turns.end(session, now_us - begun_us)
            begun_us = now_us
            if now_us >= until_us:
                break
        if turns.queue or self._tail:
            turns.labour_bytes = 0
        return served

    def read_out(self) -> None:
        """Handle what is in the sockets now, before they are closed."""
        left = 4 * self.open_sockets  # each is read and may have a turn, and some are written
        while left > 0 and (handled := self.step(0)):
            left -= handled

    def drop(self, handle: object, now_ms: int) -> None:
        """Close both sides of the session with this handle at once, because nothing is due to either."""
        if isinstance(handle, Endpoint):
            for end in (handle, handle.other):
                side_ending.abandon(self.endpoints, end, now_ms)

    def close_all(self, reason: CloseReason) -> None:
        """Close all connections now, without waiting for requests in flight."""
        now_ms = self._clock()
        for end in tuple(self.endpoints.by_fd):
            if end is not None and not end.closed:
                end.session.end(reason, "", now_ms)
                for each in (end, end.other):
                    side_ending.close(self.endpoints, each, now_ms)

    def close(self) -> None:
        """Close the poll set."""
        self.endpoints.poller.close()

    @property
    def open_sockets(self) -> int:
        """Return how many sockets are registered."""
        return self.endpoints.open_sockets

    # -- one side --------------------------------------------------------------------------------

    def _turn(self, end: Endpoint, now_ms: int) -> None:
        """Resume a session with the bytes carried over, and settle it. `end` is its client's."""
        session = end.session
        if session.paced and not (end.closed or session.ended):
            session.resume()
            self._take(end, 0, now_ms)
        if session.hears_in_turns and not (end.other.closed or session.ended):
            self._take(end.other, 0, now_ms)
        for each in (end, end.other):
            if each.pending is not None:
                self._receive_pending(each, now_ms)
        settling.settle_rest(self.endpoints, end)
        session.on_turn_over()

    def _receive_pending(self, end: Endpoint, now_ms: int) -> None:
        """Read a TLS side whose bytes the poll set does not see."""
        if not (end.closed or end.lingering or end.channel.muted) and has_pending(end):
            self._receive(end, now_ms)

    def _received(self, end: Endpoint, received: int, now_ms: int) -> None:
        """Handle a receive outside the fast path: EOF, or bytes after those carried over."""
        if received:
            self._take(end, received, now_ms)
        else:
            settling.on_eof(self.endpoints, end, now_ms)

    def _take(self, end: Endpoint, received: int, now_ms: int) -> None:
        start = loop_limits.HEADROOM_BYTES
        channel = end.channel
        if channel.carry:
            carry = channel.take()
            start -= len(carry)
            self._scratch[start : loop_limits.HEADROOM_BYTES] = carry
        stop = loop_limits.HEADROOM_BYTES + received
        if end.is_client:
            stop = end.session.from_client(self._scratch, start, stop, now_ms)
        else:
            stop = end.session.from_broker(self._scratch, start, stop, now_ms)
        if stop < 0:
            settling.settle(self.endpoints, end)
        elif stop > start:
            if not end.other.channel.outbox:
                try:
                    start += end.forward(self._view[start:stop])
                except OSError as error:
                    self._refused(end.other, error, now_ms)
            if start != stop:
                self._buffer_unsent(end.other, start, stop)

    def _buffer_unsent(self, end: Endpoint, start: int, stop: int) -> None:
        """Give bytes that the kernel did not accept to this side's channel. They wait there for room."""
        if not end.closed:
            self.endpoints.refused_sends += 1
            end.channel.put(bytes(self._view[start:stop]))
            source = end.other
            source.read_bytes = max(SLOWED_READ_BYTES, source.read_bytes // 2)
            settling.wait_for_room(self.endpoints, end)

    def _refused(self, end: Endpoint, error: OSError, now_ms: int) -> None:
        """Handle a failed receive or send: ignore "not now", end the side on any other error."""
        if not isinstance(error, BlockingIOError):
            settling.on_broken(self.endpoints, end, now_ms, error)

    def _on_slow_path(self, end: Endpoint, event: int, now_ms: int) -> int:
        """Handle an event outside the fast path; return how many bytes were read."""
        self.endpoints.slow_events += 1
        if end.lingering:
            self._discard(end, now_ms)
            return 0
        if event & (masks.ERR | masks.HUP) and not (event & masks.IN and end.expect & masks.IN):
            settling.on_broken(self.endpoints, end, now_ms)
            return 0
        if event & masks.RDHUP and end.expect & masks.RDHUP:
            end.hung_up = True
            if end.session.held is not None:
                end.session.client_hung_up(now_ms)
            elif not end.channel.carry and end.transport.is_finished():
                settling.on_eof(self.endpoints, end, now_ms)  # all of its bytes were read
                return 0
            settling.settle(self.endpoints, end)
        elif event & masks.OUT and end.channel.outbox:
            settling.settle(self.endpoints, end)
        if event & masks.IN and end.expect & masks.IN and not end.closed:
            if end.expect & masks.EARLY:
                end.expect &= ~masks.EARLY
                mutes.begin_deferred(end.session, now_ms)
            if not end.channel.muted:
                return self._receive(end, now_ms)
            settling.settle(self.endpoints, end)  # the poll set does not know that it is muted
        return 0

    def _receive(self, end: Endpoint, now_ms: int) -> int:
        """Read as much as the core grants; return how many bytes were read."""
        engine = self._engine
        limit = granted = end.read_bytes
        requests, replies = self._requests, self._replies
        if requests.near_limit or replies.near_limit:
            reads = engine.read_sizes
            granted = reads.request_bytes(end.session) if end.is_client else reads.reply_bytes()
        turns = self._turns
        area = self._small_area if turns.queue and not turns.labour_bytes else self._area
        size = min(granted, limit, len(area))
        if end.direct >= 0:
            at = loop_limits.HEADROOM_BYTES
            received = system_calls.receive(end.direct, self._scratch, at, at + size)
            if received < 0:
                if received == system_calls.BROKEN:
                    settling.on_broken(self.endpoints, end, now_ms)
                return 0
        else:
            try:
                received = end.recv_into(area[:size])
            except OSError as error:
                self._refused(end, error, now_ms)
                return 0
        end.traffic.read_bytes += received
        self._received(end, received, now_ms)
        if not end.closed:
            if limit == end.read_bytes < loop_limits.READ_BYTES and not end.other.channel.outbox:
                self._read_more(end)
            if has_pending(end):
                engine.schedule(end.session)
        return received

    def _read_more(self, end: Endpoint) -> None:
        """Let the reads of this side grow, because the last one was accepted whole."""
        end.read_bytes = min(loop_limits.READ_BYTES, end.read_bytes + loop_limits.MORE_READ_BYTES)
        if end.read_bytes == loop_limits.READ_BYTES and not (end.lingering or end.channel.muted):
            end.expect &= ~masks.SLOWED

    def _discard(self, end: Endpoint, now_ms: int) -> None:
        try:
            if end.recv_into(self._area):
                return
        except BlockingIOError:
            return
        except OSError:
            pass
        side_ending.close(self.endpoints, end, now_ms)
