"""Requests of thousands of names, the policy that judges them, and their replies."""

import struct

from policies.access.policy import Access
from tests.support.core import access_rules
from tests.support.core.access_rules import access
from tests.support.core.sessions import Wire
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import ApiKey

FEWER = 1_050
"""More names than are judged in one turn."""


def rules(*topics: str) -> Access:
    """Return the policy that allows these patterns."""
    return access(access_rules.rules(*topics))


def names_of(count: int, prefix: str = "t") -> list[str]:
    """Return so many names."""
    return [f"{prefix}-{number}" for number in range(count)]


def answer(wire: Wire, kind: tuple[ApiKey, int]) -> object:
    """Return the only reply that the client has got."""
    (size,) = struct.unpack_from(">i", wire.to_client)
    assert len(wire.to_client) == 4 + size
    return codec._decode(codec.response_shape(api_of(*kind)), wire.to_client[9:], 1 << 20)[0]
