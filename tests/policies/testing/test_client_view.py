"""The view of a client: names, items and messages of errors, and whether the connection ends."""

import msgspec
import pytest

from policies.api import FORWARD, Hold, Policy, Reject, Respond, Throttle
from policies.testing import ClientError, ClientView, PolicyBench, response_body
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
