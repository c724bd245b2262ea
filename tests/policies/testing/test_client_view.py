"""The view of a client: names, items and messages of errors, and whether the connection ends."""

from collections.abc import Callable

import msgspec
import pytest

from policies.api import FORWARD, Deny, Forward, Hold, Policy, Reject, Respond, Throttle, Verdict
from policies.testing import ClientError, ClientView, PolicyBench, response_body
from wire.authorization import Ask, Operation, ResourceType
from wire.errors import ErrorCode


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No setting."""


class Passive(Policy):
    """Decides nothing."""

    Config = NoSettings


@pytest.fixture
def bench() -> PolicyBench:
    """A bench whose policy has no say."""
    return PolicyBench(Passive)


@pytest.mark.parametrize("version", [3, 12, 13])
def test_a_refused_produce_names_its_partitions(bench: PolicyBench, version: int) -> None:
    """Also where the request carries the id of the topic."""
    request = bench.request("Produce", version, topics={"orders": (0, 2)}, records=[b"a"])

    view = bench.client_sees(request, Reject(ErrorCode.TOPIC_AUTHORIZATION_FAILED, message="no"))

    assert [(each.item, each.name) for each in view.errors] == [
        ("orders-0", "TOPIC_AUTHORIZATION_FAILED"),
        ("orders-2", "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert not view.retriable
    assert not view.closed
    shown = "refused by policy bench of Sluice: no" if version >= 8 else ""
    assert {each.message for each in view.errors} == {shown}


def test_a_request_that_has_no_error_reply_is_closed(bench: PolicyBench) -> None:
    """With acks=0 there is no place for an error; the codec does not know Produce v0."""
    view = bench.client_sees(bench.request("Produce", acks=0), Reject(ErrorCode.POLICY_VIOLATION))

    assert view == ClientView(closed=True)

    view = bench.client_sees(bench.request("Produce", 0), Reject(ErrorCode.POLICY_VIOLATION))

    assert view.closed


def test_a_retriable_code_is_marked(bench: PolicyBench) -> None:
    """By Kafka's table."""
    request = bench.request("Metadata", topics=["orders"])

    view = bench.client_sees(request, Throttle(70, Reject(ErrorCode.NOT_CONTROLLER)))

    assert view.errors == (ClientError("orders", "NOT_CONTROLLER", retriable=True, message=""),)
    assert view.retriable
    assert view.waits_ms == 70


def test_a_policys_own_reply_is_read(bench: PolicyBench) -> None:
    """It may hold any code."""
    request = bench.request("Heartbeat")
    body = response_body(request.api, {"error_code": 27})

    assert bench.client_sees(request, Respond(body)).names == {"REBALANCE_IN_PROGRESS"}


def test_a_forwarded_and_a_held_request_show_no_error(bench: PolicyBench) -> None:
    """A hold shows its longest wait, and then its end."""
    request = bench.request("Heartbeat")

    assert bench.client_sees(request, FORWARD) == ClientView()
    assert bench.client_sees(request, Hold(500, "key")) == ClientView(waits_ms=500)
    refused = bench.client_sees(request, Hold(500, "key", Reject(ErrorCode.NOT_COORDINATOR)))
    assert (refused.waits_ms, refused.names) == (500, {"NOT_COORDINATOR"})


DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", [3, 12, 13])
@pytest.mark.parametrize("wrap", [lambda deny: deny, lambda deny: Forward(denials=(deny,))])
def test_a_part_that_is_denied_has_errors_and_the_rest_has_none(
    bench: PolicyBench, version: int, wrap: Callable[[Deny], Verdict]
) -> None:
    """By topic and partition, as the client reads them; each item is in the reply once."""
    topics = {"orders": (0, 2), "secret": (1, 3)}
    request = bench.request("Produce", version, topics=topics, records=[b"a"])

    view = bench.client_sees(request, wrap(Deny({"secret": DENIED, ("orders", 2): DENIED}, "no")))

    items = [each.item for each in view.errors]
    assert sorted(items) == ["orders-2", "secret-1", "secret-3"]
    assert view.names == {"TOPIC_AUTHORIZATION_FAILED"}
    assert len(view.message.responses) == 3  # type: ignore[attr-defined] # orders with its broker's part
    assert not view.closed


def test_a_denied_ask_that_refuses_the_whole_request_shows_on_each_item(bench: PolicyBench) -> None:
    """And so does all that is left if nothing is."""
    fields = {"group_id": "g", "topics": [{"name": "a", "partitions": [{"partition_index": 4}]}]}
    request = bench.request("OffsetCommit", 8, fields=fields)
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    group = Ask(ResourceType.GROUP, "g", Operation.READ, code)

    view = bench.client_sees(request, Throttle(70, Deny({group: code})))

    assert [(each.item, each.name) for each in view.errors] == [("a-4", code.name)]
    assert view.waits_ms == 70
    view = bench.client_sees(request, Deny({"a": DENIED}))
    assert [(each.item, each.name) for each in view.errors] == [("a-4", DENIED.name)]
    assert bench.client_sees(request, Deny({"b": DENIED})) == ClientView()


def test_a_topic_is_refused_inside_its_group(bench: PolicyBench) -> None:
    """Beside the others of the group."""
    topics = [{"name": name, "partition_indexes": [0]} for name in ("a", "b")]
    request = bench.request(
        "OffsetFetch", 8, fields={"groups": [{"group_id": "g", "topics": topics}]}
    )

    view = bench.client_sees(request, Deny({"a": DENIED}))

    assert [(each.item, each.name) for each in view.errors] == [("g-a-0", DENIED.name)]


def test_a_partial_refusal_without_a_reply_closes(bench: PolicyBench) -> None:
    """After the rest was sent."""
    request = bench.request("Produce", topics=["orders", "secret"], acks=0)

    assert bench.client_sees(request, Deny({"secret": DENIED})) == ClientView(closed=True)
