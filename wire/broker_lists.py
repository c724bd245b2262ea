"""Broker addresses, rewritten in place: each (node id, host, port) is read, and replaced by what clients may see.

- Only host and port change. Racks, tags and all other bytes of a broker's struct pass as they are.
- A broker without a host (FindCoordinator's "no node") names no broker and is left alone.
- A list is returned as `(parts | None, offset after it)`: None when nothing changed.
- The brokers of a cluster have similar names. So neighbours of the same shape (host and rack of the same size, no
  tags) are taken as one run: their size bytes are compared column by column, and one precompiled struct reads them
  all. A list of 50 brokers takes less than 20 us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from struct import Struct
from typing import Final, Protocol, TypeAlias

from wire.primitives import (
    INT32,
    REPLY_ELEMENT_BUDGET,
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_compact,
    encode_string,
    int32_at,
    skip,
    skip_compact,
    skip_string,
    spend,
    spend_tags,
    string_length,
)

Advertise: TypeAlias = Callable[[int, bytes, int], tuple[bytes, int]]
"""(node_id, real host, real port) -> the host and port that clients see."""

Parts: TypeAlias = list[bytes | bytearray]
"""The pieces that replace a segment, not yet joined."""

_LOOKAHEAD: Final = 64
"""How many neighbours are compared at first: in most clusters all of them."""
_UINT16: Final = Struct(">H")
_BYTE: Final = tuple(bytes((value,)) for value in range(256))


class _Pack(Protocol):
    def __call__(self, node_id: int, host: bytes, port: int, rest: bytes, /) -> bytes: ...


class _IterUnpack(Protocol):
    def __call__(self, buf: Buffer, /) -> Iterator[tuple[int, bytes, int, bytes]]: ...


@lru_cache(maxsize=1024)
def _shape(host_bytes: int, rest_bytes: int) -> _IterUnpack:
    """Return a reader of brokers of one shape: node id, size byte, host, port, and the rest as it is."""
    return Struct(f">ix{host_bytes}si{rest_bytes}s").iter_unpack


@lru_cache(maxsize=1024)
def _packer(host_bytes: int, rest_bytes: int) -> _Pack:
    """Return a writer of one broker; its host comes with its size before it."""
    return Struct(f">i{host_bytes}si{rest_bytes}s").pack


def compact_brokers(
    buf: Buffer,
    start: int,
    end: int,
    extra_bytes: int,
    advertise: Advertise,
    budget: int | None = None,
) -> tuple[Parts | None, int]:
    """Rewrite a compact array of {node id, host, port, rack, `extra_bytes`, tags} at `start`.

    Returns the new parts, or None when nothing changed, and the offset after the array. Serves Metadata v9+,
    DescribeCluster, and NodeEndpoints of Produce, Fetch and the share APIs. `budget` is what an earlier walk has
    left of the reply's element budget; None: no earlier walk.
    """
    count, pos = compact_count(buf, start, end, 11 + extra_bytes)
    budget = spend(REPLY_ELEMENT_BUDGET if budget is None else budget, count)
    lookahead = _LOOKAHEAD
    parts: Parts = [buf[start:pos]]
    add = parts.append
    last, encoded = b"", b"\x01"
    while count > 0:
        host_size = buf[pos + 4] if pos + 4 < end else 0
        rack_at = pos + 8 + host_size
        rack_size = buf[rack_at] if rack_at < end else 0x80
        rest_bytes = (rack_size or 1) + extra_bytes + 1
        after = rack_at + rest_bytes
        if not 1 < host_size < 0x80 or rack_size >= 0x80 or after > end or buf[after - 1]:
            pos, budget = _uncommon_broker(buf, pos, end, extra_bytes, advertise, add, budget)
            count -= 1
            continue
        if count > 1 and after + 4 < end and buf[after + 4] == host_size:
            # A column is one byte of each broker; a run ends before the first that differs. The search goes at
            # most four times as far as the last run reached: otherwise short runs would cost quadratic time.
            stride = after - pos
            looked = run = min(count, (end - pos) // stride, lookahead)
            for at, byte in ((pos + 4, host_size), (rack_at, rack_size), (after - 1, 0)):
                run -= len(buf[at : pos + run * stride : stride].lstrip(_BYTE[byte]))
            after = pos + run * stride
            count -= run
            lookahead = lookahead * 4 if run == looked else _LOOKAHEAD
        else:
            count -= 1
        pack = _packer(len(encoded), rest_bytes)
        shape = _shape(host_size - 1, rest_bytes)
        for node_id, host, port, rest in shape(buf[pos:after]):
            advertised, new_port = advertise(node_id, host, port)
            if advertised is not last:  # once per list: one host for all, a port for each
                last, encoded = advertised, encode_compact(advertised)
                pack = _packer(len(encoded), rest_bytes)
            add(pack(node_id, encoded, new_port, rest))
        pos = after
    if len(parts) > 1 and not buf.startswith(parts[1], start + len(parts[0])):
        return parts, pos  # as `is_unchanged` would find, without the calls
    return _unless_same(buf, start, pos, parts), pos


def _uncommon_broker(
    buf: Buffer,
    pos: int,
    end: int,
    extra_bytes: int,
    advertise: Advertise,
    add: Callable[[bytes | bytearray], None],
    budget: int,
) -> tuple[int, int]:
    """Rewrite one broker of uncommon shape: tagged fields, no host, a host or rack of 127 bytes or more."""
    at = skip(pos, 4, end)
    add(buf[pos:at])
    address, after = compact_address(buf, int32_at(buf, pos)[0], at, end, advertise)
    add(address)
    at = after
    tags_at = skip(skip_compact(buf, at, end), extra_bytes, end)
    after, budget = spend_tags(buf, tags_at, end, budget)
    add(buf[at:after])
    return after, budget


def compact_address(
    buf: Buffer, node_id: int, pos: int, end: int, advertise: Advertise, port_bytes: int = 4
) -> tuple[bytes | bytearray, int]:
    """Return the new bytes of a compact host and its port at `pos`, and the offset after both."""
    length, at = compact_length(buf, pos, end)
    port_at = at + max(length, 0)
    after = skip(port_at, port_bytes, end)
    if length <= 0:
        return buf[pos:after], after
    number = INT32 if port_bytes == 4 else _UINT16  # DescribeQuorum's listeners have uint16
    host, port = advertise(node_id, bytes(buf[at:port_at]), number.unpack_from(buf, port_at)[0])
    return encode_compact(host) + number.pack(port), after


def classic_address(
    buf: Buffer, node_id: int, pos: int, end: int, advertise: Advertise
) -> tuple[bytes | bytearray, int]:
    """Do as `compact_address`, with an int16 length before the host."""
    length, at = string_length(buf, pos, end)
    port_at = at + max(length, 0)
    after = skip(port_at, 4, end)
    if length <= 0:
        return buf[pos:after], after
    host, port = advertise(node_id, bytes(buf[at:port_at]), int32_at(buf, port_at)[0])
    return encode_string(host) + INT32.pack(port), after


def classic_brokers(
    buf: Buffer, start: int, end: int, advertise: Advertise, *, racks: bool
) -> tuple[Parts | None, int]:
    """Rewrite an int32-counted array of {node id, host, port, rack if `racks`}: Metadata v0 to v8.

    Returns the new parts, or None when nothing changed, and the offset after the array.
    """
    count, pos = array_count(buf, start, end, 12 if racks else 10)
    spend(REPLY_ELEMENT_BUDGET, count)
    parts: Parts = [buf[start:pos]]
    for _ in range(count):
        at = skip(pos, 4, end)
        parts.append(buf[pos:at])
        address, pos = classic_address(buf, int32_at(buf, pos)[0], at, end, advertise)
        parts.append(address)
        if racks:
            at, pos = pos, skip_string(buf, pos, end)
            parts.append(buf[at:pos])
    return _unless_same(buf, start, pos, parts), pos


def _unless_same(buf: Buffer, start: int, after: int, parts: Parts) -> Parts | None:
    return None if is_unchanged(buf, start, after, parts) else parts


def is_unchanged(buf: Buffer, start: int, after: int, parts: Parts) -> bool:
    """Return whether `parts` hold the same bytes as `buf[start:after]`; the first address mostly decides."""
    if len(parts) > 1 and not buf.startswith(parts[1], start + len(parts[0])):
        return False
    new = b"".join(parts)
    return len(new) == after - start and buf.startswith(new, start)


def splice(
    buf: Buffer, start: int, end: int, parts: Parts | None, at: int, after: int
) -> bytes | None:
    """Return the body `buf[start:end]` with `parts` in place of `buf[at:after]`; None if `parts` is None."""
    if parts is None:
        return None
    view = memoryview(buf)  # copies the long remainder once, not twice; released with this call
    return b"".join((view[start:at], *parts, view[after:end]))
