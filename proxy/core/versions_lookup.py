"""The ApiVersions of a broker: the question of a client, the answer, and whether it says less than another one."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.errors import BrokerProtocolError
from wire import header, meant_broker, versions
from wire.apis import ApiKey
from wire.errors import ErrorCode, WireError
from wire.metadata import CLIENT_ID
from wire.primitives import encode_compact, encode_count, encode_string

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.core.session.rewrites import Rewrites

MAX_ANSWER_BYTES: Final = 64 << 10
_HEAD: Final = Struct(">ihhi")  # size, api_key, api_version, correlation_id
_FLEXIBLE_SINCE: Final = 3
_REPLY: Final = Struct(">ii")  # size, correlation_id


class VersionsQuestion(NamedTuple):
    """A whole ApiVersions request, of a client or of Sluice itself."""

    frame: bytes
    version: int
    correlation_id: int


class KnownVersions(NamedTuple):
    """A broker's answer: its body without a throttle time, which was for that connection, and the ranges in it."""

    body: bytes
    ranges: Mapping[int, tuple[int, int]]

    @property
    def refusal(self) -> int:
        """Return the error code of a broker that does not answer; 0 also for one that lacks the version."""
        code = int.from_bytes(self.body[:2], "big", signed=True)
        return 0 if code == ErrorCode.UNSUPPORTED_VERSION else code

    def reply_to(self, question: VersionsQuestion) -> bytearray:
        """Return the broker's reply to another client that asks the same."""
        return bytearray(_REPLY.pack(4 + len(self.body), question.correlation_id) + self.body)

    def says_less_than(self, told: KnownVersions, rewrites: Rewrites) -> bool:
        """Return whether a client that was told something else may use a version that this broker does not support."""
        for api_key, (lowest, highest) in told.ranges.items():
            ours = rewrites.offered.get(api_key)
            if ours is None or api_key in rewrites.served:
                continue
            has = self.ranges.get(api_key, (0, -1))
            if has[0] > max(lowest, ours[0]) or has[1] < min(highest, ours[1]):
                return True
        return False


def own_question(version: int) -> VersionsQuestion:
    """Return the question that Sluice asks for all clients: no client's name or version can spoil its answer."""
    head = _HEAD.pack(0, ApiKey.API_VERSIONS, version, 0)[4:] + encode_string(CLIENT_ID)
    if version >= _FLEXIBLE_SINCE:
        head += b"\x00" + encode_compact(CLIENT_ID) + encode_compact(b"1")
        head += (meant_broker.NOBODY if version >= meant_broker.SINCE else b"") + b"\x00"
    return VersionsQuestion(encode_count(len(head)) + head, version, 0)


def take_question(received: bytearray) -> VersionsQuestion | None:
    """Remove the first request from the bytes of a client that has not logged in; None if it is not whole.

    It names no broker (KIP-1242): before a login, brokers do not compare that, and Sluice has judged it.
    Raises ValueError for another API: the session lets none pass.
    """
    if len(received) < _HEAD.size:
        return None
    size, api_key, version, correlation_id = _HEAD.unpack_from(received)
    if api_key != ApiKey.API_VERSIONS:
        raise ValueError(f"a request of API {api_key} before the login")
    if len(received) < 4 + size:
        return None
    frame = bytes(received[: 4 + size])
    del received[: 4 + size]
    if version >= meant_broker.SINCE:
        frame = _unnamed(frame)
    return VersionsQuestion(frame, version, correlation_id)


def _unnamed(frame: bytes) -> bytes:
    body_at = header.body_at(frame, 0, len(frame), 2) or len(frame)
    rest = frame[4:body_at] + meant_broker.without(frame, body_at, len(frame))
    return encode_count(len(rest)) + rest


class VersionsLookup:
    """Takes the bytes of a broker's answer. `known` is None until it is whole."""

    def __init__(self, question: VersionsQuestion) -> None:
        self._version = question.version
        self._received = bytearray()
        self.known: KnownVersions | None = None

    def feed(self, data: bytes) -> None:
        """Take bytes from the broker. Raises BrokerProtocolError when they are no valid ApiVersions response."""
        received = self._received
        received += data
        if len(received) < 4:
            return
        size = int.from_bytes(received[:4], "big", signed=True)
        if not 4 <= size <= MAX_ANSWER_BYTES:
            raise BrokerProtocolError(
                f"ApiVersions response size {size} is outside 4..{MAX_ANSWER_BYTES}"
            )
        if len(received) < 4 + size:
            return
        try:
            ranges, body = versions.read(bytes(received[8 : 4 + size]), self._version)
        except WireError as error:
            raise BrokerProtocolError(f"ApiVersions response is malformed: {error}") from error
        self.known = KnownVersions(body, ranges)
