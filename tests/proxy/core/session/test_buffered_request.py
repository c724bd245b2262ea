"""Requests that are kept whole: when they are, how long they count, and which are too large."""

import struct

import pytest

from policies.api import FORWARD, Forward, Hold, Need, Patch, Respond
from proxy.core.errors import CloseReason
from tests.support.core.memory import OVERHEAD, Keeper, Link, kept, small_engine
from tests.support.core.policies import Recorder
from tests.support.messages import frames as f
from tests.support.messages.golden import cases


def test_a_kept_request_is_sent_with_its_last_byte():
    """It comes as its size and two halves; the broker gets nothing before the end, and the policy all of it."""
    case = cases("selector.oom")["receive-size-prefix"]
    asked = kept(1, 4 + case["size"])
    keeper = Keeper()
    link = Link(small_engine(10_000, keeper))
    body, whole = asked[OVERHEAD:], []
    for chunk in case["chunks"]:
        link.client(asked[:chunk])
        asked = asked[chunk:]
        whole.append(bool(link.to_broker))
    assert whole == case["complete"]
    assert keeper.bodies == [body]


def test_a_size_that_no_frame_has_ends_the_connection():
    """Negative, beyond the limit, or without room for a header; nothing is allocated for it."""
    case = cases("selector.oom")["receive-invalid-size"]
    for size in (*case["close"], 0):
        link = Link(small_engine(10_000, Keeper(), request_max_bytes=case["max"]))
        link.client(struct.pack(">i", size) + kept(1)[4:20])
        assert link.session.reason is CloseReason.CLIENT_PROTOCOL
        assert link.engine.request_pool.peak_bytes == 0
    (size,) = case["ok"]
    link = Link(small_engine(10_000, Keeper(), request_max_bytes=case["max"]))
    link.client(kept(1, 4 + size)[:50])
    assert link.session.claim.reserved_bytes == 4 + size


def test_a_held_frame_counts_once():
    """A policy sees its body each time it is asked, and no copy is kept in between."""
    bodies = []

    def decide(request):
        bodies.append(request.body)
        return Hold(100, "key") if len(bodies) == 1 else FORWARD

    engine = small_engine(1000, Keeper(decide))
    link = Link(engine).client(kept(1, 600))
    assert link.session.held is not None
    assert link.session.held.exchange.body is None
    assert engine.request_pool.used_bytes == 600
    assert engine.reservations.requests == 1
    link.wake("key")
    assert bodies == [bytes(600 - OVERHEAD)] * 2
    assert link.to_broker == kept(1, 600)
    assert engine.request_pool.used_bytes == engine.reservations.requests == 0
    assert engine.request_pool.peak_bytes == 600


def test_a_held_request_that_streams_counts_as_one_reservation():
    """Its bytes stay unread, or in the carry."""
    holder = Recorder(lambda request: Hold(50, "key") if request.exchange_id == 1 else FORWARD)
    engine = small_engine(10_000, holder)
    link = Link(engine).client(f.heartbeat(1))
    assert engine.reservations.requests == 1
    link.release()
    assert engine.reservations.requests == 0


@pytest.mark.parametrize("length", [0, 10, 500, 3000])
def test_a_changed_frame_counts_its_new_size(length):
    """Shorter or longer than the old one."""
    keeper = Keeper(lambda _: Forward(body=bytes(length)))
    engine = small_engine(10_000, keeper)
    link = Link(engine)
    link.stuck = True
    link.client(kept(1, 600))
    assert engine.request_pool.used_bytes == OVERHEAD + length
    link.unstick()
    assert engine.request_pool.used_bytes == 0
    assert link.to_broker == kept(1, OVERHEAD + length)


def test_a_request_that_a_policy_answers_gives_its_memory_back():
    """The pool is empty once the reply is sent."""
    engine = small_engine(1000, Keeper(lambda _: Respond(b"\x00" * 4)))
    link = Link(engine).client(kept(1, 600))
    assert len(link.to_client) == 12
    assert engine.request_pool.used_bytes == engine.reservations.requests == 0


def test_a_request_larger_than_the_pool_is_not_kept():
    """It streams; if a policy patches it, the connection ends and the detail says why."""
    large = f.produce(1, size_bytes=2000)
    link = Link(small_engine(1000)).client(large)
    assert link.to_broker == large
    patching = Recorder(lambda _: Forward((Patch(0, b"\xff\xff"),)), apis={f.PRODUCE})
    link = Link(small_engine(1000, patching)).client(large)
    assert link.to_broker == b""
    assert link.session.reason is CloseReason.POLICY
    assert link.session.detail == f"request size {len(large)} exceeds 1000 bytes of buffer"
    assert len(patching.completed) == 1
    assert link.engine.request_pool.used_bytes == 0


def test_a_sasl_token_never_waits_for_memory():
    """As in Kafka: it has its own limit, and is counted as it comes."""
    engine = small_engine(600)
    holder = Link(engine).client(kept(1, 600)[:100])
    token = f.request(f.SASL_AUTHENTICATE, 0, 1, struct.pack(">i", 40) + bytes(40))
    link = Link(engine)
    link.session.client.keep(token[:5])
    link.client(token[5:30])
    assert not link.waits
    assert engine.unauthenticated.used_bytes == 30
    link.client(token[30:])
    assert link.to_broker == token
    assert engine.request_pool.used_bytes == holder.session.claim.reserved_bytes == 600


def test_the_copy_of_a_body_is_freed_after_the_verdict():
    """It does not wait for the broker's reply, which may take long."""
    seen = []
    keeper = Keeper(lambda request: seen.append(request) or FORWARD, needs=Need.BODY)
    Link(small_engine(1000, keeper)).client(kept(1, 600))
    assert seen[0].body is None
    assert keeper.bodies == [bytes(600 - OVERHEAD)]
