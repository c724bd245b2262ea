"""What a client sees of a reply, said again over typed messages: `wire.listing_cuts` must leave the same bytes."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace

from wire import codec
from wire.apis import Api, ApiKey
from wire.authorization import Operation, ResourceType
from wire.listing_view import NOT_ASKED, View
from wire.schema import Shape, make_message

REFUSALS = {29, 30, 53, 100}
TOPIC_NAMES = ("name", "topic_name", "topic")
LISTED_TOPICS = {
    *("MetadataResponseTopic", "OffsetFetchResponseTopic", "OffsetFetchResponseTopics"),
    *("DescribeLogDirsTopic", "OngoingTopicReassignment", "TopicData", "TopicPartition"),
    *("DescribeTopicPartitionsResponseTopic", "DescribeShareGroupOffsetsResponseTopic"),
}
"""The classes of topics that are left out if they are hidden."""
LISTED = {*LISTED_TOPICS, "ListedGroup", "DescribeAclsResource", "ConfigResource"}
"""The classes of all items that are left out. That of ListTransactions is one of two with its name."""
ASKED = {
    *("DescribedGroup", "OffsetFetchResponseGroup", "DescribeShareGroupOffsetsResponseGroup"),
    "DescribeConfigsResult",
}
"""The classes of items that are refused instead. That of DescribeTransactions is one of two with its name."""
MAY_HAVE_A_CODE = {
    *("MetadataResponseTopic", "DescribeTopicPartitionsResponseTopic", "OffsetFetchResponseTopic"),
    *("OffsetFetchResponseTopics", "DescribeShareGroupOffsetsResponseTopic"),
}
"""The classes of topics that stay if the reply says that they, or one of their partitions, are refused."""
_KINDS = {2: ResourceType.TOPIC, 32: ResourceType.GROUP}
_ACL_KINDS = {2: ResourceType.TOPIC, 3: ResourceType.GROUP, 5: ResourceType.TRANSACTIONAL_ID}
_CODES = {ResourceType.TOPIC: 29, ResourceType.GROUP: 30, ResourceType.TRANSACTIONAL_ID: 53}
_USES = {
    ApiKey.CONSUMER_GROUP_DESCRIBE: "The group has described topic(s) that the client is not authorized to describe.",
    ApiKey.SHARE_GROUP_DESCRIBE: "The group has described topic(s) that the client is not authorized to describe.",
    ApiKey.STREAMS_GROUP_DESCRIBE: "The described group uses topics that the client is not authorized to describe.",
}


def shown(api: Api, message: object, view: View) -> object:
    """Return the message as the client may see it."""
    return _Shown(api, view).message(message)


class _Shown:
    def __init__(self, api: Api, view: View) -> None:
        self._api = api
        self._view = view
        self._shapes = {shape.type_: shape for shape in _shapes(codec.response_shape(api))}

    def message(self, message: object) -> object:
        """Return the whole reply."""
        found = self._masked(message, None, "", self._view.cluster_mask)
        cursor = getattr(found, "next_cursor", None)
        if cursor is not None and not self._view.shows(cursor.topic_name):
            listed = [each for each in found.topics if each.name is not None and not _code(each)]
            last = max((each.name for each in listed), default=None)
            is_behind = last is not None and last < cursor.topic_name
            after = f"{last}!" if is_behind else self._view.next_topic(cursor.topic_name)
            changed = after and replace(cursor, topic_name=after, partition_index=0)
            found = replace(found, next_cursor=changed)
        return found

    def _value(self, value: object) -> object:
        if isinstance(value, tuple):
            return tuple(each for each in map(self._value, value) if each is not None)
        return self._struct(value) if is_dataclass(value) else value

    def _struct(self, item: object) -> object:
        """Return a struct as it is shown; None if it is left out."""
        name = type(item).__name__
        is_listed = name in LISTED or (name == "TransactionState" and self._lists_transactions)
        is_asked = name in ASKED or (name == "TransactionState" and not self._lists_transactions)
        code = self._hidden(item) if is_listed or is_asked else 0
        if code and is_asked:
            return self._refused(item, code)
        if code:
            by_id = self._view.asks_by_id and name == "MetadataResponseTopic"
            if by_id and self._api.version >= 12:
                return self._made(item, 29, {"name": None, "topic_id": item.topic_id})
            return None
        found = self._masked(item, *self._of_item(item))
        if name == "CreatableTopicResult" and self._api.version >= 5:
            found = self._without_settings(found)
        return self._without_description(found)

    @property
    def _lists_transactions(self) -> bool:
        return self._api.key == ApiKey.LIST_TRANSACTIONS

    def _hidden(self, item: object) -> int:
        """Return the code that refuses an item; 0 if it is shown."""
        name = type(item).__name__
        by_partition = name in MAY_HAVE_A_CODE and "Partitions" not in name
        uses = [each for each in _used_topics(item) if not self._view.shows(each)]
        if name == "DescribedGroup" and uses:
            return 29
        coded = [
            item,
            *(item.partitions if by_partition and name != "MetadataResponseTopic" else ()),
        ]
        if (name in MAY_HAVE_A_CODE | ASKED or name == "TransactionState") and any(
            _code(each) in REFUSALS for each in coded
        ):
            return 0
        kind, named = self._of_item(item)
        if hasattr(item, "topic_id") and named is None:
            found = self._view.name_of(bytes(16) if item.topic_id is None else item.topic_id.bytes)
            is_nameless = any(hasattr(item, each) for each in TOPIC_NAMES)
            if found is None:
                return 0 if is_nameless else 29
            named = found
        if kind is None or named is None:
            return 0
        is_config = name == "DescribeConfigsResult"
        operation = Operation.DESCRIBE_CONFIGS if is_config else Operation.DESCRIBE
        return 0 if self._view.allows(kind, named, operation) else _CODES[kind]

    def _of_item(self, item: object) -> tuple[ResourceType | None, str | None]:
        """Return what an item is about."""
        if hasattr(item, "resource_type"):
            kinds = _ACL_KINDS if hasattr(item, "acls") else _KINDS
            return kinds.get(int(item.resource_type)), item.resource_name
        if hasattr(item, "group_id"):
            return ResourceType.GROUP, item.group_id
        if hasattr(item, "transactional_id"):
            return ResourceType.TRANSACTIONAL_ID, item.transactional_id
        named = (getattr(item, each) for each in TOPIC_NAMES if hasattr(item, each))
        return ResourceType.TOPIC, next(named, None)

    def _refused(self, item: object, code: int) -> object:
        """Return an item with its name, a code, and nothing else."""
        names = ("group_id", "transactional_id", "resource_type", "resource_name")
        kept = {each: getattr(item, each) for each in names if hasattr(item, each)}
        if code == 29 and "group_id" in kept and self._api.key in _USES:
            kept["error_message"] = _USES[ApiKey(self._api.key)]
        null = {"topology", "topology_description"}
        kept |= {each: None for each in null if hasattr(item, each)}
        return self._made(item, code, kept)

    def _made(self, item: object, code: int, kept: dict[str, object]) -> object:
        unknown = {"producer_id", "producer_epoch"}  # not an error reply, but a bare item
        kept = {each: 0 for each in unknown if hasattr(item, each)} | kept
        return make_message(self._shapes[type(item)], code, kept)

    def _masked(
        self, item: object, kind: ResourceType | None, named: str | None, mask: int | None = None
    ) -> object:
        """Return a struct with what is shown of its fields, and its own AuthorizedOperations."""
        changes = {each.name: self._value(getattr(item, each.name)) for each in fields(item)}
        field = next((each for each in changes if each.endswith("authorized_operations")), "")
        if field and kind is not None and self._view.mask is not None:
            mask = 0 if named is None else self._view.mask(kind, named)
        if field and mask is not None and changes[field] != NOT_ASKED:
            changes[field] &= mask
        return replace(item, **changes)

    def _without_settings(self, item: object) -> object:
        is_shown = self._view.allows(ResourceType.TOPIC, item.name, Operation.DESCRIBE_CONFIGS)
        if is_shown or _code(item):
            return item
        code = item.topic_config_error_code or type(item.error_code)(29)
        return replace(
            item,
            num_partitions=-1,
            replication_factor=-1,
            configs=(),
            topic_config_error_code=code,
        )

    def _without_description(self, item: object) -> object:
        description = getattr(item, "topology_description", None)
        if description is None or all(map(self._view.shows, _described(description))):
            return item
        return replace(item, topology_description=None, topology_description_status=2)


def _code(item: object) -> int:
    return int(getattr(item, "error_code", 0))


def _shapes(shape: Shape) -> Iterator[Shape]:
    yield shape
    for field in (*shape.untagged, *shape.tagged.values()):
        if field.shape is not None:
            yield from _shapes(field.shape)


def _used_topics(group: object) -> Iterator[str]:
    """Yield the topics for which Kafka refuses a described group."""
    for member in getattr(group, "members", ()):
        for assignment in ("assignment", "target_assignment"):
            for each in getattr(getattr(member, assignment, None), "topic_partitions", ()):
                yield each.topic_name
    topology = getattr(group, "topology", None)
    for part in (topology and topology.subtopologies) or ():
        yield from (*part.source_topics, *part.repartition_sink_topics)
        for each in (*part.repartition_source_topics, *part.state_changelog_topics):
            yield each.name


def _described(description: object) -> Iterator[str]:
    """Yield the topics of the description of a topology."""
    nodes = [node for part in description.subtopologies for node in part.nodes]
    nodes += [node for each in description.global_stores for node in (each.source, each.processor)]
    for node in nodes:
        yield from node.source_topics
        if node.sink_topic is not None:
            yield node.sink_topic
