"""Deny: the verdict that refuses some topics, partitions or groups of a request, and lets the others pass."""

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
    """Refuse these topics, partitions or groups with these codes; the others reach the broker. The chain continues.

    The client gets one reply for all of them. Produce, Fetch, Metadata, CreateTopics, DeleteTopics and OffsetCommit can
    be divided by topics. OffsetFetch (v8+), FindCoordinator (v4+), DeleteGroups and all descriptions of groups and of
    their offsets can be divided by groups. A request of any other API, one in which both groups and topics are denied,
    and one of which no item is left, is refused whole. With acks=0 the connection ends after the rest is sent. It needs
    Need.TOPICS. Raises TypeError for a code that is not one of Kafka's, and for a message of more than 250 characters.
    """

    codes: Mapping[TopicKey | tuple[TopicKey, int], int]
    """Error code by topic, or by (topic, partition)."""
    message: str = field(default="", compare=False)
    """The reason in a few words, as `Reject.message`."""
    policy: str = field(default="", compare=False)
    """The entry's name; the chain sets it."""
    groups: Mapping[str, int] = field(default_factory=dict)
    """Error code by group."""

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
        groups: object = self.groups
        if not isinstance(groups, Mapping) or not all(isinstance(key, str) for key in groups):
            raise TypeError("Deny.groups is not a mapping of groups")
        if any(type(code) is bool or code not in _CODES for code in groups.values()):
            raise TypeError("a code of Deny.groups is not one of Kafka's errors")
        if type(self.message) is not str or len(self.message) > MAX_MESSAGE_CHARS:
            raise TypeError(f"Deny.message is not text of {MAX_MESSAGE_CHARS} characters at most")

    @property
    def used_codes(self) -> set[int]:
        """Return the codes of topics, partitions and groups."""
        return {*self.codes.values(), *self.groups.values()}

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
