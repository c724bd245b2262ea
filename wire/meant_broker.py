"""The broker that a client means, as its ApiVersions request says from v5 on (KIP-1242).

- A client names the cluster and the node whose address it has dialled; while it does not know them, neither. A broker
  that is another one answers REBOOTSTRAP_REQUIRED, and INVALID_REQUEST if only one of both is named.
- Kafka's brokers do not compare them before the client has authenticated.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from wire.primitives import (
    INT16,
    INT32,
    Buffer,
    compact_length,
    encode_compact,
    int32_at,
    skip,
    skip_compact,
)

SINCE: Final = 5
"""The first version of ApiVersions that names them."""
NO_NODE: Final = -1
NOBODY: Final = encode_compact(None) + INT32.pack(NO_NODE)
"""The two fields of a client that names neither."""


class MeantBroker(NamedTuple):
    """What a request names, in buf[start:stop]. `cluster_id`: None if it names no cluster."""

    cluster_id: bytes | None
    node_id: int
    start: int
    stop: int

    @property
    def is_nobody(self) -> bool:
        """Whether the client names neither cluster nor node."""
        return self.cluster_id is None and self.node_id == NO_NODE


def read(buf: Buffer, body_at: int, end: int) -> MeantBroker:
    """Return what the whole body of an ApiVersions v5 names. Raises `WireError` if it is malformed."""
    start = skip_compact(buf, skip_compact(buf, body_at, end), end)  # the client's name and version
    length, at = compact_length(buf, start, end)
    stop = skip(at + max(length, 0), 4, end)
    cluster_id = None if length < 0 else bytes(buf[at : at + length])
    return MeantBroker(cluster_id, int32_at(buf, stop - 4)[0], start, stop)


def without(buf: Buffer, body_at: int, end: int) -> bytes:
    """Return the body of this request with neither. Raises as `read`."""
    meant = read(buf, body_at, end)
    return bytes(buf[body_at : meant.start]) + NOBODY + bytes(buf[meant.stop : end])


def refusal(code: int) -> bytes:
    """Return the body of a v5 reply with this error, which names no API, as that of a broker."""
    return INT16.pack(code) + b"\x01" + bytes(4) + b"\x00"  # no API keys, no throttle time, no tags
