"""One client and its broker: takes the bytes of both, returns which to forward, and has no socket.

The seam to the event loop is made of integers:

    stop = session.from_client(buf, start, end, now_ms)     # send buf[start:stop] on to the broker
    stop = session.from_broker(buf, start, end, now_ms)     # ... to the client

Usually `stop` is the whole result. If bytes were withheld or made here, or the session was muted or ended, the
result is ATTENTION: then nothing may be sent from `buf`; all bytes to send are in the channels' outboxes, and
the event loop sends them. The bytes after `end` are old, but look valid: never read them.

Rules of the two directions:
- Usual, untouched frames take the fast path (`fast_requests`, `fast_replies`). A frame that is not usual in any way, or
  a reply that is not whole in this read, takes the general one (`request_stream`, `reply_stream`) before anything is
  decided about it.
- Settled bytes are forwarded even if a later frame fails: a fault takes nothing from the frames before it.
- Conditions that are nearly always false are checked once per read, not once per frame (`diverted`).

Rules of the end:
- `end_after_replies`: no more requests; replies that are due are still sent; then both sides are closed.
- `end` (both outboxes are still emptied): each exchange that is not complete completes now, once.
- A fault at a request ends the session after the replies to the requests before it: they were forwarded, and
  their replies may carry what cannot be asked again (the offset of a produce). Replies are waited for
  `LAST_REPLIES_MS`. A fault at a reply ends it at once, because no later reply may leave before that one.
"""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Final

from policies.api import Outcome, Peer
from policies.chain import PolicyFault
from proxy.core.connection_limits import AUTHENTICATED
from proxy.core.errors import CloseReason, SessionFault
from proxy.core.protocol_sniffer import WANTS_SASL, WANTS_TLS, guess_protocol
from proxy.core.retirements import LAST_REPLIES_MS
from proxy.core.session import (
    broker_waits,
    crowding,
    fast_replies,
    fast_requests,
    mutes,
    questions,
    reply_stream,
    request_stream,
)
from proxy.core.session.channel import ATTENTION, Mute, Settled
from proxy.core.session.exchange import AnsweredExchange, Exchange, ProxyExchange, SwallowedExchange
from proxy.core.session.link import STREAM, Link
from proxy.core.session.reply_stream import ReplyStream
from proxy.core.session.sasl_listener import SaslListener
from proxy.core.session.sasl_refusal import SaslRefusal
from wire.apis import SIGN_ON
from wire.errors import WireError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.session.held_request import HeldRequest
    from proxy.core.session.policy_calls import PolicyCalls
    from proxy.core.session.sasl_side import SaslSide
    from proxy.core.session.shared_state import SharedState

_CLIENT_CLOSED: Final = CloseReason.CLIENT_CLOSED
"""A member of an enum is found more slowly."""


