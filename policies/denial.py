"""Deny: the verdict that refuses some topics or partitions of a request, and lets the others pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from wire.errors import ErrorCode

if TYPE_CHECKING:
    from wire.topic_refs import TopicRef

TopicKey: TypeAlias = "str | bytes"
"""The name of a topic, or the 16 bytes of its id: `TopicRef.key`."""

MAX_MESSAGE_CHARS: Final = 250
"""A reply repeats the message of a refusal for each item of the request."""
_CODES: Final = frozenset(map(int, ErrorCode)) - {int(ErrorCode.NONE)}


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse these topics or partitions with these error codes; the others reach the broker. The chain continues.

    The client gets one reply for all of them. Produce, Fetch, Metadata, CreateTopics, DeleteTopics and OffsetCommit can
    be divided; of any other API, and if no item is left, the whole request is refused. With acks=0 the connection ends
    after the rest is sent. It needs Need.TOPICS. Raises TypeError for a code that is not one of Kafka's, and for a
    message of more than 250 characters.
    """

    codes: Mapping[TopicKey | tuple[TopicKey, int], int]
    """Error code by topic, or by (topic, partition)."""
    message: str = field(default="", compare=False)
    """The reason in a few words, as `Reject.message`."""
    policy: str = field(default="", compare=False)
    """The entry's name; the chain sets it."""

    def __post_init__(self) -> None:
        codes: object = self.codes
        if not isinstance(codes, Mapping):
            raise TypeError(f"Deny.codes is a {type(codes).__name__}, expected a mapping")
        for key, code in codes.items():
            topic = key[0] if isinstance(key, tuple) and len(key) == 2 else key
            if not isinstance(topic, str | bytes):
                words = "expected topics or (topic, partition)"
                raise TypeError(f"a key of Deny.codes has the type {type(topic).__name__}, {words}")
            if not isinstance(code, int) or isinstance(code, bool) or code not in _CODES:
                words = f"expected a code of Kafka's errors, -1 or 1..{max(_CODES)}"
                raise TypeError(f"a code of Deny.codes has the type {type(code).__name__}, {words}")
        if type(self.message) is not str or len(self.message) > MAX_MESSAGE_CHARS:
            raise TypeError(f"Deny.message is not text of {MAX_MESSAGE_CHARS} characters at most")

    def code_of(self, topic: TopicRef, partition: int | None) -> int | None:
        """Return the code with which a partition of a topic (None: the topic) is refused; None if it is not."""
        for key in (topic.name, topic.topic_id):
            if key is not None:
                code = self.codes.get(key)
                if code is None and partition is not None:
                    code = self.codes.get((key, partition))
                if code is not None:
                    return code
        return None
