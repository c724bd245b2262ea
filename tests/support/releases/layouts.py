"""Lines of `wire.request_layouts` and `wire.listing_cuts`, made from Kafka's message definitions.

- The notation is explained in both modules. A field's kind follows from its `entityType`, its type and its name; the
  few for which that is not enough are in the tables here.
- The newest definition of a message is enough, because it still says which fields older versions have. Fields of
  versions that the release has removed may be missing: a line is compared in the versions that the release has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tests.support.releases.definitions import FIXED_BYTES, both, text_of
from wire.request_layouts import parts_of, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.releases.definitions import Field, Message
    from wire.apis import Api
    from wire.request_layouts import Part

_PARTITIONS = frozenset(
    {"Index", "Partition", "PartitionId", "PartitionIndex", "PartitionIndexes", "Partitions"}
)
SPECIAL = {
    "ConsumerGroupHeartbeat/SubscribedTopicRegex": "x",
    "Fetch/ReplicaId": "o",
    "Fetch/SessionEpoch": "e",
    "ShareFetch/ShareSessionEpoch": "e",
    "StreamsGroupHeartbeat/Topology/Subtopologies/RepartitionSourceTopics/Name": "w",
    "StreamsGroupHeartbeat/Topology/Subtopologies/SourceTopicRegex": "x",
    "StreamsGroupHeartbeat/Topology/Subtopologies/StateChangelogTopics/Name": "w",
}
_BY_HAND = {
    "FindCoordinatorRequest": "g@0 k@1-3 q@4+",
    "MetadataRequest": "{i@10+ t}!@0 {i@10+ t}?@1+ y@4+ 1@8-10 1@8+",
    "ListConfigResourcesResponse": "4 c {s@0 R@1+}",
}
"""Lines in which a field says what another one names, or a version means another thing: only the fields' types are
compared."""
UNJUDGED = (
    *("ConsumerGroupHeartbeat/TopicPartitions", "CreateTopics/Topics/Assignments"),
    *("DescribeTopicPartitions/Cursor", "DescribeTopicPartitions/NextCursor"),
    *("Fetch/ForgottenTopicsData", "ShareFetch/ForgottenTopicsData"),
)
"""Structs whose topics and partitions a policy is not asked about: their fields are bytes like any other."""
_REFUSES = (
    *(
        "ConsumerGroupDescribe/Groups/Members/Assignment",
        "ShareGroupDescribe/Groups/Members/Assignment",
    ),
    *(
        "ConsumerGroupDescribe/Groups/Members/TargetAssignment",
        "StreamsGroupDescribe/Groups/Topology/",
    ),
)
"""Structs of a described group whose topics refuse the group (`U`)."""
_HIDES = "StreamsGroupDescribe/Groups/TopologyDescription/"
"""The struct that its topics hide (`H`)."""
_REPLY_KINDS = {
    "ConsumerGroupDescribe/Groups/Members/SubscribedTopicNames": "s",
    "CreateTopics/Topics/Name": "T",
    "ShareGroupDescribe/Groups/Members/SubscribedTopicNames": "s",
    "StreamsGroupDescribe/Groups/TopologyDescriptionStatus": "S",
}
"""Fields of replies whose kind follows from no name: those that Kafka does not hide, and others of such structs."""
_NULL_MEANS_UNCHANGED = frozenset(
    {"ConsumerGroupHeartbeat/SubscribedTopicNames", "ShareGroupHeartbeat/SubscribedTopicNames"}
)
_EMPTY_MEANS_ALL = frozenset({"DescribeTopicPartitions/Topics"})
_WIDTHS = {
    **dict.fromkeys("tnwgduxTUH", "s"),
    "i": "16",
    "e": "4",
    "o": "4",
    "O": "4",
    "p": "4",
    "c": "2",
    "y": "1",
    "S": "1",
}
_STRUCTS: dict[str, tuple[object, ...]] = {
    "r": ("1", "s"), "A": ("1", "s"), "R": ("s", "1"), "k": ("s", "1"), "q": ("1", ("[", "", "s")),
    "m": (("{", "", "2", "4", "4", "4", *(("[", "", "4"),) * 3),),
    "K": ("4", "2", ("{", "", "s", "s", "1", "1", "1")), "N": (("(", "", "s", "4"),),
}  # fmt: skip
"""Kinds that stand for several fields."""


class Line(NamedTuple):
    """What stands behind the name of an API in one of the tables."""

    text: str
    made: str
    """From the definition; `text` too, unless that is written by hand."""

    def fits(self, api: Api, parts: tuple[Part, ...]) -> bool:
        """Return whether these parts are what the definition says of this version."""
        made = parts_of(read_table(f"{api.name} {self.made}"), api) or ()
        by_hand = self.text != self.made
        return [*_fields(parts, api, by_hand)] == [*_fields(made, api, by_hand)]


def line_of(message: Message, versions: range) -> Line | None:
    """Return the line of a message that names topics or groups; None if it names none.

    `versions` are those of Sluice's table.
    """
    writer = (_Writer if message.kind == "request" else _ReplyWriter)(message, versions)
    made = " ".join(writer.struct("", message.fields, versions, in_topic=False))
    for mark in "{[<(":
        made = made.replace(f"{mark} ", mark)
    for mark in "}]>)":
        made = made.replace(f" {mark}", mark)
    by_hand = _BY_HAND.get(message.name + message.kind.capitalize())
    return Line(by_hand or made, made) if writer.names_something or by_hand else None


def _fields(parts: tuple[Part, ...], api: Api, by_hand: bool) -> Iterator[Any]:  # noqa: FBT001 - handed down
    """Yield the fields of a layout in a form in which two layouts can be compared."""
    for part in parts:
        if part.kind in {"{", "[", "<", "("}:
            means = "" if by_hand else part.means_all
            yield part.kind, means, *_fields(part.parts, api, by_hand)
        elif part.kind == "a":
            yield from ("1", "s", "1") if api.version >= 1 else ("1", "s")
        elif part.kind in _STRUCTS:
            yield from _STRUCTS[part.kind]
        else:
            yield _WIDTHS.get(part.kind, part.kind) if by_hand or part.kind == "c" else part.kind


class _Writer:
    """Writes the tokens of one message, and notes whether it names a topic or a group."""

    def __init__(self, message: Message, versions: range) -> None:
        self._message = message
        self._versions = versions
        self.names_something = False

    def struct(
        self, path: str, fields: tuple[Field, ...], within: range, *, in_topic: bool
    ) -> Iterator[str]:
        """Yield the tokens of a struct's fields. `in_topic`: it is a topic, or a part of one."""
        in_topic = in_topic or any(_names_topic(each) for each in fields)
        skipped: set[str] = set()
        for field in fields:
            place, versions = path + field.name, both(field.versions, within)
            if not versions or field.tagged or field.name in skipped:
                continue
            suffix = "" if versions == within else f"@{self._text_of(versions)}"
            if (resource := self.resource(field, fields)) is not None:
                kind, skipped = resource
                yield kind + suffix
            elif field.is_array:
                yield from self._array(place, field, versions, suffix, in_topic=in_topic)
            elif field.fields:
                start, end = "()" if field.nullable else "<>"
                yield from (start, *self._inner(place, field, versions, in_topic=in_topic))
                yield end + suffix
            else:
                yield self.kind(place, field, fields, in_topic=in_topic) + suffix

    def _inner(self, place: str, field: Field, versions: range, *, in_topic: bool) -> Iterator[str]:
        return self.struct(f"{place}/", field.fields, versions, in_topic=in_topic)

    def _array(
        self, place: str, field: Field, versions: range, suffix: str, *, in_topic: bool
    ) -> Iterator[str]:
        if field.fields:
            start, end = "{", "}"
            inner = list(self._inner(place, field, versions, in_topic=in_topic))
        else:
            start, end = "[", "]"
            inner = [self.kind(place, field, (), in_topic=in_topic)]
        is_of_topics = any(token.partition("@")[0] in {"t", "i", "w"} for token in inner)
        yield from (start, *inner)
        yield end + (self.means_all(place, field) if is_of_topics else "") + suffix

    def kind(self, place: str, field: Field, siblings: tuple[Field, ...], *, in_topic: bool) -> str:
        """Return the token of a field that is neither a struct nor an array of structs."""
        whole = f"{self._message.name}/{place}"
        width = FIXED_BYTES.get(field.type)
        plain = str(width) if width else "s" if field.type == "string" else "b"
        if whole.startswith(UNJUDGED):
            return plain
        special = SPECIAL.get(whole)
        if field.entity == "transactionalId" and self._message.kind == "request":
            self.names_something = True
            return "u" if field.nullable else "d"
        if special or _names_topic(field) or field.entity == "groupId":
            self.names_something = True
            has_id = any(each.name == "TopicId" for each in siblings)
            name = "n" if field.nullable and not (field.is_array or has_id) else "t"
            return special or ("g" if field.entity == "groupId" else "i" if width else name)
        is_count = field.name == "Partitions" and not field.is_array
        is_partition = in_topic and field.name in _PARTITIONS and width == 4 and not is_count
        return "p" if is_partition else plain

    def means_all(self, place: str, field: Field) -> str:
        """Return the mark of an array of topics that means all topics if it is null, or empty."""
        whole = f"{self._message.name}/{place}"
        if whole in _EMPTY_MEANS_ALL:
            return "!"
        return "?" if field.nullable and whole not in _NULL_MEANS_UNCHANGED else ""

    def resource(self, field: Field, siblings: tuple[Field, ...]) -> tuple[str, set[str]] | None:
        """Return the token of a resource that begins with this field, and the names of its other fields."""
        if not field.name.startswith("ResourceType"):
            return None
        after = siblings[siblings.index(field) :]
        names = {each.name for each in after if each.name.startswith("ResourceName")}
        patterns = {each.name for each in after if "PatternType" in each.name}
        self.names_something |= bool(names)
        if not names:
            return None
        return ("a", names | patterns) if patterns else ("r", names)

    def _text_of(self, versions: range) -> str:
        """Return versions as the tables write them: with a `+` if the newest one is among them."""
        if versions.stop == self._versions.stop:
            return f"{versions.start}+"
        return text_of(versions)


