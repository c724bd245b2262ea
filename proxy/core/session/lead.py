"""The first part of the replies of one API version, in which all addresses of brokers stand, and its rewrite.

Rules:
- Each reply lists all brokers of the cluster, which change rarely. So the last list is kept with what was made of it:
  a reply with the same bytes costs one comparison.
- What was made of a list holds until an address is learnt (`Topology.revision`): a broker that has moved and moved back
  must be learnt again.
- A list is rewritten in place: it ends where it ended before, so the rest of the reply, which may be long, stays where
  it is. What comes before the list moves, and the frame begins elsewhere.
- The cluster id follows the list in a Metadata reply. It is learnt, and kept with the list.
- Whatever is unusual is left to the rewrite of whole replies: a header with tags, a list that is incomplete, malformed
  or long, and one for which there is no room.
"""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING, Final

from proxy.core.errors import BrokerProtocolError
from wire.broker_lists import splice
from wire.errors import WireError
from wire.metadata import cluster_id_at

if TYPE_CHECKING:
    from proxy.core.topology import Topology
    from wire.addresses import Advertise, LeadFinder
    from wire.apis import Api

LEFT_ALONE: Final = -1
MAX_KEPT_BYTES: Final = 64 << 10
"""The longest list that is kept: of some thousand brokers."""
_HEADER_BYTES: Final = 8
_SIZE = Struct(">i")
_size_at = _SIZE.unpack_from
_set_size = _SIZE.pack_into


class Lead:
    """Rewrites the first part of the replies of an API version. `find` finds the brokers in their bodies."""

    __slots__ = (
        "_advertise",
        "_api",
        "_body_offset",
        "_find",
        "_kept_offset",
        "_new",
        "_old",
        "_revision",
        "_topology",
    )

    def __init__(
        self, api: Api, find: LeadFinder, advertise: Advertise, topology: Topology
    ) -> None:
        self._api = api
        self._find = find
        self._advertise = advertise
        self._topology = topology
        self._body_offset = _HEADER_BYTES + (1 if api.response_header_version else 0)
        throttle_bytes = 4 if api.throttle_offset == 0 else 0  # it comes first, and changes
        self._kept_offset = self._body_offset + throttle_bytes
        self._old = self._new = b""  # from `_kept_offset` to the end of the list
        self._revision = -1

    def __call__(self, buf: bytearray, start: int, end: int) -> bytes | None:
        """Return the body that begins at `start`, rewritten, or None when it may pass as it is. See `Rewrite`."""
        at, after, new = self._find(buf, start, end, self._advertise)
        with suppress(WireError):  # of a part of the body
            self._learn_cluster(buf, after, end)
        return splice(buf, start, end, new, at, after)

    def in_place(self, buf: bytearray, pos: int, end: int) -> int:
        """Rewrite the reply that begins at `pos`, whole or not; return where it begins now, or LEFT_ALONE.

        Bytes before `pos` may be overwritten. The frame's size is changed, too.
        """
        at = pos + self._kept_offset
        if at > end or (self._body_offset > _HEADER_BYTES and buf[pos + _HEADER_BYTES]):
            return LEFT_ALONE
        if (
            self._revision != self._topology.revision
            or at + len(self._old) > end
            or not buf.startswith(self._old, at)
        ) and not self._learn(buf, pos, end):
            return LEFT_ALONE
        new = self._new
        after = at + len(self._old)
        moved = len(self._old) - len(new)
        if pos + moved < 0:
            return LEFT_ALONE
        if moved:
            buf[pos + moved : at + moved] = buf[pos:at]
            _set_size(buf, pos + moved, _size_at(buf, pos + moved)[0] - moved)
        buf[after - len(new) : after] = new
        return pos + moved

    def _learn(self, buf: bytearray, pos: int, end: int) -> bool:
        """Keep the list of this reply, and what is made of it; return False if it must be left alone."""
        begin = pos + self._kept_offset
        try:
            at, list_end, parts = self._find(buf, pos + self._body_offset, end, self._advertise)
            after = self._learn_cluster(buf, list_end, end)
        except (WireError, BrokerProtocolError):
            return False
        if after - begin > MAX_KEPT_BYTES:
            return False
        self._old = self._new = bytes(memoryview(buf)[begin:after])
        if parts is not None:
            self._new = b"".join((self._old[: at - begin], *parts, self._old[list_end - begin :]))
        self._revision = self._topology.revision
        return True

    def _learn_cluster(self, buf: bytearray, pos: int, end: int) -> int:
        """Learn the cluster id, if it follows the list, which ends at `pos`; return the offset after it.

        Raises WireError if it is cut off.
        """
        found = cluster_id_at(buf, pos, end, self._api)
        if found is None:
            return pos
        cluster_id, after = found
        self._topology.cluster_id = cluster_id or self._topology.cluster_id
        return after
