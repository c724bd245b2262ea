"""Replies that are not whole in the read in which they begin."""

import pytest

from policies.api import Outcome, Throttle
from proxy.core.errors import CloseReason
from proxy.core.session import session as session_module
from tests.support.core.policies import Recorder, Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages.every_case import for_each
from tests.support.messages.throttled import fetch, fetch_reply

SIZE_BYTES = 120
HEAD_BYTES = 8
"""The size and the correlation id: with them a reply can begin."""
POLICIES = {
    "none": list,
    "told": lambda: [Silent()],
    "hears": lambda: [Recorder()],
    "throttled": lambda: [Recorder(lambda _: Throttle(10))],
}


@pytest.fixture
def general(monkeypatch):
    """Return a list that grows with each reply on the general path."""
    made = []
    real = session_module.ReplyStream

    def stream(link):
        made.append(link)
        return real(link)

    monkeypatch.setattr(session_module, "ReplyStream", stream)
    return made


def pass_three(kind: str, sampled: int, pieces: list[slice]) -> Wire:
    """Let three requests pass at once, and their replies, each in these pieces."""
    policies = POLICIES[kind]()
    wire = Wire(make_engine(policies, keeps_traces=True, sample_every=sampled))
    for number in (1, 2, 3):
        wire.client(fetch(number))
        wire.advance(20)
    for number in (1, 2, 3):
        reply = fetch_reply(number, size_bytes=SIZE_BYTES)
        for piece in pieces:
            wire.broker(reply[piece])
    assert wire.session.is_at_rest
    assert wire.held_bytes == 0
    wire.advance(2_000)
    return wire


def told(wire: Wire) -> tuple[object, ...]:
    """Return all that a client, policies and counters were told."""
    policies = [entry.policy for entry in wire.engine.chain.entries]
    rows = [row[1:] for row in wire.watcher.rows if row.requests or row.response_bytes]
    heard = [(each.heard, each.completed, each.said) for each in policies]
    meters = [list(meter.upstream) for meter in wire.engine.meters.each()]
    return wire.to_client, heard, rows, meters


@for_each([(kind, sampled) for kind in POLICIES for sampled in (0, 1)])
def test_a_reply_that_is_cut_anywhere_passes_and_counts_as_a_whole_one(kind, sampled):
    """Whatever is asked and told about it, and whether it has a trace."""
    whole = told(pass_three(kind, sampled, [slice(None)]))
    size = len(fetch_reply(1, size_bytes=SIZE_BYTES))
    for cut in range(1, size):
        assert told(pass_three(kind, sampled, [slice(cut), slice(cut, None)])) == whole, cut


def test_it_stays_on_the_fast_path_from_its_head_on(general):
    """So do the reads after it, and a reply that begins in its last one."""
    wire = Wire()
    reply = fetch_reply(1, size_bytes=SIZE_BYTES)
    for cut in range(HEAD_BYTES, len(reply) - 5):
        wire.client(fetch(1) * 2)
        wire.broker(reply[:cut]).broker(reply[cut : cut + 5])
        assert wire.to_client.endswith(reply[: cut + 5])
        wire.broker(reply[cut + 5 :] + reply[:cut]).broker(reply[cut:])
        assert not general, cut
        assert not wire.session.queue, cut


def test_what_is_less_than_its_head_waits():
    """It is counted, and passes with the rest."""
    wire = Wire().client(fetch(1))
    reply = fetch_reply(1)
    wire.broker(reply[: HEAD_BYTES - 1])
    assert (wire.held_bytes, wire.to_client) == (HEAD_BYTES - 1, b"")
    wire.broker(reply[HEAD_BYTES - 1 :])
    assert (wire.held_bytes, wire.to_client) == (0, reply)


def test_it_is_not_answered_here_while_it_pauses():
    """Its deadline was for its first bytes."""
    wire = Wire(make_engine(request_timeout_ms=60_000)).client(fetch(1))
    reply = fetch_reply(1)
    wire.broker(reply[:40])
    wire.advance(50_000)
    assert wire.to_client == reply[:40]
    wire.broker(reply[40:])
    assert wire.to_client == reply
    assert wire.session.is_at_rest


def test_a_drain_between_its_reads_lets_the_rest_pass_and_then_ends():
    """The exchange completes once."""
    policy = Silent()
    wire = Wire(make_engine([policy])).client(fetch(1))
    reply = fetch_reply(1)
    wire.broker(reply[:40])
    wire.drain()
    assert not wire.session.ended
    wire.broker(reply[40:])
    assert wire.to_client == reply
    assert wire.session.ended
    assert policy.completed == [(1, Outcome.REPLIED)]


def test_a_broker_that_leaves_between_its_reads_completes_it_as_disconnected():
    """What has come was delivered; no reply is counted."""
    policy = Silent()
    wire = Wire(make_engine([policy])).client(fetch(1))
    wire.broker(fetch_reply(1)[:40])
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, wire.now_ms)
    wire.settle()
    wire.advance(2_000)
    assert wire.to_client == fetch_reply(1)[:40]
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert sum(row.response_bytes for row in wire.watcher.rows) == 0
