"""One connection that speaks SASL by hand, and asks the broker for the principal it was given.

Kafka tells a client its own principal in the reply to CreateDelegationToken: `who` returns it, for comparison with
Sluice's.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import Scram
from wire.sasl import AuthenticateReply, authenticate_reply, handshake_error

TIMEOUT_SECONDS: Final = 120
_CREATE_TOKEN: Final = 38


class Token(NamedTuple):
    """A delegation token: its owner and its use."""

    owner: str
    token_id: str
    hmac: bytes


@dataclass(slots=True)
class Talk:
    """A client at `port` of `host`, by TLS with a `context`.

    None as an answer means that the other side has closed the connection.
    """

    port: int
    host: str = "127.0.0.1"
    context: ssl.SSLContext | None = None
    socket: socket.socket = field(init=False)
    _serial: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.socket = socket.create_connection((self.host, self.port), TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self.context is not None:
            self.socket = self.context.wrap_socket(self.socket, server_hostname=self.host)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    @property
    def own_port(self) -> int:
        """Return the local port, by which Sluice knows this client."""
        own: int = self.socket.getsockname()[1]
        return own

    def next_id(self) -> int:
        """Return a new correlation id."""
        self._serial += 1
        return self._serial

    def send(self, data: bytes) -> None:
        """Send it. A connection that is closed shows at the next `receive`."""
        with suppress(ConnectionError):
            self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """Return the next reply without its size and correlation id; ids come in the order of the requests."""
        head = self._exactly(4)
        frame = self._exactly(struct.unpack(">i", head)[0]) if head else None
        return frame[4:] if frame else None

    def handshake(self, mechanism: str) -> int | None:
        """Return the error code of a SaslHandshake."""
        self.send(sasl.handshake(self.next_id(), mechanism))
        body = self.receive()
        return None if body is None else handshake_error(body)

    def token(
        self, token: bytes, version: int = 1, behind: bytes = b""
    ) -> AuthenticateReply | None:
        """Return the broker's answer to a token; `behind` is put after the request's last field."""
        frame = sasl.authenticate(self.next_id(), token, version) + behind
        self.send(struct.pack(">i", len(frame) - 4) + frame[4:])
        return self.answer(version)

    def answer(self, version: int = 1) -> AuthenticateReply | None:
        """Return the next reply, to a SaslAuthenticate."""
        body = self.receive()
        if body is None:
            return None
        return authenticate_reply(body[1:] if version >= 2 else body, version)

    def plain(self, message: bytes) -> AuthenticateReply | None:
        """Do the handshake and send the token of PLAIN."""
        assert self.handshake("PLAIN") == 0
        return self.token(message)

    def scram(self, exchange: Scram) -> AuthenticateReply | None:
        """Do all of SCRAM, as far as the broker allows."""
        assert self.handshake(exchange.mechanism) == 0
        challenge = self.token(exchange.first)
        if challenge is None or challenge.error_code:
            return challenge
        return self.token(exchange.final(challenge.auth_bytes))

    def metadata(self, topics: int = 0) -> bool:
        """Return whether an ordinary request is still answered; `topics` have names of 249 characters."""
        names = b"".join(f.string(f"{number:0>249}") for number in range(topics))
        body = struct.pack(">i", topics) + names if topics else b"\xff\xff\xff\xff"
        self.send(f.request(f.METADATA, 1, self.next_id(), body))
        return self.receive() is not None

    def who(self) -> Token | None:
        """Return the broker's principal for this client, in a new delegation token.

        A client without authentication gets its principal and no token. None means also that the broker waits for
        authentication: it refuses, and closes.
        """
        body = struct.pack(">iq", 0, 60_000)
        self.send(f.request(_CREATE_TOKEN, 1, self.next_id(), body))
        reply = self.receive()
        if reply is None or struct.unpack_from(">h", reply)[0] == sasl.ILLEGAL_STATE:
            return None
        texts, pos = [], 2
        for skipped in (0, 0, 24):  # type and name of the owner; three times of day; the token's id
            pos += skipped
            (length,) = struct.unpack_from(">h", reply, pos)
            texts.append(reply[pos + 2 : pos + 2 + length].decode())
            pos += 2 + length
        (length,) = struct.unpack_from(">i", reply, pos)
        return Token(texts[1], texts[2], reply[pos + 4 : pos + 4 + length])

    def is_closed(self) -> bool:
        """Return whether the other side ends the connection, now or soon."""
        return self.receive() is None

    def _exactly(self, count: int) -> bytes | None:
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionError:
                return None
            if not more:
                return None
            data += more
        return data
