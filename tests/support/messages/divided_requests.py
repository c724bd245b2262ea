"""Requests of the APIs whose items Kafka refuses one by one, and their replies, made from plain names.

The table is written by hand, so that a test does not ask the product which requests can be divided.
"""

from datetime import timedelta
from uuid import UUID

from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import apis_known
from wire import codec
from wire.authorization import Ask, ResourceType, checks_of
from wire.schema import make_message

TOPIC, GROUP, TRANSACTION = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.TRANSACTIONAL_ID,
)
KINDS = {
    "Produce": TOPIC,
    "Fetch": TOPIC,
    "ListOffsets": TOPIC,
    "Metadata": TOPIC,
    "OffsetCommit": TOPIC,
    "OffsetFetch": TOPIC,
    "FindCoordinator": GROUP,
    "DescribeGroups": GROUP,
    "CreateTopics": TOPIC,
    "DeleteTopics": TOPIC,
    "DeleteRecords": TOPIC,
    "OffsetForLeaderEpoch": TOPIC,
    "TxnOffsetCommit": TOPIC,
    "DescribeConfigs": TOPIC,
    "AlterConfigs": TOPIC,
    "CreatePartitions": TOPIC,
    "DeleteGroups": GROUP,
    "IncrementalAlterConfigs": TOPIC,
    "OffsetDelete": TOPIC,
    "DescribeProducers": TOPIC,
    "DescribeTransactions": TRANSACTION,
    "ConsumerGroupDescribe": GROUP,
    "DescribeTopicPartitions": TOPIC,
    "ShareGroupDescribe": GROUP,
    "ShareFetch": TOPIC,
    "ShareAcknowledge": TOPIC,
    "StreamsGroupDescribe": GROUP,
    "DescribeShareGroupOffsets": GROUP,
    "AlterShareGroupOffsets": TOPIC,
    "DeleteShareGroupOffsets": TOPIC,
}
"""The 30 APIs of which Kafka refuses denied items and lets the others pass, and the kind of their items."""
FIRST = {"FindCoordinator": 4}
"""The first version that names several."""
IN_GROUPS = {"OffsetFetch": 8, "DescribeShareGroupOffsets": 0}
"""The first version whose topics stand in groups."""
VERSIONS = [
    api for api in apis_known() if api.name in KINDS and api.version >= FIRST.get(api.name, 0)
]
IDS = {text: UUID(int=number + 1 << 64) for number, text in enumerate(("good", "bad", "worse"))}
_ASKED = (
    "topics", "topic_data", "topic_names", "groups", "groups_names", "group_ids",
    "coordinator_keys", "resources", "transactional_ids",
)  # fmt: skip
_ANSWERED = ("responses", "topics", "results", "groups", "coordinators", "transaction_states")
_NAMES = ("name", "topic", "topic_name", "group_id", "key", "resource_name", "transactional_id")
_PARTITIONS = ("partitions", "partition_data", "partition_indexes", "partition_responses")
_INDEXES = ("index", "partition", "partition_index")


def id_of(name: str) -> UUID:
    """The id of a topic: fixed for the names of IDS, else made of the name."""
    return IDS.get(name) or UUID(bytes=name.encode().rjust(16, b"\1")[-16:])


def kind_of(api) -> ResourceType:
    """The kind of the items in the request's own array."""
    return GROUP if _in_groups(api) else KINDS[api.name]


def ask(api, name, kind=None) -> Ask:
    """What a request of this API asks for about this item."""
    kind = kind or kind_of(api)
    check = next(check for check in checks_of(api) if check.kind is kind)
    return Ask(kind, name, check.operation, check.code)


def request_body(api, items, **fields) -> bytes:
    """A request that names these items, or {item: partitions}; the topics of a group are its "partitions"."""
    shape = codec.request_shape(api)
    field = _field(shape, _ASKED)
    named = items if isinstance(items, dict) else dict.fromkeys(items, (0,))
    values = {field.name: tuple(_item(api, field, *each) for each in named.items())}
    if api.name == "Produce":
        key = "timeout_ms" if shape.field("timeout_ms") else "timeout"
        values |= {"acks": -1, key: timedelta(seconds=30)}
    return codec.encode(make_message(shape, 0, values | fields))


def request(api, items, number=1, **fields) -> bytes:
    """The frame of such a request."""
    made = request_body(api, items, **fields)
    return f.request(api.key, api.version, number, made, tagged=api.flexible)


def reply_body(api, codes, top=0, **fields) -> bytes:
    """A broker's reply with {item: code}, {item: {partition: code}}, or {group: {topic: {partition: code}}}."""
    shape = codec.response_shape(api)
    field = _field(shape, _ANSWERED)
    values = {field.name: tuple(_answer(api, field.shape, *each) for each in codes.items())}
    return codec.encode(make_message(shape, top, values | fields))


