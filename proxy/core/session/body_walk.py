"""Reads bodies while they stream: for policies that need a head, and for the usage rows of topics.

No body is delayed or changed here. A policy that needs a head requires a readable body; usage rows do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import Need
from proxy.core.errors import ClientProtocolError
from proxy.core.session.naming_exchange import MAX_ELEMENTS
from proxy.core.turns import MAX_WALK_STEPS
from wire import header
from wire.apis import ApiKey
from wire.fetch import read_head as read_fetch_head
from wire.fetch import read_share_head
from wire.produce import ProduceWalker
from wire.produce_topics import ProduceTopics
from wire.topic_names import TopicNames

if TYPE_CHECKING:
    from collections.abc import Generator

    from proxy.core.session.exchange import Exchange, ObservedExchange
    from proxy.core.session.shared_state import SharedState
    from proxy.core.stats.topic_usage import TopicUsage
    from wire.fetch_topics import FetchTopics

# A member of an enum is found more slowly.
_HEADER: Final = Need.HEADER


def walker_for(shared: SharedState, exchange: Exchange) -> ProduceWalker:
    """Return a walker for a Produce body that streams."""
    plan, usage = exchange.plan, shared.topic_usage
    if usage is None:
        return ProduceWalker(plan.api.version)
    # It is lenient if only the usage rows need it.
    return usage.walker(plan.api.version, plan.hooks.need is _HEADER and not plan.keeps_partitions)


def read_head(
    shared: SharedState, exchange: ObservedExchange, buf: bytearray, body_at: int, limit: int
) -> bool:
    """Set `exchange.head` for the APIs that have one; return False while it is incomplete."""
    api = exchange.plan.api
    if api.key == ApiKey.PRODUCE:
        exchange.head = walker_for(shared, exchange)
    elif api.key == ApiKey.FETCH:
        exchange.head = read_fetch_head(buf, body_at, limit, api.version)
        return exchange.head is not None
    elif api.key == ApiKey.SHARE_FETCH:
        exchange.head = read_share_head(buf, body_at, limit)
        return exchange.head is not None
    return True


def read_whole_head(
    shared: SharedState, exchange: ObservedExchange, frame: bytearray, body_at: int, end: int
) -> None:
    """Set `exchange.head` from the whole body in frame[body_at:end]: the topics of a Produce are complete.

    Raises ClientProtocolError if the body ends inside its head (of a Produce: inside its topics), WireError if it is
    malformed, BudgetError if it has more than MAX_ELEMENTS.
    """
    for _ in reading_whole_head(shared, exchange, frame, body_at, end):
        pass


def reading_whole_head(
    shared: SharedState, exchange: ObservedExchange, frame: bytearray, body_at: int, end: int
) -> Generator[None, None, None]:
    """Do as `read_whole_head`, with pauses in a Produce of many partitions. Raises ClientProtocolError as it."""
    api = exchange.plan.api
    if api.key != ApiKey.PRODUCE:
        if not read_head(shared, exchange, frame, body_at, end):
            raise ClientProtocolError(f"the {api.name} body ends inside a field")
        return
    if not exchange.plan.hooks.wants_head:
        return
    exchange.head = walker = ProduceWalker(api.version, budget=MAX_ELEMENTS)
    at = walker.feed(frame, body_at, end, MAX_WALK_STEPS)
    while at < end and not walker.done:
        yield
        at = walker.feed(frame, at, end, MAX_WALK_STEPS)
    if not walker.done:
        raise ClientProtocolError("the Produce body ends inside a field")


def on_produced(shared: SharedState, user: str, walker: ProduceWalker) -> None:
    """Count a Produce that streamed, after its last byte, for `user`."""
    if isinstance(walker, ProduceTopics):
        usage: TopicUsage = shared.topic_usage  # type: ignore[assignment] # it has made the walker
        usage.produced(user, walker)


def on_fed(shared: SharedState, user: str, walker: ProduceWalker) -> None:
    """Look up the topics that a walker has read meanwhile."""
    if isinstance(walker, ProduceTopics):
        usage: TopicUsage = shared.topic_usage  # type: ignore[assignment] # as above
        usage.fed(user, walker)


def on_unread(shared: SharedState) -> None:
    """Count a streamed Produce that cannot be read."""
    if shared.topic_usage is not None:
        shared.topic_usage.unread += 1


def on_produced_whole(
    shared: SharedState, exchange: Exchange, frame: bytes | bytearray, body_at: int
) -> None:
    """Count a Produce that was kept whole."""
    plan = exchange.plan
    if shared.topic_usage is not None:
        user, version = plan.peer.user, plan.api.version
        shared.topic_usage.produced_whole(user, version, frame, body_at)


def maybe_names_walker(
    shared: SharedState, exchange: Exchange, frame: bytearray
) -> TopicNames | None:
    """Return a reader of topic names for a Metadata reply that begins with `frame`; None if none are read."""
    api = exchange.plan.api
    wanted = shared.rewrites.wants_topic_names
    if not (wanted and api.key == ApiKey.METADATA and api.version >= 10):
        return None
    walker = TopicNames(api)
    body_at = header.response_body_at(frame, 0, len(frame), api.response_header_version)
    walker.feed(frame, body_at or 0, len(frame))
    return walker


def feed_reply(
    exchange: Exchange,
    walker: FetchTopics | TopicNames,
    buf: bytearray,
    start: int,
    end: int,
) -> None:
    """Let the walker of a reply take its next bytes buf[start:end]. It never raises."""
    if isinstance(walker, TopicNames):
        walker.feed(buf, start, end)
    else:
        exchange.plan.topics.feed(walker, buf, start, end)  # type: ignore[union-attr] # it has made the walker


def on_walked(shared: SharedState, exchange: Exchange, walker: FetchTopics | TopicNames) -> None:
    """Take the results of the walker of a reply, after its last byte."""
    if isinstance(walker, TopicNames):
        walker.close()
        shared.rewrites.learn(walker.names)
        shared.rewrites.names_unread += walker.is_incomplete
    elif exchange.plan.topics is not None:
        exchange.plan.topics.walked(walker)
