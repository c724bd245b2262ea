"""A request is about to be refused in part: Sluice asks the broker which of its topics exist, and answers as Kafka."""

from uuid import UUID

from tests.support.core.access_rules import access
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import Api, ApiKey
from wire.errors import ErrorCode
from wire.metadata import NAMES_VERSION as IDS_ASKED_BY
from wire.metadata import names_request
from wire.schema import make_message
from wire.topic_existence import IDS_VERSION, NAMES_VERSION, existence_request

DELETE, ADD = api_of(ApiKey.DELETE_TOPICS, 6), api_of(ApiKey.ADD_PARTITIONS_TO_TXN, 3)
TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MISSING = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
ONE, TWO = UUID(int=7), UUID(int=8)
RULE = {
    "who": ["ANONYMOUS"],
    "topics": {"seen*": ["describe"], "mine*": ["delete"], "w*": ["write"]},
    "transactions": {"t": ["write"]},
}


def guarded() -> Wire:
    return Wire(make_engine([access({"rules": [RULE]})]))


def deleting(*topics: str | UUID) -> bytes:
    """A DeleteTopics v6 of these names and ids."""
    item = codec.request_shape(DELETE).item("topics")
    values = [
        {"topic_id": each, "name": None} if isinstance(each, UUID) else {"name": each}
        for each in topics
    ]
    named = tuple(make_message(item, 0, each) for each in values)
    body = codec.encode(make_message(codec.request_shape(DELETE), 0, {"topics": named}))
    return f.request(DELETE.key, DELETE.version, 1, body, tagged=True)


def adding(**topics: tuple[int, ...]) -> bytes:
    """An AddPartitionsToTxn v3 of these partitions."""
    shape = codec.request_shape(ADD)
    item = shape.item("v3_and_below_topics")
    named = tuple(make_message(item, 0, {"name": n, "partitions": p}) for n, p in topics.items())
    values = {"v3_and_below_transactional_id": "t", "v3_and_below_topics": named}
    return f.request(
        ADD.key, ADD.version, 1, codec.encode(make_message(shape, 0, values)), tagged=True
    )


def answer(version: int, *topics: dict[str, object], partitions: int = 0) -> bytes:
    """The broker's Metadata with these topics."""
    shape = codec.response_shape(api_of(ApiKey.METADATA, version))
    item = shape.item("topics")
    parts = tuple(make_message(item.item("partitions"), 0) for _ in range(partitions))
    told = tuple(make_message(item, 0, {"partitions": parts, **each}) for each in topics)
    body = codec.encode(make_message(shape, 0, {"topics": told}))
    return f.reply(0, body, tagged=version >= IDS_VERSION)


def told(api: Api, wire: Wire) -> object:
    return codec.decode_response(api, wire.to_client[9:])


def deleted(wire: Wire) -> dict[str | UUID | None, int]:
    """The codes by name or id that the client reads."""
    return {each.name or each.topic_id: each.error_code for each in told(DELETE, wire).responses}


def test_the_rest_of_a_request_passes_after_the_question() -> None:
    """The client gets one reply, in which the missing topic is missing, and sees nothing of the question."""
    wire = guarded()
    wire.client(deleting("seen1", "mine", "hidden", "seen2"))
    asked = existence_request(["seen1", "seen2"], with_ids=False)
    assert wire.to_broker == asked
    wire.broker(answer(NAMES_VERSION, {"name": "seen1"}, {"name": "seen2", "error_code": MISSING}))
    assert wire.to_broker == asked + deleting("mine")
    assert wire.to_client == b""
    shape = codec.response_shape(DELETE)
    mine = make_message(shape.item("responses"), 0, {"name": "mine"})
    body = codec.encode(make_message(shape, 0, {"responses": (mine,)}))
    wire.broker(f.reply(1, body, tagged=True))
    assert deleted(wire) == {"seen1": TOPIC, "seen2": MISSING, "hidden": TOPIC, "mine": 0}


