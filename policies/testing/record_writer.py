"""Writes record batches (magic 2), as a producer sends them.

gzip compresses. For snappy, lz4 and zstd the records are stored in the codec's own frame without compression: a broker
and every client read it, and no codec has to be installed.
"""

from __future__ import annotations

import gzip
from struct import Struct
from typing import TYPE_CHECKING, Final

from wire.varint import encode_uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_HEAD: Final = Struct(">qiibI")
_BODY: Final = Struct(">hiqqqhii")
_LEADER_EPOCH: Final = -1
_POLYNOMIAL: Final = 0x82F63B78
_ZSTD_BLOCK_BYTES: Final = 1 << 17
_LZ4_BLOCK_BYTES: Final = 1 << 22
TRANSACTIONAL: Final = 0x10


def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        crc = value
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        table.append(crc)
    return tuple(table)


_CRC_TABLE: Final = _crc_table()


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _little(value: int, size: int) -> bytes:
    return value.to_bytes(size, "little")


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)] or [b""]


def _snappy(data: bytes) -> bytes:
    """Return one block of one literal, in the frame that Java's snappy library adds."""
    block = encode_uvarint(len(data))
    block += b"\xfc" + _little(len(data) - 1, 4) + data if data else b""
    head = b"\x82SNAPPY\x00" + (1).to_bytes(4, "big") * 2
    return head + len(block).to_bytes(4, "big") + block


def _lz4(data: bytes) -> bytes:
    blocks = (_little(len(each) | 1 << 31, 4) + each for each in _pieces(data, _LZ4_BLOCK_BYTES))
    return b"\x04\x22\x4d\x18\x60\x70\x73" + b"".join(blocks) + bytes(4)


def _zstd(data: bytes) -> bytes:
    out = b"\x28\xb5\x2f\xfd\xa0" + _little(len(data), 4)
    blocks = _pieces(data, _ZSTD_BLOCK_BYTES)
    for place, each in enumerate(blocks, 1):
        out += _little(len(each) << 3 | (place == len(blocks)), 3) + each
    return out


_CODECS: Final[Mapping[str, tuple[int, Callable[[bytes], bytes]]]] = {
    "none": (0, bytes),
    "gzip": (1, gzip.compress),
    "snappy": (2, _snappy),
    "lz4": (3, _lz4),
    "zstd": (4, _zstd),
}


def record_batch(
    values: Sequence[bytes],
    *,
    compression: str = "none",
    timestamp_ms: int = 0,
    producer_id: int = -1,
    transactional: bool = False,
) -> bytes:
    """Return one batch with a record without a key for each value, all with this time in ms since the epoch.

    Raises ValueError if `compression` is not `none`, `gzip`, `snappy`, `lz4` or `zstd`.
    """
    if compression not in _CODECS:
        raise ValueError(f"compression is {compression!r}, expected one of {', '.join(_CODECS)}")
    number, compress = _CODECS[compression]
    records = compress(b"".join(_record(place, value) for place, value in enumerate(values)))
    attributes = number | (TRANSACTIONAL if transactional else 0)
    epoch = -1 if producer_id < 0 else 0
    body = _BODY.pack(
        attributes,
        len(values) - 1,
        timestamp_ms,
        timestamp_ms,
        producer_id,
        epoch,
        epoch,
        len(values),
    )
    body += records
    crc = _crc32c(body)
    return _HEAD.pack(0, _HEAD.size - 12 + len(body), _LEADER_EPOCH, 2, crc) + body


def _record(offset: int, value: bytes) -> bytes:
    record = b"\0\0" + _zigzag(offset) + _zigzag(-1) + _zigzag(len(value)) + value + b"\0"
    return _zigzag(len(record)) + record


def _zigzag(value: int) -> bytes:
    return encode_uvarint(value << 1 if value >= 0 else ~value << 1 | 1)
