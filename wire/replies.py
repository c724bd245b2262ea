"""Error replies: a refusal in the shape that each API has for it.

- They follow Kafka's `AbstractRequest.getErrorResponse`: the code goes to the top-level error_code if there is one,
  and to each item of the request, echoed, if the response answers items. Two differ, because clients do not report
  what they read there:
  - Fetch: at its partitions alone. A consumer takes a code at the top for its session's, and tries without end. An
    incremental request does not name all partitions, so it is answered as one whose session is gone: the client names
    them all in its next request.
  - Metadata: at its topics alone, beside the brokers. A client without brokers cannot ask any other API.
- One table says which request array feeds which response array. The rest follows from the schema: fields that name an
  item are copied, error codes are set, all other fields hold zero values. By the same table a request is divided
  (`wire.request_parts`), and the items that are refused are added to the reply (`wire.reply_joins`).
- A request that asks for everything by naming nothing (Metadata of all topics, for example) has no item to carry the
  code. Below the version with a top-level code its reply is empty, as Kafka's is.
- An API or version that the codec does not know has no reply: `WireError`, and the caller closes the connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from wire import codec
from wire.apis import Api, ApiKey, key_named
from wire.errors import ErrorCode
from wire.schema import Shape, make_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_REFUSED_ELEMENTS: Final = 1_000
"""Array elements of a request that is answered item by item in one step; each costs about 10 us. One with more is
answered in several (`wire.large_refusals`), because a refusal must not block the event loop."""


@dataclass(frozen=True, slots=True)
class Echo:
    """One request array and the response array that answers it, item by item."""

    asked: tuple[str, ...]
    """Field names that lead to the array; several names mean an array in each item of an array. No name: the response
    has one item that answers no item."""
    answered: str
    renamed: tuple[tuple[str, str], ...]
    """(request field, response field); "*" is an item that is itself a number or a string."""
    inner: Echo | None
    is_partial: bool
    """Whether only a refusal of some items names them: that of the whole leaves the array empty."""


def _echo(text: str) -> Echo:
    """Parse `asked > answered (field=field)`; after a slash the same for the items' own array."""
    outer, _, inner = " ".join(text.split()).partition(" / ")
    is_partial, outer = outer.startswith("~"), outer.lstrip("~")
    arrays, _, renames = outer.partition(" (")
    asked, _, answered = arrays.partition(">")
    pairs = tuple(
        (left, right)
        for left, _, right in (each.partition("=") for each in renames.rstrip(")").split())
    )
    path = tuple(asked.strip().split(".")) if asked.strip() else ()
    return Echo(path, answered.strip(), pairs, _echo(inner) if inner else None, is_partial)


