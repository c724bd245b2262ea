"""SASL passes through unchanged; the client's principal is read once the broker has authenticated it.

No request after a token begins before the token's reply (the client is muted, UPSTREAM_AUTH), and none before Sluice
knows whether the session is led to the right broker (`route_question`).
"""

from __future__ import annotations

from dataclasses import replace
from sys import intern
from typing import TYPE_CHECKING, Final

from proxy.core.session import mutes
from proxy.core.session.channel import Mute
from proxy.core.session.identity import Identity
from proxy.core.session.plan import MAX_UNAUTHENTICATED_BYTES
from proxy.core.session.route_question import try_ask_route
from wire.apis import ApiKey
from wire.sasl import largest_token_bytes

if TYPE_CHECKING:
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from proxy.core.session.rewrites import Rewrite
    from wire.apis import Api


UNNAMED: Final = frozenset({"none", "unknown"})
"""Values of `Peer.principal_source` of clients whose user has no name."""


class SaslListener:
    """Reads the SASL exchange of one connection. Made when its client begins to authenticate. See `SaslSide`."""

    __slots__ = ("_identity", "_link")

    def __init__(self, link: Link) -> None:
        self._link = link
        shared = link.shared
        self._identity = Identity(shared.oauthbearer_claim, shared.rewrites.token_owners.users)

    @property
    def is_authenticating(self) -> bool:
        """Whether a SASL exchange is under way; until its end only smaller requests are accepted."""
        return self._identity.authenticating

    @property
    def user(self) -> str:
        """Return "": the broker authenticates its users."""
        return ""

    def max_bytes(self, api_key: int, api_name: str) -> int:
        """Allow any request, because the broker judges it. A token may be as large as its mechanism needs."""
        if api_key == ApiKey.SASL_AUTHENTICATE:
            return largest_token_bytes(self._identity.mechanism)
        if api_key == ApiKey.SASL_HANDSHAKE or self._identity.authenticating:
            return MAX_UNAUTHENTICATED_BYTES
        return self._link.shared.request_max_bytes

    def on_sign_on(self, api_key: int) -> None:
        """Note nothing: the broker counts them."""

    def takes(self, exchange: ObservedExchange, body: bytes, now_ms: int) -> bool:
        """Read the body of a SASL request; it is forwarded to the broker."""
        api = exchange.plan.api
        self._identity.on_sasl_request(api.key, api.version, body)
        if api.key == ApiKey.SASL_HANDSHAKE:
            self._link.plans.clear()
        else:
            mutes.mute_after_request(self._link, Mute.UPSTREAM_AUTH)
        return False

    def on_reply(self, api: Api, body: bytes) -> None:
        """Read a SASL reply of the broker. Raises PrincipalChangedError, and WireError if it is malformed."""
        link, identity = self._link, self._identity
        under_way = identity.authenticating
        principal = identity.on_sasl_reply(api.key, api.version, body)
        if principal is not None and (
            principal.source == "sasl" or link.peer.principal_source in UNNAMED
        ):  # a certificate's or a fixed name says more than that the name cannot be read
            user, source, proof = intern(principal.user), principal.source, intern(identity.proof)
            link.become(replace(link.peer, user=user, principal_source=source, proof=proof))
        if not identity.authenticating:  # a refused re-authentication leaves things as they were
            link.shared.auth_failures += under_way and principal is None
            link.shared.newcomers.discard(link)
            link.plans.clear()
        is_in = principal is not None and identity.ends_visibly
        if api.key == ApiKey.SASL_AUTHENTICATE and not (is_in and try_ask_route(link)):
            mutes.unmute(link, Mute.UPSTREAM_AUTH)

    def rewrite_for(self, api: Api) -> Rewrite:
        """Return a rewrite that reads the replies of this API, and changes nothing."""

        def on_reply(buf: bytearray, start: int, end: int) -> None:
            self.on_reply(api, bytes(memoryview(buf)[start:end]))

        return on_reply

    def release(self, now_ms: int) -> None:
        """Do nothing: its requests are in the session's queue."""