class Session(Link):
    """One client and its broker. The event loop calls from_client, from_broker, resume, drain, client_gone,
    client_lost, broker_gone, end, crash and release.
    """

    __slots__ = ("on_released", "opened_ms", "replies", "route")

    on_released: Callable[[Session, int], None]
    """Called once, when both sides are closed."""
    route: tuple[str, int] | None
    """The broker address that was dialled; None before that."""
    opened_ms: int
    held: HeldRequest | None

    def __init__(self, shared: SharedState, calls: PolicyCalls, peer: Peer) -> None:
        super().__init__(shared, calls, peer)
        self.replies: ReplyStream | None = None  # while one does not only stream
        if shared.sasl_server is not None:
            from proxy.core.session.sasl_gate import SaslGate  # noqa: PLC0415 - others do not keep it

            self.sasl = SaslGate(self, shared.sasl_server)

    # -- the two directions --------------------------------------------------------------------

    def from_client(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the client. Returns `stop` or ATTENTION, see the module."""
        self.settled = start
        if not self.usage.is_active:
            self.usage.touch()
        try:
            if self.request_left and self.request_mode == STREAM:
                self.settled = request_stream.pass_on(self, buf, start, end, now_ms)
                if self.request_left and self.settled == end:
                    return end
            if self.throttle is not None and self.throttle.is_deferred:
                mutes.begin_deferred(self, now_ms)
            diverted = self.diverted
            if not (diverted or self.request_left):
                fast_requests.pass_usual(self, buf, self.settled, end, now_ms)
                if self.settled != end and not (self.diverted or self.pending):
                    fast_requests.pass_new_or_cut(self, buf, self.settled, end, now_ms)
        except Exception as fault:  # noqa: BLE001 - it costs this session only
            pos = self._fault_at_request(fault, buf, Settled(start, self.settled))
        else:
            pos = self.settled
            if diverted or pos != end or self.uses_outboxes:
                pos = self._rest_of_requests(buf, Settled(start, pos), end, now_ms)
        due = len(self.queue.entries)
        if due and self.wait_at_ms > now_ms + self.plans.shortest_wait_ms:
            broker_waits.watch(self, now_ms)
        if due and due > self.uncounted:
            crowding.on_requests(self)
        return pos

    def _rest_of_requests(self, buf: bytearray, settled: Settled, end: int, now_ms: int) -> int:
        """Take the bytes after the settled ones on the general path."""
        try:
            return request_stream.take(self, buf, settled, end, now_ms)
        except Exception as fault:  # noqa: BLE001 - it costs this session only
            return self._fault_at_request(fault, buf, settled)

    def from_broker(self, buf: bytearray, start: int, end: int, now_ms: int) -> int:
        """Take buf[start:end] from the broker. Returns `stop` or ATTENTION, see the module."""
        self.settled = start
        if not self.usage.is_active:
            self.usage.touch()
        self.replied_ms = self.node.heard_ms = now_ms
        try:
            if not self.queue.diverted and self.replies is None:
                if self.reply_left:
                    self.settled += reply_stream.pass_on(self, buf, start, end, now_ms)
                    if self.reply_left and self.settled == end:
                        return end
                if not self.reply_left:
                    fast_replies.pass_usual(self, buf, self.settled, end, now_ms)
                    if self.settled != end:
                        fast_replies.stream_usual(self, buf, self.settled, end)
        except Exception as fault:  # noqa: BLE001 - it costs this session only
            return self._fault_at_reply(fault, buf, Settled(start, self.settled))
        pos = self.settled
        if pos != end or self.uses_outboxes or self.replies is not None:
            pos = self._rest_of_replies(buf, Settled(start, pos), end, now_ms)
        if self.in_flight is not None:
            crowding.on_replies(self, self.in_flight)
        return pos

    def _rest_of_replies(self, buf: bytearray, settled: Settled, end: int, now_ms: int) -> int:
        """Take the bytes after the settled ones on the general path."""
        if self.replies is None:
            self.replies = ReplyStream(self)
        replies = self.replies
        try:
            pos = replies.take(buf, settled, end, now_ms)
        except Exception as fault:  # noqa: BLE001 - it costs this session only
            return self._fault_at_reply(fault, buf, settled)
        if replies.is_over:
            self.replies = None
        return pos

    def _fault_at_request(self, fault: Exception, buf: bytearray, settled: Settled) -> int:
        self.broker.put_slice(buf, settled.start, settled.stop)
        self.fail_request(fault)
        return ATTENTION

    def _fault_at_reply(self, fault: Exception, buf: bytearray, settled: Settled) -> int:
        self.client.put_slice(buf, settled.start, settled.stop)
        self.fail(fault, CloseReason.BROKER_PROTOCOL)
        return ATTENTION

    # -- turns -----------------------------------------------------------------------------------

    def resume(self) -> None:
        """Begin the next turn; the event loop passes the waiting bytes to `from_client` as if just read."""
        self.client.unmute(Mute.PACED)

    def on_turn_over(self) -> None:
        """End a turn. If the session had it because memory was free, the next waiting session gets its turn."""
        if self.known_claim is not None:
            self.shared.reservations.on_turn_over(self.known_claim)

    # -- how it is ---------------------------------------------------------------------------------

    @property
    def is_at_rest(self) -> bool:
        """Whether no request has begun, no reply is due, and neither side is muted or has unsent bytes."""
        return self._is_settled and not self.client.carry

    def is_idle(self, since_ms: int) -> bool:
        """Return whether neither side has sent anything since `since_ms`, and nothing is due to either.

        Bytes of a request that has not begun do not count.
        """
        throttle = self.throttle
        return (
            self.replied_ms <= since_ms
            and self.unanswered_ms <= since_ms
            and self._is_settled
            and (throttle is None or throttle.until_ms <= since_ms)
        )

    @property
    def _is_settled(self) -> bool:
        client, broker = self.client, self.broker
        return (
            self.handle is not None
            and self.is_between_requests
            and self.replies is None
            and not (self.queue or self.questions)
            and not (client.muted or broker.muted or client.outbox or broker.outbox)
        )

    # -- who speaks ------------------------------------------------------------------------------

    def on_client_id(self, client_id: str) -> None:
        """Count later requests for this client id, which the client has sent."""
        told, named = self.peer, intern(client_id)
        # `dataclasses.replace` takes twice as long; a connection does this once.
        self.become(
            Peer(
                told.session_id,
                told.host,
                told.port,
                told.node_id,
                named,
                told.user,
                told.principal_source,
                told.proof,
                told.groups,
            )
        )

    def become(self, peer: Peer) -> None:
        """Replace the peer, because more is known of the client: later requests are counted for the new peer.

        If its user has too many connections, the session keeps the old peer and ends.
        """
        if (peer.user, peer.principal_source) != (self.peer.user, self.peer.principal_source):
            refusal = self.shared.connections.change_user(self.peer, peer)
            if refusal is not None:
                self.end_after_replies(*refusal)
                return
            if peer.principal_source in AUTHENTICATED:
                self.shared.newcomers.discard(self)
        self.peer = peer
        self.plans.clear()
        old = self.usage
        if (peer.user, peer.client_id) == (old.user, old.client_id):
            return
        usage = self.shared.usage.join(peer.user, peer.client_id, self.shared.now_ms)
        self.shared.usage.leave(old)
        if self.throttle is not None:
            mutes.begin_deferred(self, self.shared.now_ms)
        muted = self.client.muted
        if muted:  # nearly never
            mutes.count_muted_time(self, muted, -1)
        self.usage = usage
        if muted:
            mutes.count_muted_time(self, muted, 1)

    def sasl_now(self) -> SaslSide:
        """Return the part that handles the client's SASL requests, made now if this is the first."""
        if self.sasl is None:
            self.sasl = SaslRefusal(self) if self.shared.has_custody else SaslListener(self)
            self.shared.newcomers.on_sasl_begun(self, self.shared.now_ms)
        return self.sasl

    # -- memory ----------------------------------------------------------------------------------

    def on_memory_refused(self) -> None:
        """Mute the client until there is memory for the next request."""
        mutes.mute_now(self, Mute.OUT_OF_MEMORY)
        self.uses_outboxes = True

    def on_memory_granted(self) -> None:
        """Unmute the client, because there is memory for its request."""
        mutes.unmute(self, Mute.OUT_OF_MEMORY)

    def watch_unsent(self) -> None:
        """Start timing bytes that the broker has not taken."""
        broker_waits.watch_unsent(self)

    def end_stuck(self, now_ms: int) -> None:
        """End a session whose client takes no replies, because other sessions need their memory."""
        held_bytes = self.client.unsent_bytes
        self.client.clear()
        detail = f"{held_bytes} bytes of replies not taken"
        self.end_and_ask_for_turn(CloseReason.REPLY_WRITE_TIMEOUT, detail, now_ms)

    # -- the end, after the last reply -----------------------------------------------------------

    def end_after_replies(self, reason: CloseReason, detail: str = "") -> None:
        """Take no more requests; what is in flight is answered, then both sides are closed."""
        if self.ending or self.ended:
            return
        self.ending = True
        self.reason = self.reason or reason
        self.detail = self.detail or detail
        mutes.look_again(self)
        self.queue.watch()
        self.uses_outboxes = True
        self.maybe_end()

    def maybe_end(self) -> None:
        """Close both sides if an end was requested, no request is half sent and no reply is due."""
        if not self.ending or self.is_inside_request or self.held is not None:
            return
        self.client.mute(Mute.ENDING)
        self.uses_outboxes = True
        now_ms = self.shared.now_ms
        if self.draining:
            broker_waits.expire(self, now_ms, draining=True)
        if not self.queue or isinstance(self.queue[-1], SwallowedExchange):
            self.ended = True
            self.nothing_due = not self.queue
        elif self.draining and broker_waits.only_waits(self):
            self.end(CloseReason.DRAINED, "", now_ms)  # there is no telling for how long

    def drain(self) -> None:
        """End because the proxy shuts down: finish the request that is passing, answer those in flight.

        A held request ends its wait at once, so that it can still be answered.
        """
        try:
            while self.held is not None:
                self.held.over(self.shared.now_ms)
            if self.pending is not None:
                mutes.end_throttle(self)
            self.draining = True
            self.end_after_replies(CloseReason.DRAINED)
            self.maybe_end()
        except Exception as fault:  # noqa: BLE001 - a policy's bug costs this session only
            self.fail(fault, CloseReason.INTERNAL)

    def client_gone(self, now_ms: int) -> None:
        """End after the replies: the client has closed its sending side (half-close), and may still be reading."""
        if self.request_left and self.request_streams:
            request_stream.lose_half_sent(self, now_ms)
        elif self.is_inside_request and self.held is None:
            # Part of a request that is kept, or too little of it to begin. A muted client is not read up to its end.
            self.client.take()
            self._forget_requests(now_ms)
        self.end_after_replies(_CLIENT_CLOSED)
        self.maybe_end()

    def client_hung_up(self, now_ms: int) -> None:
        """Drop the held request of a client that has closed its side while it was muted: its reply would not be read.

        One without reply (acks=0) stays: its sender may have left in good faith.
        """
        held = self.held
        if held is None:
            return
        held.hung_up = True
        if not held.exchange.plan.silent:
            held.drop(now_ms, CloseReason.CLIENT_CLOSED)
            self.client.take()
            self._forget_requests(now_ms)
            self.end_after_replies(CloseReason.CLIENT_CLOSED)
            self.maybe_end()

    # -- the end, at once --------------------------------------------------------------------------

    def end(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """Close both sides as soon as their outboxes are empty. Every exchange completes now."""
        if self.ended and not self.queue:
            self.reason = self.reason or reason
            self.uses_outboxes = True
            request_stream.complete_judged(self, now_ms)
            return
        self.reason = reason if not self.ending else self.reason or reason
        self.detail = detail or self.detail
        self.ending = self.ended = True
        mutes.look_again(self)
        self.uses_outboxes = True
        self.client.mute(Mute.ENDING)
        self.broker.mute(Mute.ENDING)
        if self.held is not None:
            self.held.drop(now_ms, reason)
        request_stream.drop_kept(self)
        if self.replies is not None:
            self.replies.release()
        self._complete_queue(now_ms)
        crowding.forget(self)
        request_stream.complete_judged(self, now_ms)

    def _complete_queue(self, now_ms: int) -> None:
        """Complete each exchange that is in flight, because its reply can no longer come."""
        while self.queue:
            head = self.queue.pop_head()
            if isinstance(head, ProxyExchange):
                head.on_reply(None)
            elif isinstance(head, SwallowedExchange):
                self.node.on_settled()
            elif isinstance(head, AnsweredExchange):
                self.client.pool.release(len(head.reply))
                self.complete(head.exchange, Outcome.DISCONNECTED, now_ms, forwarded=False)
            else:
                self.complete(head, Outcome.DISCONNECTED, now_ms)

    def client_lost(
        self, now_ms: int, reason: CloseReason = CloseReason.CLIENT_RESET, detail: str = ""
    ) -> None:
        """End because the client's connection broke; its unsent replies are discarded."""
        self.client.clear()
        self.end(reason, detail, now_ms)

    def broker_gone(self, reason: CloseReason, now_ms: int, detail: str = "") -> None:
        """End because the broker's connection is closed. Replies that were received are still delivered."""
        if self.queue and self.peer.node_id is None and not self.ending:
            self._tell_first_unanswered()
        self.broker.clear()
        self.end(reason, detail, now_ms)

    def upstream_closed(self) -> None:
        """Release the announced bytes, because the connection to the broker is closed."""
        if self.known_claim is not None:
            self.shared.announced.give_back(self.known_claim)

    def _tell_first_unanswered(self) -> None:
        """Report a bootstrap broker that closed on the first requests: it most likely expects TLS or SASL."""
        head, topology = self.queue[0], self.shared.topology
        if self.shared.has_custody:  # it has authenticated Sluice, so it is something else
            return
        if isinstance(head, Exchange) and head.plan.api.removed_in:  # it does not know this version
            return
        if not self.node.heard_ms or guess_protocol(self.broker.carry):
            likely = WANTS_TLS
        elif (
            self.sasl is None
            and not topology.knows_any
            and isinstance(head, Exchange)
            and head.plan.api.key not in SIGN_ON
        ):
            likely = WANTS_SASL
        else:
            return
        self.shared.observer.on_bootstrap_closed(self.peer, self.node.address, likely)

    # -- the end, by a fault -----------------------------------------------------------------------

    def fail(self, fault: Exception, blamed: CloseReason) -> None:
        """End this session, and no other, because of a fault. Settled bytes are still sent, except to a broker
        that caused the fault.
        """
        reason = self._reason_of(fault, blamed)
        if reason is CloseReason.BROKER_PROTOCOL:
            self.broker.clear()
        self.end(reason, str(fault), self.shared.now_ms)

    def fail_request(self, fault: Exception) -> None:
        """End this session because of a fault at the request that begins or is passing. The replies to earlier
        requests, which the caller has forwarded, are still sent.
        """
        now_ms = self.shared.now_ms
        reason = self._reason_of(fault, CloseReason.CLIENT_PROTOCOL)
        if self.request_left and self.request_streams:
            request_stream.lose_half_sent(self, now_ms)
        if self.held is not None:
            self.held.drop(now_ms, reason)
        self._forget_requests(now_ms)
        judged = self.judged
        if not any(each is judged or _answers(each, judged) for each in self.queue):
            request_stream.complete_judged(self, now_ms)
        self.end_after_replies(reason, str(fault))
        self.maybe_end()
        if not self.ended:
            # Nothing is read any more, so the timer for reads is free.
            self.claim.call_at(now_ms + LAST_REPLIES_MS, self._give_up)

    def _give_up(self, now_ms: int) -> None:
        if not self.ended:
            self.end_and_ask_for_turn(self.reason or CloseReason.INTERNAL, "", now_ms)

    def crash(self, fault: Exception) -> None:
        """End after an exception that no other handler has caught, even if ending raises too."""
        try:
            self.fail(fault, CloseReason.INTERNAL)
        except Exception as again:  # noqa: BLE001 - then it ends without telling the rest
            self.shared.report(again)
            self.reason = self.reason or CloseReason.INTERNAL
            self.ending = self.ended = True
            self.uses_outboxes = True

    def _reason_of(self, fault: Exception, blamed: CloseReason) -> CloseReason:
        if isinstance(fault, SessionFault):
            return fault.reason
        if isinstance(fault, PolicyFault):
            return CloseReason.POLICY_FAULT
        if isinstance(fault, WireError):
            return blamed
        self.shared.observer.on_internal_error(fault)
        return CloseReason.INTERNAL

    # -- when both sides are closed ----------------------------------------------------------------

    def _forget_requests(self, now_ms: int) -> None:
        """Discard kept requests, and requests of our own that were not sent."""
        request_stream.forget(self, now_ms)
        questions.forget(self)

    def release(self, now_ms: int) -> None:
        """Release all memory and timers, because both sides are closed. The event loop calls it once."""
        self.end(_CLIENT_CLOSED, "", now_ms)
        mutes.count_muted_time(self, self.client.muted, -1)
        self.client.clear()
        self.broker.clear()
        self._forget_requests(now_ms)
        if self.replies is not None:
            self.replies.release()
        self.upstream_closed()
        crowding.forget(self)
        if self.sasl is not None:
            self.sasl.release(now_ms)
        mutes.release(self)
        broker_waits.release(self)
        if self.known_claim is not None:
            self.known_claim.release()
        self.plans.release()
        self.on_released(self, now_ms)
        # these refer to the session
        self.replies = self.known_claim = self.sasl = None
        self.broker.watcher = None


def _answers(queued: object, exchange: object) -> bool:
    """Return whether `queued` is a reply to `exchange` that was made here and waits for its turn."""
    return isinstance(queued, AnsweredExchange) and queued.exchange is exchange