_TABLE: Final = """
Produce                   topic_data > responses / partition_data > partition_responses
Fetch                     topics > responses / partitions > partitions (partition=partition_index)
ListOffsets               topics > topics / partitions > partitions
Metadata                  topics > topics
OffsetCommit              topics > topics / partitions > partitions
OffsetFetch <2            topics > topics / partition_indexes > partitions (*=partition_index)
OffsetFetch <8            ~topics > topics / partition_indexes > partitions (*=partition_index)
OffsetFetch               groups > groups / ~topics > topics \
                          / partition_indexes > partitions (*=partition_index)
FindCoordinator           coordinator_keys > coordinators (*=key)
DescribeGroups            groups > groups (*=group_id)
CreateTopics              topics > topics
DeleteTopics <6           topic_names > responses (*=name)
DeleteTopics              topics > responses
DeleteRecords             topics > topics / partitions > partitions
OffsetForLeaderEpoch      topics > topics / partitions > partitions
AddPartitionsToTxn        v3_and_below_topics > results_by_topic_v3_and_below \
                          / partitions > results_by_partition (*=partition_index)
WriteTxnMarkers           markers > markers / topics > topics \
                          / partition_indexes > partitions (*=partition_index)
TxnOffsetCommit           topics > topics / partitions > partitions
CreateAcls                creations > results
DeleteAcls                filters > filter_results
DescribeConfigs           resources > results
AlterConfigs              resources > responses
AlterReplicaLogDirs       dirs.topics > results (name=topic_name) \
                          / partitions > partitions (*=partition_index)
DescribeLogDirs <3        > results
CreatePartitions          topics > results
DeleteGroups              groups_names > results (*=group_id)
OffsetDelete              ~topics > topics / partitions > partitions
ElectLeaders              topic_partitions > replica_election_results \
                          / partitions > partition_result (*=partition_id)
IncrementalAlterConfigs   resources > responses
AlterPartitionReassignments topics > responses / partitions > partitions
AlterClientQuotas         entries > entries / entity > entity
AlterUserScramCredentials deletions > results (name=user)
AlterUserScramCredentials upsertions > results (name=user)
DescribeProducers         topics > topics / partition_indexes > partitions (*=partition_index)
DescribeTransactions      transactional_ids > transaction_states (*=transactional_id)
ConsumerGroupDescribe     group_ids > groups (*=group_id)
DescribeTopicPartitions   topics > topics
ShareGroupDescribe        group_ids > groups (*=group_id)
StreamsGroupDescribe      group_ids > groups (*=group_id)
ShareFetch                ~topics > responses / partitions > partitions
ShareAcknowledge          ~topics > responses / partitions > partitions
DescribeShareGroupOffsets groups > groups / ~topics > topics \
                          / partitions > partitions (*=partition_index)
AlterShareGroupOffsets    ~topics > responses / partitions > partitions
DeleteShareGroupOffsets   ~topics > responses
"""
"""API (below the version), request array > response array, and the arrays of their items after a slash. `~`: a refusal
of the whole does not name the items.
DescribeLogDirs below v3 can hold the code only in an item that answers nothing; Kafka sends an empty list there, which
clients read as success."""

