"""Exchanges: the fields that a policy reads, and that they have slots only."""

import pytest

from policies.api import FORWARD, Need
from proxy.core.session.exchange import AnsweredExchange, Exchange, ProxyExchange
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.apis import ApiKey


def seen(data: bytes, *, needs: Need = Need.HEADER, node_id: int | None = None) -> dict:
    """Return the fields that a policy reads from the only request in `data` while it is asked."""
    read = {}

    def look(request):
        for name in ("api", "api_key", "api_version", "node_id", "size_bytes", "acks"):
            read[name] = getattr(request, name)
        for name in ("exchange_id", "head", "body"):
            read[name] = getattr(request, name)
        return FORWARD

    Wire(make_engine([Recorder(look, needs=needs)]), node_id).client(data)
    return read


def test_a_request_has_its_api_version_and_node():
    """The table's facts, the client's version, the broker of the port it came in at."""
    request = seen(f.heartbeat(7), node_id=2)
    assert request["api"].name == "Heartbeat"
    assert (request["api_key"], request["api_version"]) == (ApiKey.HEARTBEAT, 0)
    assert request["node_id"] == 2
    assert seen(f.heartbeat(7))["node_id"] is None


def test_a_request_is_as_large_as_kafka_counts_it():
    """Header and body, without the four bytes of length."""
    assert seen(f.heartbeat(7))["size_bytes"] == len(f.heartbeat(7)) - 4


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_only_a_produce_has_acks(acks):
    """Known from the header on, without keeping anything."""
    assert seen(f.produce(1, acks=acks))["acks"] == acks
    assert seen(f.heartbeat(1))["acks"] is None


def test_head_and_body_are_there_only_for_policies_that_need_them():
    """Otherwise they are None."""
    request = seen(f.heartbeat(7))
    assert (request["head"], request["body"]) == (None, None)
    assert seen(f.produce(1), needs=Need.HEAD)["head"] is not None
    assert seen(f.heartbeat(7), needs=Need.BODY)["body"] == f.heartbeat(7)[19:]


def test_exchange_ids_count_within_a_session():
    """The same in every hook of one request, never the same for two."""
    watcher = Recorder()
    engine = make_engine([watcher])
    wire = Wire(engine)
    for n in (70, 71, 72):
        wire.client(f.heartbeat(n)).broker(f.heartbeat_reply(n))
    ids = [1, 2, 3]
    assert watcher.asked == ids
    assert [each for each, _ in watcher.heard] == ids
    assert [each for each, _ in watcher.completed] == ids
    Wire(engine).client(f.heartbeat(1))
    assert watcher.asked == [1, 2, 3, 1]


def test_an_exchange_has_slots_only():
    """Without a __dict__, because one is made per request."""
    for kind in (Exchange, AnsweredExchange, ProxyExchange):
        assert not hasattr(kind.__new__(kind), "__dict__")
    assert "__init__" not in vars(Exchange)


def test_a_reply_says_its_size():
    """As Kafka counts it."""
    watcher = Recorder()
    wire = Wire(make_engine([watcher])).client(f.produce(1)).broker(f.produce_reply(1))
    assert wire.to_client == f.produce_reply(1)
    assert watcher.heard == [(1, len(f.produce_reply(1)) - 4)]


def test_an_answer_made_here_keeps_its_exchange_and_a_whole_frame():
    """It waits for its turn and is sent unchanged."""
    exchange = Exchange()
    waiting = AnsweredExchange(exchange, f.heartbeat_reply(3))
    assert waiting.exchange is exchange
    assert waiting.reply == f.heartbeat_reply(3)


def test_an_inquiry_hears_its_reply():
    """Or None, when the connection ends first."""
    heard: list[bytes | None] = []
    question = ProxyExchange(9, heard.append)
    question.on_reply(b"frame")
    question.on_reply(None)
    assert question.correlation_id == 9
    assert heard == [b"frame", None]
