"""The four policies decide as they say, and keep the contract."""

from dataclasses import replace

import pytest
from act_log import ActLog
from batch_limit import BatchLimit
from maintenance_hold import MaintenanceHold
from topic_guard import TopicGuard

from sluice import FORWARD
from sluice.testing import PolicyBench, PolicyContract


class TestTopicGuard(PolicyContract):
    """The contract."""

    policy = TopicGuard
    config = {"denied_prefix": "secret."}  # noqa: RUF012 - read only


class TestMaintenanceHold(PolicyContract):
    """The contract."""

    policy = MaintenanceHold
    config = {"paused": True}  # noqa: RUF012 - read only


class TestActLog(PolicyContract):
    """The contract."""

    policy = ActLog


class TestBatchLimit(PolicyContract):
    """The contract."""

    policy = BatchLimit
    config = {"max_bytes": 1000}  # noqa: RUF012 - read only


@pytest.mark.parametrize("version", [3, 12, 13])
def test_the_guard_knows_names_and_ids(version: int) -> None:
    """A denied topic is refused in every version, another passes."""
    bench = PolicyBench(TopicGuard, {"denied_prefix": "secret."})
    denied = bench.request("Produce", version, topics=["secret.a"], records=[b"v"])

    assert bench.ask(bench.request("Produce", version, topics=["open"])) is FORWARD
    assert bench.client_sees(denied, bench.ask(denied)).names == {"TOPIC_AUTHORIZATION_FAILED"}


def test_an_id_without_a_name_is_refused() -> None:
    """The client asks for metadata, and tries again."""
    bench = PolicyBench(TopicGuard, {"denied_prefix": "secret."})
    asked = bench.request("Produce", 13, topics=["secret.a"])
    bench.host.topics.clear()

    seen = bench.client_sees(asked, bench.ask(asked))
    assert seen.names == {"UNKNOWN_TOPIC_ID"}
    assert seen.retriable


def test_writes_wait_until_the_reload_that_ends_the_pause() -> None:
    """Other requests pass; a write that waits too long gets an error that the client retries."""
    bench = PolicyBench(MaintenanceHold, {"paused": True})
    for place in range(2):
        write = bench.request("Produce", topics=["orders"])
        seen = bench.client_sees(write, bench.ask(write))
        assert (seen.waits_ms, seen.retriable) == (10_000, True)
        if place == 0:
            bench.advance(10_000)
    bench.reload({"paused": False})

    assert [each.verdict is FORWARD for each in bench.released] == [False, True]


def test_an_act_is_logged_with_its_end() -> None:
    """One line, when the request completes."""
    bench = PolicyBench(ActLog)
    act = bench.request("DeleteTopics", topics=["orders", "stock"])
    bench.ask(act, replace(bench.peer, user="ann"))
    bench.reply(
        act, fields={"responses": [{"name": "orders", "error_code": 29}, {"name": "stock"}]}
    )

    ((level, text, fields),) = bench.reporter.messages
    assert (level, text, fields["topics"]) == ("info", "DeleteTopics", "orders stock")
    assert (fields["user"], fields["failed"]) == ("ann", "{'orders': 29}")


def test_large_requests_are_refused_except_for_some() -> None:
    """The client reads both sizes."""
    bench = PolicyBench(BatchLimit, {"max_bytes": 1000, "exempt_client_ids": ["loader"]})
    large = bench.request("Produce", topics=["orders"], records=[b"v" * 2000])

    assert bench.ask(bench.request("Produce", topics=["orders"], records=[b"v"])) is FORWARD
    assert bench.ask(large, replace(bench.peer, client_id="loader")) is FORWARD
    (error,) = bench.client_sees(large, bench.ask(large)).errors
    assert error.name == "MESSAGE_TOO_LARGE"
    assert "at most 1000 are allowed" in error.message
