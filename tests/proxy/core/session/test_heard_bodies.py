"""Replies whose bodies policies hear: kept whole, rewritten first, replaced, and counted."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Need, Outcome, Reject, Throttle
from policies.denial import Deny
from policies.responses import PolicyRefusal, Replace
from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from tests.proxy.core.session import test_denied_parts as denied
from tests.support.core.hearing import Hearer
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.errors import ErrorCode

METADATA1 = f.reply(
    1,
    struct.pack(">ii", 1, 1) + f.string("kafka.real") + struct.pack(">i", 9092) + f.string(None)
    + struct.pack(">i", 1) + struct.pack(">ih", 1, 3) + f.string("orders") + b"\0" + struct.pack(">i", 0),
)  # fmt: skip
BEAT_BODY = struct.pack(">ih", 0, 27)
"""Heartbeat v1: throttle_time_ms, REBALANCE_IN_PROGRESS."""


@pytest.mark.parametrize("chunk", [1 << 18, 1, 7, 12, 13])
def test_a_body_is_heard_after_its_addresses_are_rewritten(chunk):
    """A policy never sees a broker's address; the errors and the result say what failed."""
    policy = Hearer({f.METADATA})
    wire = Wire(make_engine([policy])).client(f.metadata_request(1)).broker(METADATA1, chunk=chunk)
    assert policy.replies == [wire.to_client[8:]]
    assert b"kafka.real" not in wire.to_client
    assert policy.errors == policy.results == [{"orders": 3}]
    assert wire.held_bytes == 0
    assert policy.completed == [(1, Outcome.REPLIED)]


@given(st.binary(max_size=60), st.integers(1, 40), st.integers(0, 3), st.booleans())
def test_a_replaced_body_is_framed_and_stamped_however_it_is_cut(tail, chunk, others, throttled):
    """Size, correlation id and throttle time are the core's; the replies around it pass."""
    body = struct.pack(">ih", 5, 0) + tail
    new = Replace(body)
    policy = Hearer({f.HEARTBEAT}, lambda _: Throttle(300, new) if throttled else new)
    wire = Wire(make_engine([policy]))
    requests = b"".join(f.produce(2 + place) for place in range(others))
    replies = b"".join(f.produce_reply(2 + place) for place in range(others))
    wire.client(f.beat(1) + requests)
    wire.broker(f.reply(1, BEAT_BODY) + replies, chunk=chunk)
    stamped = struct.pack(">i", 300 if throttled else 5) + body[4:]
    assert wire.to_client == f.reply(1, stamped) + replies
    assert policy.errors[0] == {None: 27}
    assert wire.held_bytes == 0


def test_each_policy_sees_the_body_of_the_one_before():
    """Replies come back up the chain: the last entry of the file is asked first; the result is the last body's."""
    above = Hearer({f.HEARTBEAT}, lambda response: Replace((response.body or b"") + b"a"))
    below = Hearer({f.HEARTBEAT}, lambda response: Replace((response.body or b"") + b"b"))
    wire = Wire(make_engine([above, below])).client(f.beat(1)).broker(f.reply(1, BEAT_BODY))
    assert wire.to_client == f.reply(1, BEAT_BODY + b"ba")
    assert above.replies == [BEAT_BODY + b"b"]
    assert above.heard == [(1, 4 + len(BEAT_BODY) + 1)]
    above = Hearer({f.HEARTBEAT})
    below = Hearer({f.HEARTBEAT}, lambda _: Replace(struct.pack(">ih", 0, 16)))
    Wire(make_engine([above, below])).client(f.beat(1)).broker(f.reply(1, BEAT_BODY))
    assert (below.errors, above.errors) == ([{None: 27}], [{None: 16}])
    assert below.results == above.results == [{None: 16}]


def test_an_api_that_is_not_heard_has_no_body():
    """Neither body nor errors nor result; and other APIs of the same policy cost nothing more."""
    policy = Hearer({f.HEARTBEAT})
    wire = Wire(make_engine([policy])).client(f.produce(1)).broker(f.produce_reply(1))
    assert policy.replies == policy.errors == policy.results == [None]
    assert wire.to_client == f.produce_reply(1)


@pytest.mark.parametrize(
    ("verdict", "keys", "words"),
    [
        (Replace("text"), {f.HEARTBEAT}, "Replace.body is 'text', expected bytes"),
        (Replace(b"\0"), {f.HEARTBEAT}, "Replace.body is no Heartbeat response v1"),
        (Throttle(1, Reject(44)), {f.HEARTBEAT}, "expected FORWARD, a Throttle or a Replace"),
        (Replace(b""), (), "a Replace needs the API in hears_body"),  # it may have been forwarded
    ],
)
def test_a_body_that_cannot_be_sent_is_the_fault_of_its_policy(verdict, keys, words):
    """It is named, and the connection closes."""
    policy = Hearer(keys, lambda _: verdict)
    wire = Wire(make_engine([policy])).client(f.beat(1)).broker(f.reply(1, BEAT_BODY))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert words in wire.session.detail
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert wire.held_bytes == 0


@pytest.mark.parametrize("chunk", [1 << 18, 3])
def test_a_refusal_of_sluice_is_heard_too(chunk):
    """Its errors, and the entry that refused it, with the reason."""
    refused = Reject(ErrorCode.GROUP_AUTHORIZATION_FAILED, message="not yours")
    policy = Hearer({f.HEARTBEAT}, decide=lambda _: refused)
    wire = Wire(make_engine([policy])).client(f.beat(1), chunk)
    assert policy.errors == policy.results == [{None: 30}]
    assert policy.refusals == [(PolicyRefusal("p0", 30, "not yours"),)]
    assert policy.completed == [(1, Outcome.ANSWERED)]
    assert wire.held_bytes == 0


