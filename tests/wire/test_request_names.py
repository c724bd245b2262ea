"""The topics and groups that a request names, of every API and version."""

from dataclasses import fields
from itertools import product
from uuid import UUID

import pytest

from policies.messages import make_request
from tests.support.messages.every_case import for_each
from tests.support.messages.kafka_messages import api_of, apis_known, messages_of
from tests.support.messages.record_batches import batch
from wire import codec, request_names
from wire.apis import Api, ApiKey
from wire.authorization import checks_of, is_authorized
from wire.errors import BudgetError, WireError
from wire.primitives import INT32
from wire.request_layouts import layout_of, names_anything, parts_of, read_table
from wire.request_names import UNREAD, RequestNames, read_names, reading_names
from wire.topic_refs import TopicRef

HEAD = b"some head "
READ = [api for api in apis_known() if names_anything(api.key) and layout_of(api) is not None]
KNOWN_ID, NAME_OF_IT = UUID(int=7), "seventh"
NAMES = {KNOWN_ID.bytes: NAME_OF_IT}

TOPICS = {"topics", "topic_data", "topic_partitions", "topic_names", "subscribed_topic_names",
          "v3_and_below_topics", "source_topics", "state_changelog_topics", "repartition_sink_topics",
          "repartition_source_topics"}  # fmt: skip
CREATED = {"state_changelog_topics", "repartition_source_topics"}
GROUPS = {"group_id", "groups_names", "group_ids"}
IDS = {"transactional_id", "transactional_ids", "v3_and_below_transactional_id"}
ACTS = {
    ApiKey.INIT_PRODUCER_ID: "idempotent-write", ApiKey.FETCH: "replicate", ApiKey.FIND_COORDINATOR: "replicate",
    ApiKey.DESCRIBE_CONFIGS: "describe-configs", ApiKey.ALTER_CONFIGS: "alter-configs",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "alter-configs",
}  # fmt: skip
"""The acts that a request asks for only by what it says."""
STRUCTS = {"groups", "transactions", "markers", "dirs", "topology", "subtopologies", "nodes",
           "topology_description", "global_stores", "source", "processor"}  # fmt: skip
"""The fields whose structs have topics or groups inside."""


def read(api: Api, body: bytes, budget: int = 20_000) -> RequestNames:
    """Read the names in a whole frame with this body."""
    frame = bytearray(HEAD + body)
    return read_names(api, frame, len(HEAD), len(frame), NAMES, budget)


def topic_of(item: object) -> TopicRef:
    """The topic that an item of a decoded request names."""
    if isinstance(item, str):
        return TopicRef(item, None, ())
    text = next((getattr(item, f) for f in ("name", "topic", "topic_name") if hasattr(item, f)), None)  # fmt: skip
    listed = next((getattr(item, f.name) for f in fields(item) if f.name.startswith("partition")), ())  # type: ignore[arg-type,union-attr] # fmt: skip
    indexes = tuple(
        each
        if isinstance(each, int)
        else getattr(
            each, next(f for f in ("partition_index", "partition", "index") if hasattr(each, f))
        )
        for each in (listed if isinstance(listed, tuple) else ())  # else it says how many
    )
    topic_id = getattr(item, "topic_id", None)
    has_id_only = hasattr(item, "topic_id") and not hasattr(item, "name")
    if topic_id is None and not has_id_only:
        return TopicRef(text, None, indexes)
    raw = bytes(16) if topic_id is None else topic_id.bytes
    return TopicRef(NAMES.get(raw), raw, indexes)


