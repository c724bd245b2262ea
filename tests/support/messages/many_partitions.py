"""Produce requests of several topics and partitions, and their replies; all that varies depends on their number."""

import struct

from tests.support.messages import frames as f
from tests.support.messages.waiting import asked
from wire.primitives import encode_compact, encode_compact_count, encode_count, encode_string

VERSIONS = (3, 9, 12, 13)
OFFSETS = struct.Struct(">ihq")
TIMED_OUT = 7


def topics_of(number: int) -> list[tuple[bytes, list[tuple[int, bytes]]]]:
    """Return (name or id, [(partition, records)]) of the request with this number."""
    name = f"topic-{number % 3}".encode().ljust(16, b"-")  # an id, too
    sizes = (0, 1, 60, 126, 127, 300, 900)
    return [
        (
            name,
            [
                (index, f.records(sizes[(number + each + index) % len(sizes)]))
                for index in range(1 + (number + each) % 5)
            ],
        )
        for each in range(1 + number % 3)
    ]


def produce_many(number: int) -> bytes:
    """A Produce v3 to v13, acks=all."""
    return asked(version_of(number), topics_of(number), number)


def produce_many_reply(
    number: int, throttle_time_ms: int = 0, error: int = 0, offset: int = 17
) -> bytes:
    """The reply to `produce_many`, without tags."""
    version = version_of(number)
    flexible = version >= 9
    counted = encode_compact_count if flexible else encode_count
    spelt = encode_compact if flexible else encode_string
    after = struct.pack(">q", -1) + (struct.pack(">q", -1) + b"\x01\x00\x00") * flexible
    body = counted(len(topics_of(number)))
    for name, partitions in topics_of(number):
        body += (name if version >= 13 else spelt(name)) + counted(len(partitions))
        for index, _ in partitions:
            body += OFFSETS.pack(index, error, offset) + after
        body += b"\x00" * flexible
    body += struct.pack(">i", throttle_time_ms) + b"\x00" * flexible
    return f.reply(number, body, tagged=flexible)


def produce_many_timed_out(number: int, throttle_time_ms: int = 0) -> bytes:
    """The reply that Sluice makes in the broker's place."""
    return produce_many_reply(number, throttle_time_ms, TIMED_OUT, -1)


def version_of(number: int) -> int:
    """Return the version of the request with this number."""
    return VERSIONS[number % len(VERSIONS)]