def test_a_refusal_waits_for_its_turn_and_its_result_with_it():
    """The reply made here is held until the broker has answered the request before it."""
    policy = Hearer(
        {f.HEARTBEAT},
        decide=lambda request: Reject(30) if request.api_key == f.HEARTBEAT else FORWARD,
    )
    wire = Wire(make_engine([policy])).client(f.produce(1) + f.beat(2))
    assert policy.results == []
    wire.broker(f.produce_reply(1))
    assert policy.results == [None, {None: 30}]
    assert wire.held_bytes == 0


def test_a_refusal_is_known_without_hearing_bodies():
    """Refusals cost nothing more, so every `on_complete` gets them."""
    policy = Hearer((), decide=lambda _: Reject(30, message="no"))
    Wire(make_engine([policy])).client(f.beat(1))
    assert policy.refusals == [(PolicyRefusal("p0", 30, "no"),)]
    assert policy.results == [None]


def test_a_denied_part_is_in_the_errors_and_the_refusals():
    """The joined reply is what is heard."""
    api = next(each for each in denied.VERSIONS if (each.key, each.version) == (f.METADATA, 9))
    policy = Hearer(
        {f.METADATA}, decide=lambda _: Deny({"bad": denied.DENIED}, "no"), needs=Need.TOPICS
    )
    for chunk in (1 << 18, 5):
        wire = Wire(make_engine([policy]))
        wire.client(denied.asked(api, {"good": [], "bad": []}))
        wire.broker(denied.answered(api, {"good": []}, ErrorCode.LEADER_NOT_AVAILABLE), chunk=chunk)
        assert policy.results[-1] == policy.errors[-1] == {"bad": 29, "good": 5}
        assert policy.refusals[-1] == (PolicyRefusal("p0", 29, "no"),)
        assert wire.held_bytes == 0


def test_requests_without_a_reply_have_no_result():
    """acks=0: `on_response` is not called, and the errors are not known."""
    policy = Hearer({f.PRODUCE})
    Wire(make_engine([policy])).client(f.produce(1, acks=0))
    assert (policy.replies, policy.results) == ([], [None])
    assert policy.completed == [(1, Outcome.NO_REPLY)]


@pytest.mark.parametrize("chunk", [1 << 18, 4096])
def test_a_reply_that_is_too_large_closes_unless_its_policy_only_watches(chunk):
    """A guard closes; a policy with `on_error: forward` lets it stream, hears no body, and is reported."""
    policy = Hearer({f.METADATA})
    for closes in (True, False):
        wire = Wire(
            make_engine(
                [policy],
                on_error="close" if closes else "forward",
                pool_limits=PoolLimits(response_bytes=1 << 20),
            )
        ).client(f.metadata_request(1))
        engine = wire.engine
        reply = METADATA1 + bytes(engine.reply_reservations.max_bytes // 4 + 1)
        reply = struct.pack(">i", len(reply) - 4) + reply[4:]
        wire.broker(reply, chunk=chunk)
        if closes:
            assert wire.session.reason is CloseReason.BROKER_PROTOCOL
            assert "too large for hears_body" in wire.session.detail
            assert "policies that hear it: p0" in wire.session.detail
            assert wire.watcher.policy_errors == []
            assert wire.to_client == b""
        else:
            assert len(f.whole_frames(wire.to_client)) == 1
            assert (policy.replies[-1], policy.results[-1]) == (None, None)
            assert wire.watcher.policy_errors == [("p0", "on_response")]
        assert engine.reply_pool.used_bytes == 0
        policy.replies.clear()


def test_an_observing_policy_replaces_nothing_and_is_counted():
    """It hears the body; what it would have done is reported."""
    policy = Hearer({f.HEARTBEAT}, lambda _: Replace(b"\0" * 6))
    wire = (
        Wire(make_engine([policy], mode="observe")).client(f.beat(1)).broker(f.reply(1, BEAT_BODY))
    )
    assert wire.to_client == f.reply(1, BEAT_BODY)
    assert policy.replies == [BEAT_BODY]
    assert wire.watcher.observed == ["p0"]


def test_a_held_body_leaves_with_its_session():
    """A client that goes while a reply is being kept: all memory comes back, and the request ends once."""
    policy = Hearer({f.METADATA})
    wire = Wire(make_engine([policy])).client(f.metadata_request(1)).broker(METADATA1[:40], chunk=9)
    assert wire.held_bytes
    wire.session.client_lost(wire.now_ms)
    wire.session.release(wire.now_ms)
    assert wire.engine.reply_pool.used_bytes == wire.engine.request_pool.used_bytes == 0
    assert policy.completed == [(1, Outcome.DISCONNECTED)]


def test_a_policy_that_hears_only_how_requests_end_gets_errors():
    """`on_complete` alone is enough for `hears_body`."""

    class Ends(Hearer):
        on_response = Recorder.__mro__[1].on_response

    policy = Ends({f.HEARTBEAT})
    Wire(make_engine([policy])).client(f.beat(1)).broker(f.reply(1, BEAT_BODY), chunk=5)
    assert policy.results == [{None: 27}]
