"""The memory of clients that are not known yet: their logins, and the long heads of their first requests.

It is counted in `proxy.core.memory.unauthenticated`. A client that is known reserves memory as for any request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.errors import OverloadedError
from proxy.core.memory.unauthenticated import NO_ROOM
from proxy.core.session.plan import SASL

if TYPE_CHECKING:
    from proxy.core.session.exchange import Exchange
    from proxy.core.session.link import Link

UNKNOWN_SOURCES: Final = frozenset({"none", "fixed"})
"""Values of `Peer.principal_source` of clients that have proved nothing."""


def is_logging_in(link: Link, exchange: Exchange) -> bool:
    """Return whether this request is a login of a client that is not known yet."""
    return exchange.plan.api.key in SASL and link.peer.principal_source in UNKNOWN_SOURCES


def keep_login(link: Link, size_bytes: int) -> None:
    """Count bytes of a login that is not whole. Raises OverloadedError if others need the memory more."""
    if not link.shared.unauthenticated.try_add(link, size_bytes):
        raise OverloadedError(NO_ROOM)


def may_keep_head(link: Link, size_bytes: int) -> bool:
    """Return whether the session may keep a head that is longer than an ordinary one; False: it waits for memory.

    The head of a first request waits for none. Raises OverloadedError if others need the memory more.
    """
    shared = link.shared
    if link not in shared.newcomers:
        return shared.reservations.reserve_head(link.claim)
    if not shared.unauthenticated.try_carry(link, size_bytes):
        raise OverloadedError(NO_ROOM)
    return True
