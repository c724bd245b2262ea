"""Policies may take a large reply in turns: others have theirs meanwhile, and the client notices nothing."""

import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, InTurns, Outcome, Throttle
from policies.responses import Replace
from proxy.core.errors import CloseReason
from tests.support.core.hearing import Hearer
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.waiting import fetch_waiting

BODY = struct.pack(">ih", 0, 27) + b"x" * 20_000
"""Of a Heartbeat v1, with more than it has: a large reply whose throttle time is found."""
AFTER = struct.pack(">ih", 5, 0) + b"new"


def in_turns(
    pauses: int, verdict: object = Replace(AFTER), then: Callable[[], None] = lambda: None
) -> Callable[[object], InTurns]:
    """Return what judges a reply in so many turns and one."""

    def steps() -> Iterator[None]:
        for _ in range(pauses):
            yield
        then()
        return verdict

    return lambda _: InTurns(steps())


@given(
    st.integers(0, 5),
    st.sampled_from([1, 1000, 9999, 30_000, 1 << 18]),
    st.integers(0, 3),
    st.sampled_from([b"", b"x" * 20_000]),
)
def test_a_reply_leaves_after_the_last_turn_and_those_behind_it_follow(
    pauses: int, chunk: int, others: int, rest: bytes
) -> None:
    """However it is cut; a small reply is taken in turns, too."""
    policy = Hearer({f.HEARTBEAT}, in_turns(pauses))
    wire = Wire(make_engine([policy]))
    requests = b"".join(f.produce(2 + place) for place in range(others)) + f.beat(9)
    replies = b"".join(f.produce_reply(2 + place) for place in range(others))
    wire.client(f.beat(1) + requests)
    body = struct.pack(">ih", 0, 27) + rest
    data = f.reply(1, body) + replies + f.reply(9, body)
    wire.broker(data, chunk=max(chunk, len(data) // 200))
    assert wire.to_client == f.reply(1, AFTER) + replies + f.reply(9, AFTER)
    assert wire.held_bytes == 0
    assert not wire.session.broker.muted
    assert policy.completed[0] == (1, Outcome.REPLIED)


def test_each_turn_is_one_step_and_nothing_is_read_of_the_broker_meanwhile() -> None:
    """A session that waits has its turn between two steps."""
    engine = make_engine([Hearer({f.HEARTBEAT}, in_turns(3))])
    wire = Wire(engine)
    wire.client(f.beat(1))
    wire._read(wire.session.broker, wire.session.from_broker, f.reply(1, BODY), "to_client")
    for _ in range(2):
        assert wire.session.hears_in_turns
        assert wire.to_client == b""
        assert wire.held_bytes >= len(BODY)
        assert not wire.session.is_at_rest
        session = engine.turns.take()
        assert session is wire.session
        wire.settle()
        wire.hear()
        engine.turns.end(session, 0)
    wire.give_turns()
    assert wire.to_client == f.reply(1, AFTER)
    assert wire.session.is_at_rest


def test_every_policy_of_the_chain_may_take_its_turns() -> None:
    """Each sees the body of the one below, and the largest throttle counts."""
    below = Hearer({f.HEARTBEAT}, in_turns(2, Throttle(300, Replace(AFTER))))
    above = Hearer({f.HEARTBEAT}, in_turns(1, Throttle(100)))
    wire = Wire(make_engine([above, below])).client(f.beat(1)).broker(f.reply(1, BODY))
    assert above.replies == [AFTER]
    assert wire.to_client == f.reply(1, struct.pack(">i", 300) + AFTER[4:])


@pytest.mark.parametrize("on_error", ["close", "forward"])
def test_a_fault_in_a_later_turn_is_the_policys(on_error: str) -> None:
    """As one in the first."""

    def fails() -> None:
        raise ValueError("bug")

    policy = Hearer({f.HEARTBEAT}, in_turns(2, then=fails))
    wire = Wire(make_engine([policy], on_error=on_error))
    wire.client(f.beat(1)).broker(f.reply(1, BODY))
    if on_error == "forward":
        assert wire.to_client == f.reply(1, BODY)
    else:
        assert wire.session.reason is CloseReason.POLICY_FAULT
        assert wire.to_client == b""
        wire.release()
    assert wire.watcher.policy_errors == [("p0", "on_response")]
    assert wire.held_bytes == 0


def test_a_policy_that_hears_no_bodies_takes_no_turns() -> None:
    """Its reply may have left already."""
    wire = Wire(make_engine([Hearer((), in_turns(1))])).client(f.beat(1)).broker(f.reply(1, BODY))
    assert wire.session.reason is CloseReason.POLICY_FAULT


def test_a_reply_that_is_taken_in_turns_ends_with_its_session() -> None:
    """Its memory is free, and the policy is told: the generator is closed."""
    closed: list[bool] = []

    def steps() -> Iterator[None]:
        try:
            while True:
                yield
        finally:
            closed.append(True)

    policy = Hearer({f.HEARTBEAT}, lambda _: InTurns(steps()))
    wire = Wire(make_engine([policy])).client(f.beat(1))
    wire._read(wire.session.broker, wire.session.from_broker, f.reply(1, BODY) * 2, "to_client")
    assert wire.session.hears_in_turns
    wire.session.end(CloseReason.CLIENT_CLOSED, "", wire.now_ms)
    wire.release()
    assert closed == [True]
    assert policy.completed == [(1, Outcome.DISCONNECTED)]
    assert (wire.to_client, wire.held_bytes, wire.watcher.policy_errors) == (b"", 0, [])


def test_a_broker_whose_reply_is_taken_in_turns_is_not_silent() -> None:
    """No answer of Sluice takes its place, however long the turns take, and not at a drain."""
    policy = Hearer({f.FETCH}, lambda _: InTurns(iter_of(500)))
    wire = Wire(make_engine([policy])).client(fetch_waiting(1))
    reply = f.reply(1, struct.pack(">ii", 0, 0) + b"r" * 20_000)
    wire._read(wire.session.broker, wire.session.from_broker, reply, "to_client")
    for _ in range(20):
        wire.engine.advance(wire.now_ms + 1000)
    assert wire.session.hears_in_turns
    wire.drain()
    assert wire.to_client == reply
    assert wire.watcher.expired == []
    assert wire.session.ended


def iter_of(count: int) -> Iterator[None]:
    """Pause so often, and forward the reply."""
    for _ in range(count):
        yield
    return FORWARD
