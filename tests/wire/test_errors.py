"""The Kafka error codes that Sluice uses, and the messages of errors."""

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from tests.support.messages.every_case import for_each
from wire.errors import ErrorCode, WireError
from wire.header import client_id_of, response_body_at
from wire.produce_partitions import pack_topics
from wire.topic_names import topic_name
from wire.varint import uvarint


@for_each(ErrorCode)
def test_codes_have_kafkas_numbers_and_names(code: ErrorCode) -> None:
    """Each code agrees with kio's list, generated from Kafka's `Errors`, unless it is newer."""
    assert code > max(KioErrorCode) or KioErrorCode(code).name.upper() == code.name


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: topic_name(b"a\xff"), "topic name is not valid UTF-8, at byte 1 of 2"),
        (lambda: uvarint(b"\x80" * 6, 0, 6), "varint has more than 5 bytes, expected 1..5"),
        (lambda: client_id_of(bytes(8), 0, 8), "request of 8 bytes ends inside its client id"),
        (
            lambda: response_body_at(b"xx\0\0\0\x06" + bytes(4) + b"\x01\x00", 2, 12, 1),
            "header has 10 bytes or more, expected 10 at most",
        ),
        (
            lambda: pack_topics(
                bytes.fromhex("00000001 0000 00000001 00000005 00000009"), 0, 18, 3
            ),
            "partition 5 ends 9 bytes beyond its request",
        ),
    ],
)
def test_a_message_has_the_value_and_the_rule(read: Callable[[], object], message: str) -> None:
    """A malformed byte that only a foreign client sends is found from the log alone. It is a ValueError, too."""
    with pytest.raises(ValueError, match=f"^{message}$") as raised:
        read()
    assert isinstance(raised.value, WireError)
