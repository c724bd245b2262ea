"""Answers the ApiVersions requests of clients that have not logged in to Sluice yet, from what brokers have answered.

A client asks for versions before it logs in, and costs no broker a connection by that.

Rules:
- A broker is asked once for each node and version of the request, by a connection that is closed then. Clients wait for
  its answer together. So clients that are not known yet cost a broker one connection at a time. The question is
  Sluice's own: to a client's, the broker may answer with an error that is no other client's.
- The client's session hears the answer as if its own broker had sent it.
- When the client has logged in and its broker is dialled, that broker is asked the client's own question first. If it
  supports less than the client was told, the session ends, and the client asks again.
- Its question is kept until then. Its bytes, whole or not, count as those of a client that is not known
  (`proxy.core.memory.unauthenticated`) until it has logged in; from then on in the pool of requests alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from proxy.core.errors import CloseReason, OverloadedError, SessionFault
from proxy.core.versions_lookup import VersionsLookup, own_question, take_question
from proxy.shell.dial import DialError, receive_some, send_all

if TYPE_CHECKING:
    from proxy.core.engine import Engine
    from proxy.core.session.session import Session
    from proxy.core.versions_lookup import KnownVersions, VersionsQuestion
    from proxy.shell.dialer import Dialer, Upstream

    Key = tuple[int | None, int]
    """Node and version of the request."""

ANSWER_S: Final = 10.0
READ_BYTES: Final = 16 << 10


class Inquiry(NamedTuple):
    """A question for a broker: the request of a client that waits for the answer."""

    key: Key
    question: VersionsQuestion


class _Asker:
    """The bytes of one session: `received` is not whole yet, `inquiry` is its last question. See `Unknown`."""

    __slots__ = ("_engine", "_known_bytes", "_session", "inquiry", "received", "told", "waits")

    def __init__(self, engine: Engine, session: Session) -> None:
        self._engine = engine
        self._session = session
        self._known_bytes = 0  # counted for a client that has logged in
        self.received = bytearray()
        self.inquiry: Inquiry | None = None
        self.told: KnownVersions | None = None
        self.waits = False

    @property
    def _buffered_bytes(self) -> int:
        return len(self.received) + (
            0 if self.inquiry is None else len(self.inquiry.question.frame)
        )

    def try_count(self) -> bool:
        """Count the bytes that are kept now; return False if others need the memory more."""
        if self._session in self._engine.newcomers:
            return self._engine.unauthenticated.try_set(self, self._buffered_bytes)
        self._count_as_known(self._buffered_bytes)
        return True

    def end_and_ask_for_turn(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """End the session, unless it has logged in: then its bytes count elsewhere."""
        if self._session in self._engine.newcomers:
            self._session.end_and_ask_for_turn(reason, detail, now_ms)
        else:
            self._count_as_known(self._buffered_bytes)

    def release(self) -> None:
        """Count nothing any more."""
        self._count_as_known(0)

    def _count_as_known(self, buffered_bytes: int) -> None:
        pool = self._engine.request_pool
        pool.force_allocate(buffered_bytes)
        counted_bytes, self._known_bytes = self._known_bytes, buffered_bytes
        pool.release(counted_bytes)
        self._engine.unauthenticated.give_back(self)


class BrokerVersions:
    """The versions of the brokers, and the sessions that have asked for them before their login."""

    def __init__(self, engine: Engine, dialer: Dialer) -> None:
        self._engine = engine
        self._dialer = dialer
        self._known: dict[Key, KnownVersions] = {}
        self._askers: dict[Session, _Asker] = {}
        self._asking: set[Key] = set()

    def must_wait(self, session: Session) -> bool:
        """Return whether no broker may be dialled for this session now: it has not logged in, or waits."""
        newcomers = self._engine.newcomers
        if newcomers.authenticates and session in newcomers:
            return True
        asker = self._askers.get(session)
        return asker is not None and asker.waits

    def take(self, session: Session) -> Inquiry | None:
        """Take the bytes that the session has for its broker; return what a broker must be asked, or None.

        Raises OverloadedError if they come too slowly while others need the memory.
        """
        asker = self._askers.get(session)
        if asker is None:
            asker = self._askers[session] = _Asker(self._engine, session)
        if asker.waits:
            return None  # its next question waits for its turn
        channel = session.broker
        while channel.outbox:
            part = channel.front(READ_BYTES)
            asker.received += part
            channel.sent(len(part))
        if not asker.try_count():
            raise OverloadedError("it has not logged in yet, and others needed the memory")
        inquiry = self._next(session, asker)
        asker.try_count()  # of questions that came together only the last one is kept
        return inquiry

    def forget(self, session: Session) -> None:
        """Forget a session that has ended, or has its broker."""
        asker = self._askers.pop(session, None)
        if asker is not None:
            asker.release()

    def _next(self, session: Session, asker: _Asker) -> Inquiry | None:
        """Answer the questions that are whole; return the one that no broker was asked yet, or None."""
        while (question := take_question(asker.received)) is not None:
            key = session.peer.node_id, question.version
            asker.inquiry = Inquiry(key, question)
            known = self._known.get(key)
            if known is None:
                asker.waits = True
                if key in self._asking:
                    return None
                self._asking.add(key)
                return asker.inquiry
            self._tell(session, asker, known)
        return None

    def _tell(self, session: Session, asker: _Asker, known: KnownVersions) -> None:
        """Let the session hear the answer to its question."""
        assert asker.inquiry is not None  # noqa: S101 - it has asked
        asker.told = known
        reply = known.reply_to(asker.inquiry.question)
        heard_ms = session.node.heard_ms
        stop = session.from_broker(reply, 0, len(reply), self._engine.now_ms)
        session.node.heard_ms = heard_ms  # the node has said nothing now
        session.client.put_slice(reply, 0, stop)
        self._engine.ask_for_turn(session)

    # -- what brokers say ------------------------------------------------------------------------

    async def learn(self, inquiry: Inquiry) -> None:
        """Ask a broker, and answer all sessions that wait for it. They end if it does not answer."""
        key = inquiry.key
        failed: DialError | None = None
        more: list[Inquiry] = []
        try:
            broker = await self._dialer.reach(key[0])
            try:
                await self._ask(inquiry.key, own_question(inquiry.question.version), broker)
            finally:
                broker.close()
        except DialError as error:
            failed = error
        finally:
            self._asking.discard(key)
            more = self._settle(key, failed)
        for each in more:
            await self.learn(each)

    def _settle(self, key: Key, failed: DialError | None) -> list[Inquiry]:
        """Answer the sessions that wait for this, or end them; return what is to be asked for them next."""
        more = []
        known = None if failed else self._known.get(key)
        for session, asker in tuple(self._askers.items()):
            if asker.inquiry is None or not asker.waits or asker.inquiry.key != key:
                continue
            asker.waits = False
            if session.ended:
                continue
            if known is not None:
                self._tell(session, asker, known)
                inquiry = self._next(session, asker)
                asker.try_count()
                if inquiry is not None:
                    more.append(inquiry)
            elif failed is not None:
                session.end_and_ask_for_turn(failed.reason, failed.detail, self._engine.now_ms)
            else:
                session.end_and_ask_for_turn(CloseReason.DRAINED, "", self._engine.now_ms)
        return more

    def must_check(self, session: Session) -> bool:
        """Return whether the session's own broker must be asked (`check`)."""
        asker = self._askers.get(session)
        return asker is not None and asker.told is not None

    async def check(self, session: Session, broker: Upstream) -> None:
        """Ask the session's own broker what its client has asked. Raises DialError if it supports fewer versions."""
        asker = self._askers.get(session)
        if asker is None or asker.inquiry is None or asker.told is None:
            return
        told = asker.told
        known = await self._ask(*asker.inquiry, broker)
        if known.says_less_than(told, self._engine.rewrites):
            detail = f"{broker.address} supports fewer versions than the client was told"
            raise DialError(CloseReason.UPSTREAM_REFUSED, detail)

    async def _ask(self, key: Key, question: VersionsQuestion, broker: Upstream) -> KnownVersions:
        lookup = VersionsLookup(question)
        try:
            with trio.fail_after(ANSWER_S):
                await send_all(broker.transport, question.frame)
                while lookup.known is None:
                    data = await receive_some(broker.transport)
                    if not data:
                        raise DialError(
                            CloseReason.UPSTREAM_REFUSED,
                            f"{broker.address} closed the connection on ApiVersions",
                        )
                    lookup.feed(data)
        except trio.TooSlowError:
            why = f"{broker.address} did not answer ApiVersions within {ANSWER_S:g} s"
            raise DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, why) from None
        except OSError as error:
            why = f"{broker.address}: {error.strerror or error}"
            raise DialError(CloseReason.UPSTREAM_REFUSED, why) from None
        except SessionFault as fault:
            raise DialError(fault.reason, f"{broker.address}: {fault}") from fault
        if lookup.known.refusal:
            why = f"{broker.address} answered ApiVersions with error {lookup.known.refusal}"
            raise DialError(CloseReason.UPSTREAM_REFUSED, why)
        self._known[key] = lookup.known
        return lookup.known