def expected(api: Api, message: object) -> RequestNames:
    """Find the same in the decoded request, by the names of the codec's fields."""
    topics: list[TopicRef] = []
    groups: list[str] = []
    ids: list[str] = []
    created: list[str] = []
    complete = True
    acts = has_pattern = False

    def walk(value: object) -> None:
        nonlocal acts, complete, has_pattern
        for field in fields(value):  # type: ignore[arg-type] # a message
            inner = getattr(value, field.name)
            if field.name in TOPICS and not (
                api.key == ApiKey.CONSUMER_GROUP_HEARTBEAT and field.name == "topic_partitions"
            ):
                asks_all = inner is None and "subscribed" not in field.name
                asks_all |= api.key == ApiKey.DESCRIBE_TOPIC_PARTITIONS and not inner
                asks_all |= api.key == ApiKey.METADATA and not api.version and not inner
                complete = complete and not asks_all
                topics.extend(map(topic_of, inner or ()))
                if field.name in CREATED:
                    created.extend(each.name for each in inner)
            elif field.name in IDS:
                acts = acts or inner is None
                if api.key == ApiKey.PRODUCE and not any(t.partition_data for t in value.topic_data):  # type: ignore[attr-defined] # fmt: skip
                    continue
                ids.extend([inner] if isinstance(inner, str) else inner or ())
            elif field.name in {"replica_id", "replica_state"} and api.key == ApiKey.FETCH:
                acts = acts or getattr(inner, "replica_id", inner) >= 0
            elif field.name in GROUPS or (api.key, field.name) == (ApiKey.DESCRIBE_GROUPS, "groups"):  # fmt: skip
                groups.extend(inner if isinstance(inner, tuple) else [inner or ""])
            elif field.name in STRUCTS:
                for each in inner if isinstance(inner, tuple) else (inner,):
                    if each is not None:
                        walk(each)
            elif field.name == "sink_topic" and inner is not None:
                topics.append(topic_of(inner))
            elif field.name == "source_topic_regex":
                has_pattern = has_pattern or any(inner)
            elif field.name in {"resources", "creations", "filters"}:
                for each in inner:
                    resource(each)
            elif field.name in {"share_session_epoch", "session_epoch"}:
                writes = api.key == ApiKey.SHARE_ACKNOWLEDGE
                complete = complete and (writes or inner <= 0)
            elif field.name == "subscribed_topic_regex":
                has_pattern = bool(inner)
            elif field.name in {"key", "coordinator_keys"}:
                kind = getattr(value, "key_type", 0)
                keys = [inner] if field.name == "key" else inner
                (groups if kind == 0 else ids if kind == 1 else []).extend(keys)
                acts = kind not in {0, 1} and (kind != 2 or api.version >= 6)

    def resource(item: object) -> None:
        nonlocal acts, complete
        by_name = {f.name: getattr(item, f.name) for f in fields(item)}  # type: ignore[arg-type]
        kind = by_name.get("resource_type", by_name.get("resource_type_filter"))
        text = by_name.get("resource_name", by_name.get("resource_name_filter"))
        is_acl = "principal" in by_name or "principal_filter" in by_name
        pattern = by_name.get("resource_pattern_type", by_name.get("pattern_type_filter", 3))
        if is_acl and kind in range(3):
            complete = complete and kind == 2 and pattern == 3 and text not in {None, "", "*"}
        if kind == 2 and (text or not is_acl):
            topics.append(TopicRef(text, None, ()))
        if kind == (3 if is_acl else 32) and (text or not is_acl):
            groups.append(text)
        acts = acts or kind not in {2, 32}

    (resource if api.key == ApiKey.DESCRIBE_ACLS else walk)(message)
    sure = next((check.act for check in checks_of(api) if check.act), "") if is_authorized(api) else ""  # fmt: skip
    told = ACTS.get(ApiKey(api.key), "") if acts and is_authorized(api) else ""
    if api.key in ACTS:
        sure = told
    if api.key == ApiKey.CREATE_TOPICS or (
        api.key == ApiKey.METADATA and getattr(message, "allow_auto_topic_creation", True)
    ):
        created = [topic.name for topic in topics if topic.name is not None and not topic.topic_id]
    return RequestNames(
        tuple(topics),
        tuple(groups),
        complete and not has_pattern,
        tuple(ids),
        (sure,) if sure else (),
        tuple(created),
        has_pattern,
    )


@for_each(READ, examples=12)
def test_the_names_are_those_of_the_decoded_request(api, data):
    """In order, with partitions; an id is resolved, or stands for itself; requests for all topics say so."""
    message = data.draw(messages_of(codec.request_shape(api)))
    assert read(api, codec.encode(message)) == expected(api, message)


