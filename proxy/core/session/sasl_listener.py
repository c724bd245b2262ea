"""SASL passes through untouched, and is listened to: who the client is, once the broker has agreed.

Nothing after a token is begun before its reply (the client is muted, UPSTREAM_AUTH).
"""

from __future__ import annotations

from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING, Protocol

from proxy.core.session.channel import Mute
from proxy.core.session.identity import Identity
from proxy.core.session.owner import Owner
from wire.apis import ApiKey

if TYPE_CHECKING:
    from policies.api import Peer
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.rewrites import Rewrite
    from wire.apis import Api


class SpeakingOwner(Owner, Protocol):
    """What a listener tells its session: who speaks from now on."""

    def become(self, peer: Peer) -> None: ...


class SaslListener:
    """Listens to one connection. Made when its client begins to authenticate."""

    __slots__ = ("_identity", "_owner")

    def __init__(self, owner: SpeakingOwner) -> None:
        self._owner = owner
        self._identity = Identity()

    @property
    def is_authenticating(self) -> bool:
        """Whether an exchange is under way: smaller requests only, until the broker has agreed."""
        return self._identity.authenticating

    def on_request(self, exchange: ObservedExchange, body: bytes) -> None:
        """A SASL request goes on to the broker, with this body."""
        api = exchange.plan.api
        self._identity.heard_request(api.key, api.version, body)
        if api.key == ApiKey.SASL_HANDSHAKE:
            self._owner.plans.clear()
        else:
            self._owner.mute_after_request(Mute.UPSTREAM_AUTH)

    def on_reply(self, api: Api, body: bytes) -> None:
        """The broker's reply to the oldest of them. Raises PrincipalChangedError, and WireError if it is none."""
        owner, identity = self._owner, self._identity
        under_way = identity.authenticating
        principal = identity.heard_reply(api.key, api.version, body)
        if principal is not None and (
            principal.source == "sasl" or owner.peer.principal_source != "fixed"
        ):  # a fixed name says more than that the name cannot be read
            user, source = intern(principal.user), principal.source
            owner.become(replace(owner.peer, user=user, principal_source=source))
        if not identity.authenticating:  # a refused re-authentication leaves things as they were
            owner.shared.auth_failures += under_way and principal is None
            owner.plans.clear()
        if api.key == ApiKey.SASL_AUTHENTICATE:
            owner.unmute(Mute.UPSTREAM_AUTH)


def listening(listener: SaslListener, api: Api) -> Rewrite:
    """Return what hands the replies of this API to the listener, and changes nothing."""

    def on_reply(buf: bytearray, start: int, end: int) -> None:
        listener.on_reply(api, bytes(memoryview(buf)[start:end]))

    return on_reply
