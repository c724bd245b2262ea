"""A client's SASL requests where it needs none: Sluice authenticates itself to the brokers, and clients to nothing.

They are never forwarded, because they would replace Sluice's own authentication. The replies are those of a Kafka
listener without SASL (Kafka: `KafkaApis.handleSaslHandshakeRequest`, `handleSaslAuthenticateRequest`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.session.local_replies import answer
from wire.api_keys import ApiKey
from wire.errors import ErrorCode
from wire.sasl import UNSAID_TOKEN_BYTES, authenticate_body, handshake_body

if TYPE_CHECKING:
    from proxy.core.session.exchange import ObservedExchange
    from proxy.core.session.link import Link
    from wire.apis import Api

_MESSAGE = "SaslAuthenticate request received after successful authentication"


class SaslRefusal:
    """Refuses each SASL request. See `SaslSide`."""

    __slots__ = ("_link",)

    is_authenticating = False
    user = ""

    def __init__(self, link: Link) -> None:
        self._link = link

    def max_bytes(self, api_key: int, api_name: str) -> int:
        """Allow any request. No token is needed here, so none may be large."""
        if api_key == ApiKey.SASL_AUTHENTICATE:
            return UNSAID_TOKEN_BYTES
        return self._link.shared.request_max_bytes

    def on_sign_on(self, api_key: int) -> None:
        """Note nothing."""

    def takes(self, exchange: ObservedExchange, body: bytes, now_ms: int) -> bool:
        """Answer the request with an error."""
        api, code = exchange.plan.api, ErrorCode.ILLEGAL_SASL_STATE
        if api.key == ApiKey.SASL_HANDSHAKE:
            reply = handshake_body(code)
        else:
            reply = authenticate_body(api.version, error_code=code, message=_MESSAGE)
        answer(self._link, exchange, reply, now_ms)
        return True

    def rewrite_for(self, api: Api) -> None:
        """Return None: no reply comes from the broker."""

    def release(self, now_ms: int) -> None:
        """Do nothing: all is answered at once."""
