"""A request that names topics by unknown ids: a policy holds it, and Sluice asks the broker for the names."""

from uuid import UUID

from policies.api import FORWARD, TOPIC_NAMES, Forward, Hold, Need, Policy, Reject
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import ApiKey
from wire.errors import ErrorCode
from wire.metadata import NAMES_VERSION, names_request
from wire.schema import make_message

FETCH = api_of(ApiKey.FETCH, 13)
ONE, TWO = UUID(int=7), UUID(int=8)
LATE = Reject(ErrorCode.UNKNOWN_TOPIC_ID)


class Namer(Policy):
    """Holds each request once; remembers which names it saw."""

    needs = Need.TOPICS

    def __init__(self) -> None:
        self.seen: list[list[str | None]] = []

    def on_request(self, request, peer, now_ms) -> Forward | Hold:
        self.seen.append([topic.name for topic in request.topics])
        return Hold(5_000, TOPIC_NAMES, LATE) if len(self.seen) == 1 else FORWARD


def fetch(*ids: UUID) -> bytes:
    """A Fetch v13 of one partition of each topic."""
    item = codec.request_shape(FETCH).item("topics")
    parts = (make_message(item.item("partitions"), 0),)
    topics = tuple(make_message(item, 0, {"topic_id": i, "partitions": parts}) for i in ids)
    body = codec.encode(make_message(codec.request_shape(FETCH), 0, {"topics": topics}))
    return f.request(FETCH.key, FETCH.version, 1, body, tagged=True)


def answer(**names: UUID) -> bytes:
    """The broker's answer with these topics."""
    shape = codec.response_shape(api_of(ApiKey.METADATA, NAMES_VERSION))
    item = shape.item("topics")
    topics = tuple(make_message(item, 0, {"name": n, "topic_id": i}) for n, i in names.items())
    return f.reply(0, codec.encode(make_message(shape, 0, {"topics": topics})), tagged=True)


def test_the_request_is_judged_again_with_the_names() -> None:
    """They come from the broker of the session; the client sees nothing of it, and the request is forwarded whole."""
    policy = Namer()
    wire = Wire(make_engine([policy]))
    wire.client(fetch(ONE, TWO))
    assert wire.to_broker == names_request([ONE.bytes, TWO.bytes])
    wire.broker(answer(one=ONE))
    assert policy.seen == [[None, None], ["one", None]]
    assert wire.to_broker == names_request([ONE.bytes, TWO.bytes]) + fetch(ONE, TWO)
    assert wire.to_client == b""


def test_names_that_are_known_are_not_asked_for() -> None:
    """Only the unknown ids are in the question; each once."""
    policy = Namer()
    wire = Wire(make_engine([policy]))
    wire.engine.rewrites.learn({ONE.bytes: "one"})
    wire.client(fetch(ONE, TWO, TWO))
    assert wire.to_broker == names_request([TWO.bytes])
    wire.broker(answer(two=TWO))
    assert policy.seen[-1] == ["one", "two", "two"]


def test_a_late_answer_changes_no_verdict() -> None:
    """The policy's own verdict for the deadline counts. Its reply keeps its place behind the question."""
    wire = Wire(make_engine([Namer()]))
    wire.client(fetch(ONE))
    wire.engine.advance(wire.now_ms + 5_001)
    wire.give_turns()
    assert wire.to_broker == names_request([ONE.bytes])
    assert wire.to_client == b""
    wire.broker(answer(one=ONE))
    (refused,) = codec.decode_response(FETCH, wire.to_client[9:]).responses
    assert [each.error_code for each in refused.partitions] == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_malformed_answer_ends_the_session() -> None:
    """It is the broker's fault."""
    wire = Wire(make_engine([Namer()]))
    wire.client(fetch(ONE))
    wire.broker(f.reply(0, b"\0\0\0\0\0\x09", tagged=True))
    assert wire.session.ended
