"""Heard bodies across a change of the chain, a deadline and a full pool."""

import struct

import pytest

from policies.api import FORWARD, Hold, Outcome
from policies.chain import Chain, Entry
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.session.grace_times import GraceTimes
from tests.proxy.core.session.test_heard_bodies import BEAT_BODY, METADATA1
from tests.support.core.hearing import Hearer
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.errors import ErrorCode


def test_interests_are_read_again_at_reconsider():
    """A policy may begin to hear bodies, and stop; requests in flight keep what they began with."""
    policy = Hearer(())
    wire = Wire(make_engine([policy])).client(f.beat(1))
    policy.hears_body = frozenset({f.HEARTBEAT})
    wire.engine.reconsider()
    wire.client(f.beat(2)).broker(f.reply(1, BEAT_BODY) + f.reply(2, BEAT_BODY), chunk=5)
    assert policy.replies == [None, BEAT_BODY]
    policy.hears_body = frozenset()
    wire.engine.reconsider()
    wire.client(f.beat(3)).broker(f.reply(3, BEAT_BODY))
    assert policy.results == [None, {None: 27}, None]
    assert wire.held_bytes == 0


@pytest.mark.parametrize("hears", [True, False])
def test_a_held_request_is_heard_as_the_chain_says_that_ends_its_hold(hears):
    """A reload during the hold moves it to the new chain."""

    class Holds(Hearer):
        held = 0

        def on_request(self, request, peer, now_ms):
            self.held += 1
            return Hold(1000, "key") if not self.adopted else FORWARD

        adopted = False

        def adopt(self, previous):
            self.adopted = True

    before, after = Holds(() if hears else {f.HEARTBEAT}), Holds({f.HEARTBEAT} if hears else ())
    wire = Wire(make_engine([before])).client(f.beat(1))
    assert wire.to_broker == b""
    chain = Chain([Entry("p0", after)], wire.watcher)
    wire.engine.adopt_chain(chain)
    after.adopt(before)
    wire.wake("key")
    wire.advance(1001)
    wire.broker(f.reply(1, BEAT_BODY), chunk=4)
    assert wire.to_client == f.reply(1, BEAT_BODY)
    assert after.results == ([{None: 27}] if hears else [None])
    assert wire.held_bytes == 0


def test_a_reply_made_at_a_deadline_is_heard():
    """The broker is silent: the errors are those of Sluice's own reply."""
    policy = Hearer({f.PRODUCE})
    wire = Wire(make_engine([policy], graces=GraceTimes(silence_ms=0))).client(f.produce(1))
    wire.advance(60_000)
    assert policy.completed == [(1, Outcome.EXPIRED)]
    assert policy.results == policy.errors
    assert policy.results[0]
    assert set(policy.results[0].values()) == {ErrorCode.REQUEST_TIMED_OUT}
    assert wire.held_bytes == 0


@pytest.mark.parametrize("size", [65_000, 300_000])
def test_memory_waits_and_comes_back(size):
    """A reply that is kept for a policy takes its turn in the pool as one that is rewritten."""
    policy = Hearer({f.METADATA})
    wire = Wire(make_engine([policy], pool_limits=PoolLimits(response_bytes=1 << 20))).client(
        f.metadata_request(1)
    )
    reply = METADATA1 + bytes(size)
    wire.broker(struct.pack(">i", len(reply) - 4) + reply[4:], chunk=8192)
    assert [len(each or b"") for each in policy.replies] == [len(wire.to_client) - 8]
    assert wire.engine.reply_pool.used_bytes == 0
    assert wire.engine.reply_pool.peak_bytes >= size