class _ReplyWriter(_Writer):
    """The same of a reply: its partitions and patterns are bytes like any other, and an item has an error code."""

    def kind(self, place: str, field: Field, siblings: tuple[Field, ...], *, in_topic: bool) -> str:
        """Return the token of a field, as for a request."""
        whole = f"{self._message.name}/{place}"
        if field.name == "ErrorCode" and ("/" not in place or any(map(names_item, siblings))):
            return "c"
        if field.name.endswith("AuthorizedOperations"):
            self.names_something = True
            return "O"
        if whole in _REPLY_KINDS:
            return _REPLY_KINDS[whole]
        if field.entity == "transactionalId":
            self.names_something = True
            return "d"
        if field.entity == "topicName" and whole.startswith((*_REFUSES, _HIDES)):
            return "H" if whole.startswith(_HIDES) else "U"
        if field.name == "TopicId" and whole.startswith(_REFUSES):
            return "16"
        kind = super().kind(place, field, siblings, in_topic=in_topic)
        return "4" if kind == "p" else kind

    def means_all(self, place: str, field: Field) -> str:
        """Return no mark: a reply means what it says."""
        return ""

    def resource(self, field: Field, siblings: tuple[Field, ...]) -> tuple[str, set[str]] | None:
        """Return the token of a resource, as for a request."""
        found = super().resource(field, siblings)
        return ("A", {"ResourceName"}) if found and found[0] == "a" else found


def _names_topic(field: Field) -> bool:
    return field.entity == "topicName" or field.name in {"TopicId", "TopicIds"}


def names_item(field: Field) -> bool:
    """Return whether the struct with this field is a topic, a group or a resource."""
    entities = {"groupId", "transactionalId"}
    return _names_topic(field) or field.entity in entities or field.name == "ResourceName"
