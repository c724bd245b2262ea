"""Asks the broker that a session was led to where the session's node is, once the client has authenticated.

Where SASL passes through, Sluice cannot ask before: only the client can authenticate. A session whose node has no known
address, or one that does not answer, is led to a bootstrap broker, and its first moment of use is this question.

Rules:
- It is sent when the exchange is complete for certain. The end of GSSAPI cannot be seen: its clients are not asked
  for, and their sessions are led elsewhere once any answer has named the node.
- The client stays muted until the answer has come, and until its session ends if it was led to the wrong broker: so no
  Produce reaches a broker that does not lead its partitions, and a client without retries loses no record.
- The answer names all brokers: the first session's question is enough for the sessions that come after it.
- The broker has `upstream.request_timeout_ms` for its answer, as for any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.metadata_lookup import CORRELATION_ID, MetadataLookup
from proxy.core.session import mutes, questions
from proxy.core.session.channel import Mute

if TYPE_CHECKING:
    from proxy.core.session.link import Link


def try_ask_route(link: Link) -> bool:
    """Ask where the session's node is, unless its route is confirmed. Return whether the client must wait."""
    routes = link.shared.routes
    session = routes.maybe_unconfirmed(link)
    if session is None or session.ending:
        return False
    lookup = MetadataLookup(link.shared.topology)

    def on_answer(frame: bytes | None) -> None:
        if frame is None:  # the connection ends
            return
        lookup.feed(frame)  # a malformed answer ends the session: it raises BrokerProtocolError
        routes.confirm(session, lambda: mutes.unmute(link, Mute.UPSTREAM_AUTH))

    questions.inquire(link, lookup.question, CORRELATION_ID, on_answer)
    return True
