"""Deny: the verdict that refuses a part of what a request asks for, and lets the rest pass."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from wire.authorization import Ask, Operation, ResourceType
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from wire.item_arrays import Item

TopicKey: TypeAlias = "str | bytes"
"""The name of a topic, or the 16 bytes of its id: `TopicRef.key`."""
DenyKey: TypeAlias = "TopicKey | tuple[TopicKey, int] | Ask"
"""A topic, one of its partitions, or one of `request.asks`."""

MAX_MESSAGE_CHARS: Final = 250
"""A reply repeats the message of a refusal for each item of the request."""
_CODES: Final = frozenset(map(int, ErrorCode)) - {int(ErrorCode.NONE)}
_TOPIC: Final = ResourceType.TOPIC
_TOPIC_TYPES: Final = {str, bytes}
_CODE_TYPES: Final = {int, ErrorCode}


@dataclass(frozen=True, slots=True)
class Deny:
    """Refuse these topics, partitions or asks with these codes; the others reach the broker. The chain continues.

    The client gets one reply for all of them, as Kafka's own authorizer would make it (`wire.authorization`): a topic,
    group, transactional id or config resource is refused beside the others by the 30 APIs that answer such items one
    by one; AddPartitionsToTxn then attempts none of them; any other request is refused whole, and so is one of a
    version that the codec does not know. With acks=0 the connection ends after the rest is sent. It needs Need.TOPICS.
    Raises TypeError for a code that is not one of Kafka's, and for a message of more than 250 characters.
    """

    codes: Mapping[DenyKey, int]
    """Error code by topic, by (topic, partition), or by one of `request.asks`."""
    message: str = field(default="", compare=False)
    """The reason in a few words, as `Reject.message`."""
    policy: str = field(default="", compare=False)
    """The entry's name; the chain sets it."""
    asked: frozenset[tuple[ResourceType, Operation]] = field(
        default=frozenset(), init=False, repr=False, compare=False
    )
    """What the asks are about; nothing for topics and partitions."""
    has_partitions: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether single partitions are denied."""
    _items: dict[object, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Code by (kind, name or id), and by (topic, partition); nothing if `codes` has topics alone."""

    def __post_init__(self) -> None:
        codes: object = self.codes
        if not isinstance(codes, Mapping):
            raise TypeError(f"Deny.codes is a {type(codes).__name__}, expected a mapping")
        asked: set[tuple[ResourceType, Operation]] = set()
        has_partitions = False
        # Thousands of topics, which a hostile client may name: they are checked without a look at each.
        is_plain = set(map(type, codes)) <= _TOPIC_TYPES
        is_plain = is_plain and set(map(type, codes.values())) <= _CODE_TYPES
        if is_plain and _CODES.issuperset(codes.values()):
            codes = {}
        for key, code in codes.items():
            if type(key) is Ask:
                asked.add((key.kind, key.operation))
                item: tuple[object, object] = key.kind, key.name
            else:
                is_partition = isinstance(key, tuple) and len(key) == 2
                topic = key[0] if is_partition else key
                if not isinstance(topic, str | bytes):
                    words = "expected topics, (topic, partition) or asks"
                    raise TypeError(
                        f"a key of Deny.codes has the type {type(topic).__name__}, {words}"
                    )
                has_partitions = has_partitions or is_partition
                item = key if is_partition else (_TOPIC, topic)
            if not isinstance(code, int) or isinstance(code, bool) or code not in _CODES:
                words = f"expected a code of Kafka's errors, -1 or 1..{max(_CODES)}"
                raise TypeError(f"a code of Deny.codes has the type {type(code).__name__}, {words}")
            self._items.setdefault(item, code)
        if type(self.message) is not str or len(self.message) > MAX_MESSAGE_CHARS:
            raise TypeError(f"Deny.message is not text of {MAX_MESSAGE_CHARS} characters at most")
        object.__setattr__(self, "asked", frozenset(asked))
        object.__setattr__(self, "has_partitions", has_partitions)

    def named(self, policy: str) -> Deny:
        """Return the same denial as that of this entry. Its keys are not checked again: there may be thousands."""
        if self.policy == policy:
            return self
        found = copy(self)
        object.__setattr__(found, "policy", policy)
        return found

    @property
    def used_codes(self) -> set[int]:
        """Return the codes of all keys."""
        return set(self.codes.values())

    def code_of(self, item: Item, partition: int | None = None) -> int | None:
        """Return the code with which an item of a request, or one of its partitions, is refused; None if it is not.

        Of a topic with both, what is said of the id stands before what is said of the name. A topic without a name and
        an id: all topics, by a pattern.
        """
        kind, name, topic_id = item
        found = self._items
        for key in (topic_id, name):
            if key is not None:
                code = found.get((kind, key))
                if code is None and kind is _TOPIC:
                    code = self.codes.get(key)
                if code is None and partition is not None:
                    code = found.get((key, partition))
                if code is not None:
                    return code
        return found.get((kind, None)) if name is None and topic_id is None else None
