"""A client that sends any message, of any user, and returns the decoded reply."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Self

from policies.messages import decode_response, encode, make_request
from tests.support.kafka.sasl_talk import Talk
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from wire.apis import Api, key_named, name_of


def password_of(user: str) -> str:
    """Return the password of a user, at the broker and at Sluice."""
    return f"{user}-secret"


@dataclass(slots=True)
class Speaker:
    """One connection that sends any message and returns the decoded reply."""

    host: str
    port: int
    user: str = ""
    client_id: str = "tests"
    talk: Talk = field(init=False)

    def __post_init__(self) -> None:
        self._connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.talk.socket.close()

    def _connect(self) -> None:
        self.talk = Talk(self.port, self.host)
        if self.user:
            answer = self.talk.plain(f"\0{self.user}\0{password_of(self.user)}".encode())
            assert answer is not None, "the connection was closed at the sign-on"
            assert answer.error_code == 0, answer

    def send(self, api: Api, body: bytes) -> Any:
        """Return the reply to a body; None if the connection was closed: then there is a new one."""
        tagged = api.request_header_version == 2
        frame = f.request(
            *(api.key, api.version, self.talk.next_id(), body),
            client_id=self.client_id,
            tagged=tagged,
        )
        self.talk.send(frame)
        reply = self.talk.receive()
        if reply is None:
            self.talk.socket.close()
            self._connect()
            return None
        return decode_response(api, reply[1:] if api.response_header_version else reply)

    def ask(self, name: str, version: int, **fields: Any) -> Any:
        """Return the reply to a request with these fields."""
        api = api_of(key_named(name), version)
        return self.send(api, encode(make_request(api, fields)))

    def offered(self) -> dict[str, tuple[int, int]]:
        """Return the versions that ApiVersions offers, by name."""
        self.talk.send(f.request(f.API_VERSIONS, 0, self.talk.next_id()))
        reply = self.talk.receive()
        assert reply is not None
        (count,) = struct.unpack_from(">i", reply, 2)
        rows = struct.iter_unpack(">hhh", reply[6 : 6 + 6 * count])
        found = {}
        for key, first, last in rows:
            try:
                found[name_of(key)] = (first, last)
            except LookupError:
                continue
        return found
