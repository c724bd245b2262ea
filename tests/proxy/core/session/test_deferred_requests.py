"""Requests of the general path that wait for a turn, because other sessions wait: the outcome stays the same."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Need, Reject
from proxy.core.engine import Engine
from proxy.core.session.channel import ATTENTION
from proxy.core.session.exchange import Exchange, ObservedExchange
from proxy.core.turns import SHORT_LABOUR_BYTES, TURN_LABOUR_BYTES, Turns
from tests.support.core.policies import Recorder, Silent
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.errors import ErrorCode

LABOUR = st.lists(
    st.sampled_from([0, 0, SHORT_LABOUR_BYTES, TURN_LABOUR_BYTES]), min_size=1, max_size=12
)


class GivenLabour(Turns):
    """Gives each read the next of these labours, and a whole turn after the last."""

    def __init__(self, labour: Iterator[int]) -> None:
        self._labour = labour
        super().__init__()

    @property
    def labour_bytes(self) -> int:
        return next(self._labour, TURN_LABOUR_BYTES)

    @labour_bytes.setter
    def labour_bytes(self, _: int) -> None:
        pass


def refuse(request):
    return Reject(ErrorCode.POLICY_VIOLATION) if request.api_key == f.DELETE_TOPICS else FORWARD


def make(kind: str) -> Engine:
    """Return an engine with policies that keep every request whole, refuse some, or want the heads of Produces."""
    return {
        "none": make_engine,
        "refused": lambda: make_engine([Recorder(refuse)]),
        "bodies": lambda: make_engine([Recorder(refuse, needs=Need.BODY)]),
        "heads": lambda: make_engine([Silent(needs=Need.HEAD)]),
    }[kind]()


def stream(kinds: list[int]) -> bytes:
    """Return requests of several kinds: usual, odd, large, without reply, and to be refused."""
    makers = (
        f.heartbeat,
        lambda n: f.heartbeat(n, client_id=f"client-{n}"),
        lambda n: f.produce(n, size_bytes=3_000),
        lambda n: f.produce(n, acks=0),
        lambda n: f.request(f.DELETE_TOPICS, 1, n, bytes(8)),
    )
    return b"".join(makers[kind](number) for number, kind in enumerate(kinds))


def in_flight(wire: Wire) -> list[int]:
    """Return the correlation ids of the requests that wait for the broker; -1: answered by Sluice, in order."""
    return [getattr(each, "correlation_id", -1) for each in wire.session.queue]


@pytest.mark.parametrize("kind", ["none", "refused", "bodies", "heads"])
@given(
    kinds=st.lists(st.integers(0, 4), min_size=1, max_size=20),
    chunk=st.integers(1, 5_000),
    labour=LABOUR,
)
def test_the_outcome_does_not_depend_on_the_labour_of_each_read(kind, kinds, chunk, labour):
    """Bytes, order and accounts are those of a client that is alone."""
    data = stream(kinds)
    alone = Wire(make(kind)).client(data, chunk)
    engine = make(kind)
    engine.turns = GivenLabour(iter(labour))
    engine.schedule = engine.turns.add
    wire = Wire(engine).client(data, chunk)
    assert wire.to_broker == alone.to_broker
    assert wire.to_client == alone.to_client
    assert wire.session.reason is alone.session.reason
    assert in_flight(wire) == in_flight(alone)
    assert wire.session.usage.requests == alone.session.usage.requests
    wire.release()
    assert wire.held_bytes == 0


def read(wire: Wire, data: bytes) -> int:
    """Pass one read while other sessions wait for turns; return `stop`."""
    wire.engine.turns.labour_bytes = 0
    buf = bytearray(data)
    return wire.session.from_client(buf, 0, len(buf), 0)


def test_a_whole_request_of_the_general_path_waits_for_a_turn():
    """Nothing of it is handled before, and all of it is counted."""
    wire = Wire(make("refused"))
    request = f.request(f.DELETE_TOPICS, 1, 1, bytes(8))
    assert read(wire, request) == ATTENTION
    assert wire.session.paced
    assert wire.session.ready
    assert wire.held_bytes == len(request)
    wire.proceed()
    assert len(f.split(wire.to_client)) == 1


def test_the_first_request_of_a_kind_waits_for_a_turn():
    """Its plan is expensive to make. Without such a wait it takes the fast path as later ones do."""
    wire = Wire()
    assert read(wire, f.heartbeat(1)) == ATTENTION
    assert wire.session.paced
    wire.proceed()
    assert wire.to_broker == f.heartbeat(1)


def test_a_read_makes_the_plan_of_one_kind_on_the_fast_path():
    """Requests of another new kind in it, and those after them, take the general path, which turns bound."""
    data = f.heartbeat(1) + f.heartbeat(2) + f.produce(3) + f.heartbeat(4)
    wire = Wire().client(data).client(f.produce(5))
    kinds = [type(each) for each in wire.session.queue]
    assert kinds == [Exchange, Exchange, ObservedExchange, ObservedExchange, Exchange]
    assert wire.to_broker == data + f.produce(5)


def test_requests_of_the_fast_loop_wait_for_no_turn():
    """They cost little, so they pass although other sessions wait."""
    wire = Wire().client(f.heartbeat(1)).broker(f.heartbeat_reply(1))
    assert read(wire, f.heartbeat(2) + f.heartbeat(3)) == 2 * len(f.heartbeat(2))
    assert not wire.session.ready


def test_a_request_longer_than_the_read_begins_at_once():
    """Large requests stream without a copy then too."""
    wire = Wire()
    data = f.produce(1, size_bytes=100_000)
    assert read(wire, data[:50_000]) == 50_000
    assert read(wire, data[50_000:]) == len(data) - 50_000
    assert not wire.session.ready


def test_the_end_of_a_kept_request_waits_for_a_turn():
    """Its policies are asked, and it is answered, in the turn."""
    policy = Recorder(needs=Need.BODY)
    wire = Wire(make_engine([policy]))
    data = f.heartbeat(1)
    read(wire, data[:-1])
    read(wire, data[-1:])
    assert wire.session.paced
    assert not policy.asked
    wire.proceed()
    wire.settle()
    assert wire.to_broker == data