def reply(api, codes, number=1, **fields) -> bytes:
    """The frame of such a reply."""
    made = reply_body(api, codes, **fields)
    return f.reply(number, made, tagged=bool(api.response_header_version))


def decoded(api, frame):
    """The message of a reply frame."""
    return codec.decode_response(api, bytes(frame[9 if api.response_header_version else 8 :]))


def codes_in(api, frame) -> list[tuple[object, ...]]:
    """(item, code) or (item, partition, code) of a reply frame, in its order; (group, topic, partition, code)."""
    message = decoded(api, frame)
    return list(_codes(getattr(message, _field(codec.response_shape(api), _ANSWERED).name)))


def named_items(api, message) -> list[tuple[object, object]]:
    """(name, item) of a decoded reply."""
    items = getattr(message, _field(codec.response_shape(api), _ANSWERED).name)
    return [(_name_of(item), item) for item in items]


def leaves(api, items, code) -> list[tuple[object, ...]]:
    """What `codes_in` finds if each of these items has this code."""
    named = items if isinstance(items, dict) else dict.fromkeys(items, (0,))
    if has_partitions(api):
        return [(item, index, int(code)) for item, indexes in named.items() for index in indexes]
    return [(item, int(code)) for item in named]


def has_partitions(api) -> bool:
    """Whether its replies have a code for each partition."""
    shape = _field(codec.response_shape(api), _ANSWERED).shape
    inner = _field(shape, _PARTITIONS)
    return (
        inner is not None
        and inner.shape is not None
        and _code_field(inner.shape) is not None
        and _code_field(shape) is None
    )


def _in_groups(api) -> bool:
    return api.name in IN_GROUPS and api.version >= IN_GROUPS[api.name]


def _field(shape, names):
    return next((found for name in names if (found := shape.field(name))), None)


def _code_field(shape):
    return _field(shape, ("error_code", "partition_error_code"))


def _item(api, field, name, inside):
    shape = field.shape
    if shape is None:
        return name
    values = _named(shape, name)
    if shape.field("resource_type"):
        values["resource_type"] = 32 if name.startswith("group") else 4 if name == "1" else 2
    inner = shape.field("topics") if shape.field("group_id") else _field(shape, _PARTITIONS)
    if inner is None:
        return make_message(shape, 0, values)
    if isinstance(inside, dict):
        values["topics"] = tuple(_item(api, inner, *each) for each in inside.items())
    elif shape.field("group_id"):
        values["topics"] = ()
    elif inner.shape is None:
        values[inner.name] = tuple(inside)
    else:
        index = _field(inner.shape, _INDEXES).name
        more = {"records": f"{name} records".encode()} if inner.shape.field("records") else {}
        values[inner.name] = tuple(
            make_message(inner.shape, 0, {index: each, **more}) for each in inside
        )
    return make_message(shape, 0, values)


def _named(shape, name):
    values = {each: name for each in _NAMES if shape.field(each) and not shape.field("topic_id")}
    if shape.field("topic_id"):
        texts = [each for each in ("name", "topic_name") if shape.field(each)]
        values = {texts[0]: name} if texts else {"topic_id": id_of(name)}
    return values


def _answer(api, shape, name, inside):
    values = _named(shape, name)
    if shape.field("group_id") and shape.field("topics") and isinstance(inside, dict):
        inner = shape.field("topics").shape
        values["topics"] = tuple(_answer(api, inner, *each) for each in inside.items())
        return make_message(shape, 0, values)
    if not isinstance(inside, dict):
        return make_message(shape, inside, values)
    inner = _field(shape, _PARTITIONS)
    index = _field(inner.shape, _INDEXES).name
    values[inner.name] = tuple(
        make_message(inner.shape, code, {index: each}) for each, code in inside.items()
    )
    return make_message(shape, 0, values)


def _name_of(item):
    name = next((n for n in (getattr(item, n, None) for n in _NAMES) if n), None)
    if name is None and hasattr(item, "topic_id"):
        found = (text for text, ident in IDS.items() if ident == item.topic_id)
        return next(found, item.topic_id)
    return name


def _codes(items, *path):
    for each in items:
        name = _name_of(each)
        if name is None:
            name = next(getattr(each, n) for n in _INDEXES if hasattr(each, n))
        code = getattr(each, "error_code", getattr(each, "partition_error_code", None))
        names = ("topics",) if hasattr(each, "group_id") else _PARTITIONS
        inner = next((getattr(each, n) for n in names if hasattr(each, n)), ())
        if code is not None and (code or not inner):  # a group without a code is its topics
            yield (*path, name, int(code))
        if inner and hasattr(inner[0], "__dataclass_fields__"):
            yield from _codes(inner, *path, name)