def test_a_name_is_asked_for_before_it_is_asked_whether_it_exists() -> None:
    """The second question is put when the first is answered: the id had a topic, and the other has none."""
    wire = guarded()
    wire.client(deleting(ONE, TWO))
    names = names_request([ONE.bytes, TWO.bytes])
    assert wire.to_broker == names
    wire.broker(answer(IDS_ASKED_BY, {"name": "hidden", "topic_id": ONE}))
    assert wire.to_broker == names + existence_request(["hidden"], with_ids=True)
    wire.broker(answer(IDS_VERSION, {"name": "hidden", "topic_id": ONE}))
    assert deleted(wire) == {ONE: TOPIC, TWO: ErrorCode.UNKNOWN_TOPIC_ID}


def test_an_id_that_has_gone_is_unknown() -> None:
    """Sluice remembers its name from before, which another topic has now, or none; names beside it stay forbidden."""
    wire = guarded()
    wire.engine.rewrites.learn({ONE.bytes: "hidden", TWO.bytes: "seen"})
    wire.client(deleting(ONE, TWO, "hidden", "seen"))
    assert wire.to_broker == existence_request(["hidden", "seen"], with_ids=True)
    gone = {"name": "hidden", "error_code": MISSING}
    again = {"name": "seen", "topic_id": UUID(int=9)}
    wire.broker(answer(IDS_VERSION, gone, again))
    unknown = dict.fromkeys((ONE, TWO), ErrorCode.UNKNOWN_TOPIC_ID)
    assert deleted(wire) == unknown | {"hidden": TOPIC, "seen": TOPIC}


def test_missing_partitions_are_told_beside_a_refused_topic() -> None:
    """All others are not attempted, and the broker sees nothing of the request."""
    wire = guarded()
    wire.client(adding(w=(0, 1), no=(0,), w2=(0,)))
    asked = existence_request(["w", "w2"], with_ids=False)
    assert wire.to_broker == asked
    missing = {"name": "w2", "error_code": MISSING, "partitions": ()}
    wire.broker(answer(NAMES_VERSION, {"name": "w"}, missing, partitions=1))
    assert wire.to_broker == asked
    codes = {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in told(ADD, wire).results_by_topic_v3_and_below
        for each in topic.results_by_partition
    }
    later = ErrorCode.OPERATION_NOT_ATTEMPTED
    assert codes == {("w", 0): later, ("w", 1): MISSING, ("no", 0): TOPIC, ("w2", 0): MISSING}


def test_without_an_answer_the_refusal_stays() -> None:
    """It is decided at the deadline; a late answer changes nothing. The reply keeps its place behind the question."""
    wire = guarded()
    wire.client(deleting("seen"))
    wire.engine.advance(wire.now_ms + 5_001)
    wire.give_turns()
    assert wire.to_client == b""
    wire.broker(answer(NAMES_VERSION, {"name": "seen", "error_code": MISSING}))
    assert deleted(wire) == {"seen": TOPIC}


def test_many_topics_are_asked_for_at_once() -> None:
    """Those beyond the question's end are refused; the request was judged in turns, and is not judged again."""
    wire = guarded()
    names = [f"seen{number}" for number in range(3_000)]
    wire.client(deleting(*names))
    wire.give_turns()
    assert wire.to_broker == existence_request(names[:1_000], with_ids=False)
    missing = [{"name": name, "error_code": MISSING} for name in names[:1_000]]
    wire.broker(answer(NAMES_VERSION, *missing))
    wire.give_turns()
    meant = dict.fromkeys(names[:1_000], MISSING) | dict.fromkeys(names[1_000:], TOPIC)
    assert deleted(wire) == meant


def test_a_malformed_answer_ends_the_session() -> None:
    """It is the broker's fault."""
    wire = guarded()
    wire.client(deleting("seen"))
    wire.broker(f.reply(0, b"\0\0\0\0\0\0\0\x09"))
    assert wire.session.ended
