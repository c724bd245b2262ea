"""Both ends of a connection as the fuzzer plays them: bytes sent, requests due, and replies received.

`Asked` reads requests out of a byte stream as a broker does, `Answered` reads replies as a client does.
"""

import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Final, NamedTuple

from tests.support.faults.stub_broker import ADDRESS
from wire import codec
from wire.apis import BY_KEY_AND_VERSION, Api, ApiKey
from wire.errors import WireError
from wire.primitives import skip_compact, skip_string, skip_tags

OURS: Final = "127.0.0.1"
"""The host that clients are told to dial."""
_HEAD: Final = struct.Struct(">iii")


class Due(NamedTuple):
    """A request that a broker has to answer."""

    api: Api
    correlation_id: int


class Asked:
    """The requests in a stream of bytes to a broker; `due` holds those without a reply."""

    def __init__(self) -> None:
        self.due: deque[Due] = deque()
        self.frames = 0
        self._unread = b""

    def read(self, data: bytes) -> None:
        """Take more bytes of the stream."""
        self._unread += data
        at, end = 0, len(self._unread)
        while end - at >= _HEAD.size:
            size, word, correlation_id = _HEAD.unpack_from(self._unread, at)
            assert size >= 8, f"a request of {size} bytes went to the broker"
            stop = at + 4 + size
            if stop > end:
                break
            api = BY_KEY_AND_VERSION.get(word)
            assert api is not None, f"api {word >> 16} v{word & 0xFFFF} went to the broker"
            self.frames += 1
            if api.key != ApiKey.PRODUCE or not is_silent(self._unread[at:stop], api):
                self.due.append(Due(api, correlation_id))
            at = stop
        self._unread = self._unread[at:]


class Answered:
    """The replies in a stream to a client, checked against the requests that it sent."""

    def __init__(self) -> None:
        self.frames = 0
        self._apis: dict[int, Api | None] = {}
        self._unread = b""

    def sent(self, frame: bytes) -> None:
        """Note a request of the client; two with one correlation id cannot be told apart."""
        if len(frame) >= _HEAD.size:
            _, word, correlation_id = _HEAD.unpack_from(frame)
            known = correlation_id in self._apis
            self._apis[correlation_id] = (
                None if known else BY_KEY_AND_VERSION.get(word & 0xFFFF_FFFF)
            )

    def sent_stream(self, data: bytes) -> None:
        """Note the requests in these frames."""
        at = 0
        while len(data) - at >= _HEAD.size:
            self.sent(data[at:])
            at += 4 + max(0, struct.unpack_from(">i", data, at)[0])

    def read(self, data: bytes) -> None:
        """Take more bytes of the stream; check that none is the broker's address and each host is Sluice's."""
        seen = self._unread[-len(ADDRESS) :] + data
        assert ADDRESS.encode() not in seen, f"the broker's address went to the client: {seen!r}"
        self._unread += data
        at, end = 0, len(self._unread)
        while end - at >= 8:
            size, correlation_id = struct.unpack_from(">ii", self._unread, at)
            stop = at + 4 + size
            if size < 4 or stop > end:
                break
            self.frames += 1
            api = self._apis.get(correlation_id)
            if api is not None and api.carries_addresses:
                check_hosts(api, self._unread[at:stop])
            at = stop
        self._unread = self._unread[at:]


def check_hosts(api: Api, frame: bytes) -> None:
    """Check that every host in this reply is Sluice's or empty."""
    try:
        message = codec.decode_response(api, frame[8 + api.response_header_version :])
    except WireError:
        return  # a body that cannot be decoded gives no client an address
    for struct_ in structs(message):
        host = getattr(struct_, "host", OURS)
        assert host in {OURS, "", None}, f"{api.name} v{api.version} names {host!r}: {frame.hex()}"


def structs(message: object) -> Iterator[object]:
    """Yield the message and every struct in it."""
    if isinstance(message, tuple):
        for item in message:
            yield from structs(item)
    elif is_dataclass(message):
        yield message
        for field in fields(message):
            yield from structs(getattr(message, field.name))


def is_silent(frame: bytes, api: Api) -> bool:
    """Return whether a Produce asks for no reply (acks=0); a malformed one gets a reply."""
    if api.key != ApiKey.PRODUCE:
        return False
    end = len(frame)
    try:
        at = skip_string(frame, 12, end)
        if api.flexible:
            at = skip_compact(frame, skip_tags(frame, at, end), end)
        elif api.version >= 3:
            at = skip_string(frame, at, end)
        return frame[at : at + 2] == b"\x00\x00"
    except WireError:
        return False
