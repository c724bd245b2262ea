"""A request tells its message and its batches while its body is there; a body that cannot be read has its own error."""

import pytest

from policies import messages
from policies.api import (
    FORWARD,
    Forward,
    Need,
    Peer,
    Policy,
    Reject,
    Request,
    UnreadableRequestError,
)
from policies.requests import MAX_MESSAGE_ELEMENTS
from policies.testing import BenchEntry, BenchRequest, PolicyBench, record_batch
from tests.support.messages.kafka_messages import api_of
from wire.apis import Api, ApiKey, find
from wire.errors import ErrorCode

CREATE_TOPICS = api_of(ApiKey.CREATE_TOPICS, 7)


def request(body: bytes | None, api: Api = CREATE_TOPICS) -> BenchRequest:
    """Return a request with this body."""
    return BenchRequest(api, body=body)


def body_of(topics: int) -> bytes:
    """Return a CreateTopics of so many topics."""
    fields = {"topics": [{"name": f"topic-{n}"} for n in range(topics)]}
    return messages.encode(messages.make_request(CREATE_TOPICS, fields))


def test_a_message_is_decoded_once() -> None:
    """Each policy of a chain gets the same object."""
    one = request(body_of(2))
    assert len(messages.structs(one.message, "topics")) == 2
    assert one.message is one.message


def test_without_a_body_there_is_no_message() -> None:
    """The error says what to ask for."""
    one = request(None)
    with pytest.raises(LookupError, match=r"Need\.BODY"):
        assert one.message
    with pytest.raises(LookupError, match=r"Need\.BODY"):
        assert one.batches


def test_a_body_that_cannot_be_decoded_says_why() -> None:
    """The code is the one for the client; Sluice forwards Produce v2, which the codec does not know, all the same."""
    for body in (body_of(2)[:-1], b""):
        with pytest.raises(UnreadableRequestError, match="CreateTopics v7 cannot") as failed:
            assert request(body).message
        assert failed.value.code == ErrorCode.INVALID_REQUEST

    produce = find(ApiKey.PRODUCE, 2)
    assert produce is not None
    with pytest.raises(UnreadableRequestError, match="Produce v2 cannot") as failed:
        assert request(b"", produce).message
    assert failed.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_message_has_a_largest_size() -> None:
    """Decoding must not block the other clients."""
    most = MAX_MESSAGE_ELEMENTS
    assert request(body_of(most)).message
    with pytest.raises(UnreadableRequestError, match="more than 1000 array elements") as failed:
        assert request(body_of(most + 1)).message
    assert failed.value.code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [3, 9, 12, 13])
def test_batches_say_where_they_go(version: int) -> None:
    """By the topic's name, or by its id where the request has no names."""
    api = api_of(ApiKey.PRODUCE, version)
    topic_id = b"t" * 16
    parts = [
        {"index": index, "records": record_batch([b"x"] * count, compression=compression)}
        for index, count, compression in ((0, 2, "none"), (5, 1, "gzip"))
    ]
    topic = {"partition_data": parts}
    named = {"topic_id": topic_id} if version >= 13 else {"name": "orders"}
    body = messages.encode(messages.make_request(api, {"topic_data": [topic | named]}))
    where = topic_id if version >= 13 else "orders"
    batches = request(body, api).batches
    assert [(each.topic, each.partition) for each in batches] == [(where, 0), (where, 5)]
    assert [(each.records, each.compression) for each in batches] == [(2, "none"), (1, "gzip")]
    assert [each.size_bytes for each in batches] == [
        len(record_batch([b"x"] * 2)), len(record_batch([b"x"], compression="gzip")),
    ]  # fmt: skip


def test_other_apis_have_no_batches() -> None:
    """They are not even looked for."""
    assert request(body_of(1)).batches == ()


def test_batches_of_a_cut_body_are_an_invalid_record() -> None:
    """As Kafka says of records that it cannot read."""
    with pytest.raises(UnreadableRequestError) as failed:
        assert request(b"\0", api_of(ApiKey.PRODUCE, 9)).batches
    assert failed.value.code == ErrorCode.INVALID_RECORD


class Reader(Policy):
    """Reads the message of each request."""

    Config = dict
    apis = frozenset({ApiKey.CREATE_TOPICS})
    needs = Need.BODY

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        """Read it."""
        assert request.message
        return FORWARD


@pytest.mark.parametrize("then", [(), (BenchEntry(Reader, {}, "second"),)])
def test_a_body_that_cannot_be_read_is_refused(then: tuple[BenchEntry, ...]) -> None:
    """It is the client's fault: no policy is reported, in a chain of one or of several."""
    bench = PolicyBench(Reader, {}, then=then)
    assert bench.ask(bench.request("CreateTopics", 7, body=body_of(1))) is FORWARD
    verdict = bench.ask(bench.request("CreateTopics", 7, body=body_of(1)[:-1]))
    assert verdict == Reject(ErrorCode.INVALID_REQUEST)
    assert isinstance(verdict, Reject)
    assert verdict.message == "CreateTopics v7 cannot be decoded"
    assert bench.reporter.errors == []


def test_an_entry_that_observes_or_forwards_on_error_lets_it_pass() -> None:
    """Its refusal is reported and does nothing; so is the error, because nothing else tells of it."""
    bench = PolicyBench(Reader, {}, mode="observe")
    assert bench.ask(bench.request("CreateTopics", 7, body=b"")) is FORWARD
    assert len(bench.reporter.observed) == 1

    bench = PolicyBench(Reader, {}, on_error="forward")
    assert bench.ask(bench.request("CreateTopics", 7, body=b"")) is FORWARD
    ((_, hook, error),) = bench.reporter.errors
    assert (hook, type(error)) == ("on_request", UnreadableRequestError)
