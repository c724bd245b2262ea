"""Requests of thousands of topics: judged and refused in turns, so that no other client waits for one of them."""

import pytest

from policies import messages
from policies.api import FORWARD, Hold, Need, Reject, Throttle
from policies.limits import Limits, LimitsConfig
from policies.testing import BenchHost
from proxy.core.session.naming_exchange import MAX_ELEMENTS
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.large_requests import FEWER, answer, names_of, rules
from tests.support.messages.named_topics import Watcher
from tests.support.messages.throttled import versions
from wire.apis import ApiKey
from wire.errors import ErrorCode

METADATA, FETCH, PRODUCE = (ApiKey.METADATA, 12), (ApiKey.FETCH, 12), (ApiKey.PRODUCE, 9)
MANY = 3_000
"""So many that they are refused in scores of turns."""
LARGE = 10_000
"""Partitions of one broker of a real cluster."""


def request(kind: tuple[ApiKey, int], names: list[str], correlation_id: int = 7) -> bytes:
    """Return a request that names one partition of each topic."""
    api = api_of(*kind)
    by_api: dict[int, dict[str, object]] = {
        ApiKey.METADATA: {"topics": [{"name": each} for each in names]},
        ApiKey.FETCH: {
            "session_epoch": -1,
            "topics": [{"topic": each, "partitions": [{"partition": 0}]} for each in names],
        },
        ApiKey.PRODUCE: {
            "acks": 1,
            "topic_data": [
                {"name": each, "partition_data": [{"index": 0, "records": None}]} for each in names
            ],
        },
    }
    body = messages.encode(messages.make_request(api, by_api[kind[0]]))
    return f.request(*kind, correlation_id, body, tagged=True)


def codes_of(reply: object) -> list[int]:
    """Return the error code of each topic or partition."""
    topics = getattr(reply, "responses", None) or getattr(reply, "topics", ())
    found: list[int] = []
    for topic in topics:
        parts = getattr(topic, "partition_responses", None) or getattr(topic, "partitions", ())
        found += [int(each.error_code) for each in parts or (topic,)]
    return found


@pytest.mark.parametrize("kind", [METADATA, FETCH])
@pytest.mark.parametrize("count", [FEWER, LARGE])
def test_a_large_request_that_is_allowed_reaches_the_broker_unchanged(kind, count) -> None:
    """It takes several turns; the next request comes after it."""
    wire = Wire(make_engine([rules("t-*")]))
    large = request(kind, names_of(count))
    wire.client(large + versions(8, 1))
    assert wire.to_broker == large + versions(8, 1)
    assert wire.turns >= count // 1000
    assert not wire.session.ended


