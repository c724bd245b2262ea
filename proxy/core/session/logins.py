"""The memory of clients that are not known yet: their logins, and the long heads of their first requests.

It is counted in `proxy.core.memory.unauthenticated`. A client that is known reserves memory as for any request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.errors import OverloadedError
from proxy.core.memory.unauthenticated import NO_ROOM
from proxy.core.session.plan import SASL

if TYPE_CHECKING:
    from policies.api import Peer
    from proxy.core.errors import CloseReason
    from proxy.core.memory.claim import MemoryClaim
    from proxy.core.session.exchange import Exchange
    from proxy.core.session.shared_state import SharedState

UNKNOWN_SOURCES: Final = frozenset({"none", "fixed"})
"""Values of `Peer.principal_source` of clients that have proved nothing."""


class LoginOwner(Protocol):
    """The session as its login sees it."""

    @property
    def shared(self) -> SharedState:
        """Return the state that all sessions share."""

    @property
    def peer(self) -> Peer:
        """Return what is known of the client."""

    @property
    def claim(self) -> MemoryClaim:
        """Return the session's claim on the pool of requests."""

    def end_and_attend(self, reason: CloseReason, detail: str, now_ms: int) -> None:
        """End the session, outside of its own reads."""


def is_logging_in(owner: LoginOwner, exchange: Exchange) -> bool:
    """Return whether this request is a login of a client that is not known yet."""
    return exchange.plan.api.key in SASL and owner.peer.principal_source in UNKNOWN_SOURCES


def keep_login(owner: LoginOwner, size_bytes: int) -> None:
    """Count bytes of a login that is not whole. Raises OverloadedError if others need the memory more."""
    if not owner.shared.unauthenticated.try_add(owner, size_bytes):
        raise OverloadedError(NO_ROOM)


def may_keep_head(owner: LoginOwner, size_bytes: int) -> bool:
    """Return whether the session may keep a head that is longer than an ordinary one; False: it waits for memory.

    The head of a first request waits for none. Raises OverloadedError if others need the memory more.
    """
    shared = owner.shared
    if owner not in shared.newcomers:
        return shared.reservations.reserve_head(owner.claim)
    if not shared.unauthenticated.try_carry(owner, size_bytes):
        raise OverloadedError(NO_ROOM)
    return True


def on_processed(owner: LoginOwner) -> None:
    """Count the bytes of a login, or of the head of a first request, no longer."""
    owner.shared.unauthenticated.give_back(owner)
