"""A consumer's subscription by a pattern, which the broker resolves without these rules (KIP-848).

Rules:
- It selects no topic that begins with `__`, unless the client may describe all of those. Otherwise the client would be
  assigned `__consumer_offsets`, and could neither read it nor give it back.
- A pattern that is not understood is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.access.rights import DESCRIBE
from wire.apis import ApiKey
from wire.authorization import Ask, Operation, ResourceType
from wire.errors import ErrorCode
from wire.topic_patterns import pattern_at, with_pattern, without_internal

if TYPE_CHECKING:
    from policies.access.rights import Subject
    from policies.api import Request

REFUSED: Final = Ask(
    ResourceType.TOPIC, None, Operation.DESCRIBE, ErrorCode.TOPIC_AUTHORIZATION_FAILED
)
WORDS: Final = "the pattern may select topics that begin with __"


def has_pattern(request: Request) -> bool:
    """Return whether a request subscribes to a pattern."""
    return request.api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT and request.has_pattern


def shown_body(request: Request, subject: Subject) -> bytes | None:
    """Return the body of such a request for the broker, the same object if it may stay; None if it is refused."""
    body = request.body or b""
    if subject.internal_topics() & DESCRIBE:
        return body
    pattern, _, _ = pattern_at(body)
    shown = without_internal(pattern)
    if shown is None:
        return None
    return body if shown == pattern else with_pattern(body, shown)