@pytest.mark.parametrize("kind", [METADATA, FETCH])
@pytest.mark.parametrize("count", [FEWER, MANY])
def test_a_large_request_that_is_denied_is_answered_with_an_error_for_each_topic(
    kind, count
) -> None:
    """In many turns, and the connection stays: a client that is cut would only come back."""
    wire = Wire(make_engine([rules("other-*")]))
    wire.client(request(kind, names_of(count)))
    assert wire.to_broker == b""
    assert codes_of(answer(wire, kind)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * count
    assert wire.turns >= count // 100
    assert wire.held_bytes == 0
    wire.client(versions(8, 1))
    assert wire.to_broker == versions(8, 1)


ACL = {"resource_type": 2, "resource_pattern_type": 3, "principal": "User:a", "host": "*"}
ADMINISTRATIVE = {
    (ApiKey.DESCRIBE_GROUPS, 5): ("groups", lambda name: name, "groups"),
    (ApiKey.DELETE_GROUPS, 2): ("groups_names", lambda name: name, "results"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 0): ("group_ids", lambda name: name, "groups"),
    (ApiKey.OFFSET_FETCH, 8): (
        "groups",
        lambda name: {"group_id": name, "topics": None},
        "groups",
    ),
    (ApiKey.FIND_COORDINATOR, 4): ("coordinator_keys", lambda name: name, "coordinators"),
    (ApiKey.DESCRIBE_CONFIGS, 4): (
        "resources",
        lambda name: {"resource_type": 2, "resource_name": name},
        "results",
    ),
    (ApiKey.CREATE_ACLS, 3): ("creations", lambda name: {**ACL, "resource_name": name}, "results"),
}
"""By API and version: the array of the request, its item of a name, and the array of the reply."""


@pytest.mark.parametrize("kind", ADMINISTRATIVE)
@pytest.mark.parametrize("count", [FEWER, MAX_ELEMENTS + 1])
def test_a_large_request_about_groups_configs_or_acls_is_answered_alike(kind, count) -> None:
    """Also beyond the budget, and the connection stays."""
    array, item, answers = ADMINISTRATIVE[kind]
    wire = Wire(make_engine([rules("other-*")]))
    message = messages.make_request(api_of(*kind), {array: list(map(item, names_of(count)))})
    wire.client(f.request(*kind, 7, messages.encode(message), tagged=True))
    assert wire.to_broker == b""
    codes = [int(each.error_code) for each in getattr(answer(wire, kind), answers)]
    assert len(codes) == count
    assert set(codes) <= {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
    assert wire.held_bytes == 0
    wire.client(versions(8, 1))
    assert wire.to_broker == versions(8, 1)


@pytest.mark.parametrize("kind", [METADATA, FETCH])
def test_a_part_of_a_large_request_is_denied(kind) -> None:
    """The rest reaches the broker, and the reply has the items of both."""
    wire = Wire(make_engine([rules("t-*")]))
    wire.client(request(kind, [*names_of(2000), *names_of(3000, "secret")]))
    assert wire.to_broker == request(kind, names_of(2000))
    empty = messages.encode(messages.make_response(api_of(*kind), {}))
    wire.broker(f.reply(7, empty, tagged=True))
    assert codes_of(answer(wire, kind)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 3000


@pytest.mark.parametrize("kind", [METADATA, FETCH, PRODUCE])
def test_a_policy_that_judges_by_the_header_refuses_a_large_request_with_an_error(kind) -> None:
    """Its reply names all partitions, however many they are."""
    name = api_of(*kind).name
    wire = Wire(make_engine([Limits(LimitsConfig(forbidden_apis=(name,)), BenchHost("limits"))]))
    wire.client(request(kind, names_of(MANY)))
    assert codes_of(answer(wire, kind)) == [ErrorCode.POLICY_VIOLATION] * MANY
    assert not wire.session.ended


@pytest.mark.parametrize("kind", [METADATA, FETCH])
def test_a_request_beyond_the_budget_gets_an_error_that_clients_show(kind) -> None:
    """No policy lets it pass, because none has seen its names; the connection stays."""
    wire = Wire(make_engine([rules("*")]))
    wire.client(request(kind, names_of(MAX_ELEMENTS + 1)))
    assert wire.to_broker == b""
    reply = answer(wire, kind)
    assert codes_of(reply) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * (MAX_ELEMENTS + 1)
    assert not wire.session.ended


def test_other_clients_have_turns_between_those_of_a_large_request() -> None:
    """One turn reads some hundred names, and then the session waits for its next one."""
    engine = make_engine([rules("t-*")])
    large, other = Wire(engine), Wire(engine)
    large.take_turn(request(METADATA, names_of(LARGE)))
    for _ in range(10):
        assert large.session.paced
        large.take_turn()
    assert large.to_broker == b""
    other.client(versions(1, 1))
    assert other.to_broker == versions(1, 1)


@pytest.mark.parametrize("turns", [0, 5, 40])
def test_a_client_that_leaves_in_the_middle_leaves_nothing(turns) -> None:
    """Neither memory nor a request that is not completed: while its names are read, and while it is refused."""
    engine = make_engine([rules("other-*")])
    wire = Wire(engine)
    wire.take_turn(request(METADATA, names_of(MANY)))
    for _ in range(turns):
        wire.take_turn()
    assert wire.session.paced
    wire.release()
    assert wire.held_bytes == 0


@pytest.mark.parametrize("turns", [1, 10, 45])
def test_a_reload_in_the_middle_of_a_large_request_leaves_one_verdict(turns) -> None:
    """The request is refused as a whole or forwarded as a whole, and the next one is judged by the new chain."""
    engine = make_engine([rules("other-*")])
    wire = Wire(engine)
    large = request(METADATA, names_of(MANY))
    wire.take_turn(large)
    for _ in range(turns):
        wire.take_turn()
    assert wire.session.paced
    engine.adopt_chain(make_engine([rules("t-*")]).chain, gone=["p0"])
    wire.client(b"")
    if wire.to_client:
        assert codes_of(answer(wire, METADATA)) == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * MANY
    else:
        assert wire.to_broker == large
    forwarded = len(wire.to_broker)
    wire.client(request(METADATA, names_of(FEWER), 8))
    assert wire.to_broker[forwarded:] == request(METADATA, names_of(FEWER), 8)


def test_a_large_request_may_be_held_and_is_judged_again_with_its_names() -> None:
    """By the same names, and then it is forwarded."""
    verdicts = iter([Hold(1000, "key"), FORWARD])
    guard = Watcher(lambda _: next(verdicts))
    wire = Wire(make_engine([guard]))
    large = request(METADATA, names_of(LARGE))
    wire.client(large)
    assert wire.to_broker == b""
    wire.wake("key")
    assert [len(topics) for topics, _, _ in guard.seen] == [LARGE, LARGE]
    assert wire.to_broker == large


@pytest.mark.parametrize("ends", [FORWARD, Reject(ErrorCode.POLICY_VIOLATION)])
def test_a_throttle_applies_to_a_large_request(ends) -> None:
    """From the verdict on, as to any other."""
    throttling = Recorder(lambda _: Throttle(500, ends), needs=Need.TOPICS, apis={ApiKey.METADATA})
    wire = Wire(make_engine([throttling]))
    wire.client(request(METADATA, names_of(FEWER)) + versions(8, 1))
    assert not wire.to_broker.endswith(versions(8, 1))
    wire.advance(501)
    assert wire.to_broker.endswith(versions(8, 1))


def test_a_request_beyond_the_budget_that_was_held_is_not_let_pass() -> None:
    """No more than at once."""
    verdicts = iter([Hold(1000, "key"), FORWARD])
    wire = Wire(make_engine([Watcher(lambda _: next(verdicts))]))
    wire.client(request(METADATA, names_of(MAX_ELEMENTS + 1)))
    wire.wake("key")
    assert wire.to_broker == b""
    assert set(codes_of(answer(wire, METADATA))) == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