@for_each(READ, examples=4)
def test_a_cut_body_is_a_wire_error_and_a_longer_one_is_not(api, data):
    """It may end at any byte. A broker ignores bytes after the last field: librdkafka 2.16 sends some."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    for stop in range(len(body)):
        with pytest.raises(WireError):
            read(api, body[:stop])
    assert read(api, body + b"\x00\xff") == read(api, body)


def test_a_name_that_is_no_text_is_a_wire_error():
    """Two names that a broker reads alike must not differ here."""
    with pytest.raises(WireError):
        read(api_of(ApiKey.METADATA, 1), b"\x00\x00\x00\x01\x00\x01\xff")


def test_a_version_without_a_layout_is_never_complete(monkeypatch):
    """A request that cannot be read must not seem to name nothing."""
    api = api_of(ApiKey.DELETE_GROUPS, 3)
    assert parts_of(read_table("DeleteGroups@0-2 [g]"), api) is None

    monkeypatch.setattr(request_names, "layout_of", lambda _: None)
    monkeypatch.setattr(request_names, "_READERS", {})
    assert read(api, b"anything") == in_turns(api, b"anything") == UNREAD
    assert not UNREAD.topics_complete


def in_turns(api: Api, body: bytes) -> RequestNames:
    """Read the names as `read`, with pauses."""
    frame = HEAD + body
    reading = reading_names(api, frame, len(HEAD), len(frame), NAMES, 20_000)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            return end.value


@for_each(READ, examples=4)
def test_a_request_that_is_read_with_pauses_names_the_same(api, data):
    """Of every API and version: a large request is judged as a small one."""
    body = codec.encode(data.draw(messages_of(codec.request_shape(api))))
    assert in_turns(api, body) == read(api, body)


def test_a_large_request_is_read_with_pauses_to_the_same_end():
    """Names and refusals are those of a small one."""
    api = api_of(ApiKey.METADATA, 1)
    topics = b"".join(b"\x00\x04" + b"%04d" % n for n in range(2000))
    body = b"\x00\x00\x07\xd0" + topics
    assert in_turns(api, body) == read(api, body)
    for bad, match in (
        (body[:-1], "ends inside|beyond|end at"),
        (body[:-1] + b"\xff", "not valid UTF-8"),
    ):
        for reader in (read, in_turns):
            with pytest.raises(WireError, match=match):
                reader(api, bad)
    for stop in range(8):
        with pytest.raises(WireError):
            in_turns(api, body[:stop])


def test_partitions_of_equal_size_are_read_between_their_tags():
    """Without tags they are read in one go."""
    api = api_of(ApiKey.DELETE_RECORDS, 2)
    partitions = [INT32.pack(n) + bytes(8) for n in (5, 7)]
    tagged = b"\x01\x05\x01x"
    for one, two in product((b"\x00", tagged), repeat=2):
        topic = b"\x02a\x03" + partitions[0] + one + partitions[1] + two + tagged
        found = read(api, b"\x03" + topic * 2 + bytes(5)).topics
        assert found == (TopicRef("a", None, (5, 7)),) * 2


def test_an_id_counts_more_than_a_name_and_either_is_the_key():
    """A Metadata that carries both is about the topic of the id; `key` is what a policy uses to deny a topic."""
    api = api_of(ApiKey.METADATA, 12)
    body = b"\x02" + KNOWN_ID.bytes + b"\x06other\x00" + b"\x00\x00\x00"
    assert read(api, body).topics == (TopicRef(NAME_OF_IT, KNOWN_ID.bytes, ()),)

    assert TopicRef("a", None, ()).key == TopicRef("a", b"i" * 16, ()).key == "a"
    assert TopicRef(None, b"i" * 16, ()).key == b"i" * 16


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("version", [17, 18])
def test_a_known_tag_that_lies_about_its_size_is_a_wire_error(version, partitions):
    """A broker reads sixteen bytes of a replica's directory, whatever the size says, and other topics after them."""

    def body(size_bytes: int) -> bytes:
        tags = b"\x01\x00" + bytes([size_bytes]) + bytes(size_bytes)
        one = bytes(32) + tags
        topic = KNOWN_ID.bytes + bytes([partitions + 1]) + partitions * one + b"\x00"
        return bytes(17) + bytes(4) + b"\x02" + topic + b"\x01\x01\x00"

    api = api_of(ApiKey.FETCH, version)
    (topic,) = read(api, body(16)).topics
    assert topic.name == NAME_OF_IT
    for size_bytes in (0, 15, 17, 40):
        with pytest.raises(WireError, match="tag 0"):
            read(api, body(size_bytes))


def fetch_body(api: Api, tags: bytes) -> bytes:
    """A Fetch of nothing with this tag section."""
    return bytes(17) + bytes(4) + b"\x01\x01\x01" + tags


REPLICA, CONSUMER = INT32.pack(5) + bytes(8), INT32.pack(-1) + bytes(8)
REPLICA_FETCH = ("replicate",)


@pytest.mark.parametrize("version", [15, 16, 17, 18])
@pytest.mark.parametrize(
    ("tags", "acts"),
    [
        (b"\x00", ()),
        (b"\x01\x01\x0d" + REPLICA + b"\x00", REPLICA_FETCH),
        (b"\x01\x01\x0d" + CONSUMER + b"\x00", ()),
        (b"\x02\x00\x04\x04abc\x01\x0d" + REPLICA + b"\x00", REPLICA_FETCH),
        (b"\x02\x00\x01\x00\x01\x0d" + REPLICA + b"\x00", REPLICA_FETCH),
        (b"\x02\x01\x0d" + REPLICA + b"\x00\x07\x01x", REPLICA_FETCH),
        (b"\x01\x01\x10" + REPLICA + b"\x01\x05\x01x", REPLICA_FETCH),
        (b"\x01\x81\x00\x8d\x00" + REPLICA + b"\x00", REPLICA_FETCH),
    ],
)
def test_a_replica_of_a_late_fetch_says_so_in_its_last_tags(version, tags, acts):
    """Before v15 it stands first. A cluster's id may come before it, and tags that no broker knows after it."""
    api = api_of(ApiKey.FETCH, version)
    body = fetch_body(api, tags)
    assert read(api, body).acts == in_turns(api, body).acts == acts


