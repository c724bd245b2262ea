"""Reading along in bodies that pass: for policies that want a head, and for the usage records of topics.

Nothing is held up or changed here. Whoever must see a head cannot do without; the topic book can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import Need
from proxy.core.session.exchange import Exchange
from wire import header
from wire.apis import ApiKey
from wire.fetch import read_head as read_fetch_head
from wire.produce import ProduceWalker
from wire.topic_names import TopicNames

if TYPE_CHECKING:
    from proxy.core.session.ending import SessionEnd


def walker_for(s: SessionEnd, exchange: Exchange) -> ProduceWalker:
    """For a Produce body that streams."""
    plan, book = exchange.plan, s.engine.topic_usage
    if book is None:
        return ProduceWalker(plan.api.version)
    lenient = plan.hooks.need is Need.HEADER and not plan.keeps  # nobody but the book wants it
    return book.walker(plan.api.version, lenient=lenient)


def read_head(s: SessionEnd, exchange: Exchange, buf: bytearray, body_at: int, limit: int) -> bool:
    """Set `exchange.head` for the APIs that have one; False while too little is here."""
    api = exchange.plan.api
    if api.key == ApiKey.PRODUCE:
        exchange.head = walker_for(s, exchange)
    elif api.key == ApiKey.FETCH:
        exchange.head = read_fetch_head(buf, body_at, limit, api.version)
        return exchange.head is not None
    return True


def produced(s: SessionEnd, walker: ProduceWalker) -> None:
    """The last byte of a Produce that streamed has gone on."""
    book = s.engine.topic_usage
    if book is not None:
        book.produced(s.peer.user, walker, s.engine.topics)


def unread(s: SessionEnd) -> None:
    """A Produce that streams cannot be read."""
    book = s.engine.topic_usage
    if book is not None:
        book.unread += 1


def produced_whole(
    s: SessionEnd, exchange: Exchange, frame: bytes | bytearray, body_at: int
) -> None:
    """A Produce that was kept whole goes on."""
    book = s.engine.topic_usage
    if book is not None:
        version = exchange.plan.api.version
        book.produced_whole(s.peer.user, version, frame, body_at, s.engine.topics)


def begin_fetched(s: SessionEnd, exchange: Exchange) -> None:
    """A Fetch reply begins that is not whole in this read."""
    book = s.engine.topic_usage
    if book is not None and exchange.plan.api.key == ApiKey.FETCH:
        s.reply_walker = book.fetch_walker(exchange.plan.api)


def begin_names(s: SessionEnd, exchange: Exchange, frame: bytearray) -> None:
    """The first part of a Metadata reply is here, and the rest streams: its topic names are read along."""
    api = exchange.plan.api
    if s.engine.wants_topic_names and api.key == ApiKey.METADATA and api.version >= 10:
        walker = s.reply_walker = TopicNames(api)
        body_at = header.response_body_at(frame, 0, len(frame), api.response_header_version)
        walker.feed(frame, body_at or 0, len(frame))


def fetched(s: SessionEnd) -> None:
    """Its last byte is through."""
    walker, s.reply_walker = s.reply_walker, None
    if isinstance(walker, TopicNames):
        walker.close()
        s.engine.learn(walker.names)
        s.engine.names_unread += walker.is_incomplete
        return
    book, head = s.engine.topic_usage, s.queue[0] if s.queue else None
    if book is not None and walker is not None and isinstance(head, Exchange):
        book.fetched(head.plan.peer.user, walker, s.engine.topics)


def fetched_whole(s: SessionEnd, exchange: Exchange, buf: bytearray, pos: int, stop: int) -> None:
    """A Fetch reply, whole in buf[pos:stop]."""
    book, plan = s.engine.topic_usage, exchange.plan
    if book is not None and plan.api.key == ApiKey.FETCH:
        book.fetched_whole(plan.peer.user, plan.api, buf, pos, stop, s.engine.topics)
