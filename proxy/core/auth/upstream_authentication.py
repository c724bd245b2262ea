"""Sluice's own authentication on one connection to a broker: SaslHandshake v1, then SaslAuthenticate v1.

Sans-IO, and used twice: by the dialer on a fresh connection (`feed`), and by a session on a live one (`on_reply`).

- `request` is the frame to send now. One request is out at a time, so a second reply is a fault of the broker.
- `work` is a computation of milliseconds: run it in a thread, then call `resume`.
- A reply of more than MAX_REPLY_BYTES is refused before it is read.
- Correlation ids are those that Kafka's Java client reserves for this purpose.

Sources: KIP-43, KIP-152, KIP-368; Kafka's `SaslClientAuthenticator`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from proxy.core.errors import BrokerProtocolError, UpstreamAuthenticationError
from wire import sasl
from wire.errors import ErrorCode, WireError
from wire.primitives import int32_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.mechanisms import SaslClient

MAX_REPLY_BYTES: Final = 65536
MAX_STEPS: Final = 4
"""The most SaslAuthenticate requests in one exchange; the longest (SCRAM) needs two."""
FIRST_CORRELATION_ID: Final = 2**31 - 8
"""Kafka: `SaslClientAuthenticator.MIN_RESERVED_CORRELATION_ID`."""
_HEAD_BYTES: Final = 8
_NAME: Final = re.compile(r"[A-Z0-9_-]{1,20}")
"""The form of a mechanism's name (RFC 4422)."""


class UpstreamAuthentication:
    """One authentication. After a fault it is of no more use.

    `request`: the whole frame to send; None while a reply is awaited. `session_lifetime_ms`: how long it holds; 0: as
    long as the connection.
    """

    def __init__(self, client: SaslClient) -> None:
        self._client = client
        self._received = bytearray()
        self._challenge: bytes | None = None  # of the newest reply, while `work` is done for it
        self._steps = 0
        self.correlation_id = FIRST_CORRELATION_ID
        self.request: bytes | None = sasl.handshake_request(client.mechanism, self.correlation_id)
        self.work: Callable[[], None] | None = None
        self.session_lifetime_ms = 0
        self.done = False

    def take_request(self) -> bytes:
        """Return the request to send; its reply is awaited from now on."""
        request, self.request = self.request, None
        if request is None:
            raise ValueError("no request is due")
        return request

    def feed(self, data: bytes) -> None:
        """Take bytes from a fresh connection. Raises as `on_reply`; BrokerProtocolError if no reply is awaited."""
        received = self._received
        received += data
        if not received:
            return
        if self.request is not None or self.work is not None or self.done:
            raise BrokerProtocolError(f"{len(received)} bytes, but no SASL reply was due")
        if len(received) < 4:
            return
        _check_size(int32_at(received, 0)[0])
        stop = 4 + int32_at(received, 0)[0]
        if len(received) >= stop:
            reply = bytes(received[:stop])
            del received[:stop]
            self.on_reply(reply)
            self.feed(b"")

    def on_reply(self, frame: bytes) -> None:
        """Take a whole reply frame. Raises UpstreamAuthenticationError if the broker refuses or does not know the
        credentials, BrokerProtocolError if the frame is no reply to our request.
        """
        _check_size(len(frame) - 4)
        found_id = int32_at(frame, 4)[0]
        if found_id != self.correlation_id:
            raise BrokerProtocolError(
                f"a SASL reply with correlation id {found_id}, expected {self.correlation_id}"
            )
        try:
            if self._steps == 0:
                self._on_handshake(sasl.handshake_reply(frame[_HEAD_BYTES:]))
            else:
                body = frame[_HEAD_BYTES:]
                self._on_token(sasl.authenticate_reply(body, sasl.REQUEST_VERSION))
        except WireError as error:
            raise BrokerProtocolError(f"a SASL reply is malformed: {error}") from error

    def resume(self) -> None:
        """Continue after `work` was done. Raises UpstreamAuthenticationError."""
        self.work = None
        if self._challenge is not None:
            self._evaluate(self._challenge)

    def _on_handshake(self, reply: sasl.HandshakeReply) -> None:
        name = self._client.mechanism
        if reply.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(filter(_NAME.fullmatch, reply.mechanisms)) or "none"
            raise UpstreamAuthenticationError(
                f"the broker has not enabled {name}; it offers: {offered}"
            )
        if reply.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise UpstreamAuthenticationError("this listener of the broker does not use SASL")
        if reply.error_code:
            raise UpstreamAuthenticationError(f"SaslHandshake error {_error(reply.error_code)}")
        self._send(self._client.first())

    def _on_token(self, reply: sasl.AuthenticateReply) -> None:
        if reply.error_code:
            name, why = self._client.mechanism, self._client.failure or _error(reply.error_code)
            raise UpstreamAuthenticationError(f"the broker refused the {name} credentials ({why})")
        self.session_lifetime_ms = max(reply.session_lifetime_ms, 0)
        self._challenge = reply.auth_bytes
        self.work = self._client.work_for(reply.auth_bytes)
        if self.work is None:
            self._evaluate(reply.auth_bytes)

    def _evaluate(self, challenge: bytes) -> None:
        self._challenge = None
        answer = self._client.evaluate(challenge)
        if answer is None:
            self.done = True
        elif self._steps >= MAX_STEPS:
            raise BrokerProtocolError(f"{self._client.mechanism} does not end")
        else:
            self._send(answer)

    def _send(self, token: bytes) -> None:
        self._steps += 1
        self.correlation_id += 1
        self.request = sasl.authenticate_request(token, self.correlation_id)


def _check_size(size: int) -> None:
    if not 4 <= size <= MAX_REPLY_BYTES:
        raise BrokerProtocolError(f"SASL reply size {size} is outside 4..{MAX_REPLY_BYTES}")


def _error(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