@pytest.mark.parametrize(
    "tags",
    [
        b"\x02\x01\x0d"
        + CONSUMER
        + b"\x00\x01\x0d"
        + REPLICA
        + b"\x00",  # twice: the last would count
        b"\x02\x01\x0d" + REPLICA + b"\x00\x00\x01\x00",  # in another order
        b"\x01\x01\x0c" + REPLICA,  # without the tags of its own
        b"\x01\x01\x0e" + REPLICA + b"\x00\x00",  # longer than it is
        b"\x01\x01\x0d" + REPLICA + b"\x01",  # its tags end beyond it
        b"\x01\x01\x03\x00\x00\x05",
        b"\x02\x00\x04abc\x01\x0d" + REPLICA + b"\x00",  # an id whose size is another
        b"\x01\x01\x00",
        b"\x02\x00\x03\x02\x01\x0d\x01\x0d" + REPLICA + b"\x00",  # one inside of the cluster's id
        b"\x02\x00\x01\x09\x01\x0d" + REPLICA + b"\x00",  # an id that reaches over the next tag
        b"\xff\xff\xff\xff\x1f\x01\x0d" + REPLICA + b"\x00",
    ],
)
def test_no_replica_is_hidden_by_tags_that_a_broker_reads_otherwise(tags):
    """A broker reads each known tag by its own length, and the last of two. So both must say the same."""
    api = api_of(ApiKey.FETCH, 15)
    with pytest.raises(WireError):
        read(api, fetch_body(api, tags))


def test_the_tags_of_a_fetch_cost_budget():
    """Those of the replica, too."""
    api = api_of(ApiKey.FETCH, 15)
    inner = b"\x03" + b"".join(bytes([tag, 0]) for tag in range(3))
    body = fetch_body(api, b"\x01\x01" + bytes([12 + len(inner)]) + REPLICA + inner)
    assert read(api, body, budget=4).acts == REPLICA_FETCH
    with pytest.raises(BudgetError):
        read(api, body, budget=3)


@pytest.mark.parametrize(
    ("key_type", "version", "acts"),
    [
        *((1, 4, ()), (2, 5, ()), (2, 6, REPLICA_FETCH)),
        *((3, 6, REPLICA_FETCH), (3, 4, REPLICA_FETCH), (255, 4, REPLICA_FETCH)),
    ],
)
def test_a_coordinator_that_only_brokers_look_for_asks_for_their_right(key_type, version, acts):
    """Of a type that no broker knows, too. A broker refuses a share coordinator itself before v6."""
    api = api_of(ApiKey.FIND_COORDINATOR, version)
    found = read(api, bytes([key_type]) + b"\x02\x02a\x00")
    assert (found.acts, found.groups) == (acts, ())
    assert found.transactional_ids == (("a",) if key_type == 1 else ())


def produce(version: int, transactional_id: str | None, *records: bytes) -> bytes:
    """The body of a Produce with these records, each in a partition of its own."""
    partitions = [{"index": at, "records": each} for at, each in enumerate(records)]
    return codec.encode(
        make_request(
            api_of(ApiKey.PRODUCE, version),
            {
                "transactional_id": transactional_id,
                "topic_data": [{"partition_data": partitions}],
            },
        )
    )


PLAIN = batch(1)
SENT = PLAIN[:22] + bytes([PLAIN[22] | 0x10]) + PLAIN[23:]


@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize(
    ("records", "asks"),
    [
        ((PLAIN,), False),
        ((SENT,), True),
        ((PLAIN, SENT), True),
        ((PLAIN, PLAIN), False),
        ((PLAIN + SENT,), True),  # a broker looks at the first batch, and refuses a second one
        ((PLAIN[:60],), True),
        ((b"",), True),
        ((batch(1, magic=1),), True),
        ((), False),
    ],
)
def test_a_produce_asks_for_its_transactional_id_if_a_batch_is_of_a_transaction(
    version, records, asks
):
    """As a broker does. Records that may be read in two ways count as those of a transaction."""
    api = api_of(ApiKey.PRODUCE, version)
    body = produce(version, "x", *records)
    assert read(api, body).transactional_ids == (("x",) if asks else ())
    assert in_turns(api, body) == read(api, body) == read(api, body)  # the second time by its bytes
    assert read(api, produce(version, None, *records)).transactional_ids == ()
