"""Finds the last tags of a Fetch reply that streams, which may name brokers.

No byte is changed or delayed here; `reply_stream` keeps and rewrites the tags that `read_along` does not let pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.errors import BrokerProtocolError
from wire.fetch_walk import FetchWalk

if TYPE_CHECKING:
    from proxy.core.session.link import Link
    from proxy.core.session.plan import Plan


def begin_walk(link: Link, plan: Plan) -> None:
    """Let a walk read along with the reply that begins."""
    walk = plan.walk
    if walk is None:
        walk = plan.walk = FetchWalk(plan.api.version)
    walk.restart()  # the last one may have been left unfinished, by a plan that is a copy of this one
    link.reply_walk = walk


def read_along(link: Link, buf: bytearray, start: int, taken: int, left_bytes: int) -> int:
    """Let the walk read `taken` of the `left_bytes` that the reply has from buf[start] on; return how many may pass.

    Last tags that may name brokers do not. Raises BrokerProtocolError if they cannot be found.
    """
    walk: FetchWalk = link.reply_walk  # type: ignore[assignment] # the caller has looked
    walk.feed(buf, start, start + taken)
    if walk.broken:
        words = "the topics of a Fetch reply cannot be read, and brokers may follow them"
        raise BrokerProtocolError(words)
    passes = walk.tail_at - start
    if passes == taken or (taken == left_bytes == passes + 1 and not buf[start + passes]):
        return taken  # they are not here yet, or there are none
    return passes
