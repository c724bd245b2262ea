"""Mutations of a frame by a broken or hostile peer: lengths, counts, tags, cuts, random bytes, repeated slices."""

import random
import struct
from collections.abc import Callable
from typing import Final

INT32_MAX: Final = 2_147_483_647
_INTEGERS: Final = (-1, 0, 1, INT32_MAX, -INT32_MAX - 1, 65_536, 0x00FF_FFFF, -2, 104_857_600)
_VARINTS: Final = (
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07",
    b"\x80\x80\x80\x80\x80\x01",
    b"\x80\x00",
    b"\xff\x01",
    b"\x00",
    b"\x81\x80\x80\x80\x08",
)
_STRANGE: Final = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",
    b"\x00" * 16,
    b"\xff" * 16,
)
HEAD_BYTES: Final = 12


def refit(frame: bytes) -> bytes:
    """Return the frame with its size field corrected."""
    return struct.pack(">i", len(frame) - 4) + frame[4:]


def mutated(frame: bytes, chance: random.Random, *, head_too: bool = True) -> bytes:
    """Return the frame after one to three mutations; nearly always with its right size, so that its body is read."""
    found = frame
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        change = chance.choice(_CHANGES)
        first = 4 if head_too and chance.random() < 0.2 else min(HEAD_BYTES, len(found))
        found = found[:first] + change(found[first:], chance)
    if len(found) < 4 or (head_too and chance.random() < 0.05):
        return _mis_sized(found, chance)
    return refit(found)


def _mis_sized(frame: bytes, chance: random.Random) -> bytes:
    size = chance.choice((len(frame) - 4 + chance.choice((-1, 1, 2, -4, 400)), *_INTEGERS))
    return struct.pack(">i", max(size, -INT32_MAX - 1)) + frame[4:]


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes((data[at] ^ (1 << chance.randrange(8)),)) + data[at + 1 :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _junk(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.randbytes(chance.choice((1, 2, 4, 40))) + data[at:]


def _behind(data: bytes, chance: random.Random) -> bytes:
    return data + chance.choice((b"\x00", b"\x01\x00\x00", chance.randbytes(5), *_STRANGE))


def _integer(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + struct.pack(">i", chance.choice(_INTEGERS)) + data[at + 4 :]


def _short(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return (
        data[:at]
        + struct.pack(">h", chance.choice((-1, -2, 0, 1, 32_767, -32_768)))
        + data[at + 2 :]
    )


def _varint(data: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + chance.choice(_VARINTS) + data[at + 1 :]


def _twice(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    start = chance.randrange(len(data))
    stop = start + 1 + chance.randrange(min(64, len(data) - start))
    return data[:stop] + data[start:stop] * chance.choice((1, 1, 3, 30)) + data[stop:]


def _without(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    start = chance.randrange(len(data))
    return data[:start] + data[start + 1 + chance.randrange(4) :]


def _strange(data: bytes, chance: random.Random) -> bytes:
    return chance.choice(_STRANGE)


def _many(data: bytes, chance: random.Random) -> bytes:
    """Return sections of one-byte elements, which cost most per byte."""
    return data + chance.choice((b"\x00", b"\x01", b"\x02\x00")) * chance.choice((64, 2000))


_CHANGES: Final[tuple[Callable[[bytes, random.Random], bytes], ...]] = (
    *(_flip, _flip, _cut, _junk, _behind, _integer, _integer, _short, _varint, _varint),
    *(_twice, _without, _strange, _many),
)