_SESSION_CODES: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Codes that are about a fetch session: they stand at the top."""

_ECHOES: Final[dict[int, list[tuple[int | None, Echo]]]] = {}


_ACKNOWLEDGED: Final = "acknowledge_error_code"
"""Of a ShareFetch: it stands beside the other code if the client has acknowledged records of the partition."""

_NAMING: Final = frozenset(
    {
        "entity_name",
        "entity_type",
        "group_id",
        "index",
        "name",
        "partition",
        "partition_index",
        "producer_id",
        "resource_name",
        "resource_type",
        "topic",
        "topic_id",
        "topic_name",
        "transactional_id",
    }
)
"""Fields that say which item is answered: they are copied. Other fields with equal names (a timestamp, an epoch) have
different meanings in request and response."""


_REFUSED_VALUES: Final[Mapping[int, Mapping[str, object]]] = {
    ApiKey.DESCRIBE_CLIENT_QUOTAS: {"entries": None},
    ApiKey.STREAMS_GROUP_HEARTBEAT: {
        "status": (),
        "active_tasks": None,
        "standby_tasks": None,
        "warmup_tasks": None,
        "partitions_by_user_endpoint": None,
    },
}
"""Lists of a refusal that Kafka leaves null, or empty where they may be null."""


def _read_table() -> None:
    for line in _TABLE.strip().splitlines():
        name, _, text = line.partition(" ")
        text = text.strip()
        below = None
        if text.startswith("<"):
            limit, _, text = text.partition(" ")
            below = int(limit[1:])
        _ECHOES.setdefault(key_named(name), []).append((below, _echo(text)))


_read_table()


def error_body(
    api: Api,
    request_body: bytes,
    code: int,
    message: str | None = None,
    brokers: Iterable[tuple[int, str, int]] = (),
) -> bytes:
    """Return the response body that refuses a request with `code`, in the shape of its API and version.

    `brokers` (node id, host, port) are those that a Metadata response names. `message` becomes the `error_message`
    beside each code, in the APIs and versions that have one. Raises `WireError` if the codec does not know the version
    or the request is malformed. The acks of a Produce are ignored: the caller must not send a reply for acks=0.
    """
    shape = codec.response_shape(api)
    values: dict[str, object] = {}
    top = code
    if api.key == ApiKey.FETCH and code not in _SESSION_CODES:
        head = codec.decode_request(api, request_body, MAX_REFUSED_ELEMENTS)
        if getattr(head, "session_id", 0) and getattr(head, "session_epoch", 0) > 0:
            return codec.encode(make_message(shape, ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
        top = 0
    elif api.key == ApiKey.METADATA and code != ErrorCode.REBOOTSTRAP_REQUIRED:
        values["brokers"] = _brokers(shape, brokers)
        top = 0
    for echo in _echoes(api):
        if echo.is_partial or shape.field(echo.answered) is None:
            continue
        request: object = None
        if echo.asked:
            request = codec.decode_request(api, request_body, MAX_REFUSED_ELEMENTS)
        earlier = values.get(echo.answered, ())
        answers = tuple(
            answer(shape, echo, item, code, message) for item in _items(request, echo.asked)
        )
        if isinstance(earlier, tuple):
            values[echo.answered] = (*earlier, *(each for each in answers if each not in earlier))
    values |= _REFUSED_VALUES.get(api.key, {})
    return codec.encode(make_message(shape, top, values, message))


def empty_body(api: Api, brokers: Iterable[tuple[int, str, int]] = ()) -> bytes:
    """Return the response body without an item and without an error, to which refused items are added.

    `brokers` as in `error_body`. Raises `WireError` if the codec does not know the version.
    """
    shape = codec.response_shape(api)
    values = {"brokers": _brokers(shape, brokers)} if api.key == ApiKey.METADATA else {}
    return codec.encode(make_message(shape, 0, values))


def echo_of(api: Api) -> Echo | None:
    """Return which array of the request, and which one of its reply, hold the items that are refused one by one.

    None if there is none in this version. Raises `WireError` if the codec does not know the version.
    """
    asked, answered = codec.request_shape(api), codec.response_shape(api)
    fitting = [
        each
        for each in _echoes(api)
        if asked.field(each.asked[0] if len(each.asked) == 1 else "")
        and answered.field(each.answered)
    ]
    if len(fitting) != 1:
        return None
    inner = fitting[0].inner
    nested = inner is not None and inner.inner is not None and not inner.is_partial
    return None if nested else fitting[0]


def _echoes(api: Api) -> list[Echo]:
    """Return the lines of the table for this version: the first that ends after it, else all that do not end."""
    lines = _ECHOES.get(api.key, ())
    older = [echo for below, echo in lines if below is not None and api.version < below]
    return older[:1] or [echo for below, echo in lines if below is None]


def _brokers(shape: Shape, brokers: Iterable[tuple[int, str, int]]) -> tuple[object, ...]:
    named = ({"node_id": node, "host": host, "port": port} for node, host, port in brokers)
    return tuple(make_message(shape.item("brokers"), 0, each) for each in named)


def _items(request: object, path: tuple[str, ...]) -> list[object]:
    items = [request]
    for name in path:
        # A null array asks for everything, and a version without the array names nothing.
        items = [each for item in items for each in getattr(item, name, None) or ()]
    return items


def answer(shape: Shape, echo: Echo, item: object, code: int, message: str | None) -> object:
    """Return the item of a response of this shape that refuses an item of the request."""
    answered = shape.item(echo.answered)
    values: dict[str, object] = {}
    for field in answered.untagged:
        if field.name in _NAMING and hasattr(item, field.name):
            value = getattr(item, field.name)
            if value is not None or field.is_nullable or field.kafka_type == "uuid":
                values[field.name] = value
        elif field.name == _ACKNOWLEDGED and getattr(item, "acknowledgement_batches", None):
            values[field.name] = code
    for asked, named in echo.renamed:
        values[named] = item if asked == "*" else getattr(item, asked)
    inner = echo.inner
    if inner is not None and not inner.is_partial:
        values[inner.answered] = tuple(
            answer(answered, inner, each, code, message) for each in _items(item, inner.asked)
        )
    return make_message(answered, code, values, message)
