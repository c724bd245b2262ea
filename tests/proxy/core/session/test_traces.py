"""The counters and traces of a session, case by case; test_counting checks their laws."""

from dataclasses import replace
from itertools import permutations, product

import pytest

from policies.api import EXEMPT, FORWARD, Forward, Hold, Need, Patch, Reject, Respond, Throttle
from proxy.core.session.channel import Mute
from tests.support.core.ledger import Ledger
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f


def listening(*policies, **options) -> tuple[Wire, Ledger]:
    ear = Ledger()
    engine = make_engine(policies, keeps_traces=True, **options)
    engine.observer = ear
    return Wire(engine), ear


def row(wire: Wire):
    """Return the counters of its key in the running second."""
    ends_ms = wire.engine.usage.ends_ms
    return wire.session.usage.take(ends_ms - 1000, ends_ms)


def test_a_throttle_may_exempt_its_request():
    """The client is muted, and no quota counts the request."""
    wire = Wire(make_engine([Recorder(lambda _: Throttle(500, forward=EXEMPT))]))
    wire.client(f.heartbeat(1) + f.heartbeat(2))
    assert wire.to_broker == f.heartbeat(1)
    assert wire.session.client.muted & Mute.THROTTLED
    counted = row(wire)
    assert (counted.requests, counted.charged, counted.exempt) == (1, 0, 1)


def test_a_request_that_is_exempt_and_patched_is_counted_as_exempt_and_forwarded_patched():
    """In either order of the policies, and whether the body is kept whole before the verdict or after it."""
    patch = Forward((Patch(2, b"GROUP"),))
    for verdicts, needs in product(permutations((EXEMPT, patch)), (Need.HEADER, Need.BODY)):
        policies = [Recorder(lambda _, said=said: said, needs=needs) for said in verdicts]
        wire = Wire(make_engine(policies))
        wire.client(f.heartbeat(1))
        assert wire.to_broker == f.heartbeat(1).replace(b"group", b"GROUP")
        counted = row(wire)
        assert (counted.requests, counted.charged, counted.exempt) == (1, 0, 1)


def told(wire: Wire) -> list[tuple[str, str, str]]:
    return [(each.policy, each.kind, each.api_name) for each in wire.watcher.refused]


REFUSED = Reject(44, message="it is late")


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("verdict", [REFUSED, Throttle(7, REFUSED)], ids=["reject", "throttled"])
def test_a_refusal_is_reported_with_the_entry_that_refused(place, verdict):
    """Alone, or at any place among others; the peer is reported too."""
    verdicts = [verdict if n == place else FORWARD for n in range(3)]
    for policies in ([verdict], verdicts):
        wire = Wire(make_engine([Recorder(lambda _, said=said: said) for said in policies]))
        wire.client(f.heartbeat(1))
        names = [entry.name for entry in wire.engine.chain.entries]
        name = names[policies.index(verdict)]
        assert told(wire) == [(name, "reject", "Heartbeat")]
        assert wire.watcher.refused[0].verdict == REFUSED
        assert wire.watcher.refused[0].peer.client_id == "tests"


@pytest.mark.parametrize("then", [FORWARD, REFUSED])
def test_a_refusal_of_a_held_request_is_reported_with_its_holder(then):
    """Whether the holder refuses when it is asked again, or by its `then` at the deadline."""
    said = iter([Hold(100, "key", then), REFUSED])
    policies = [Recorder(), Recorder(lambda _: next(said)), Recorder()]
    wire = Wire(make_engine(policies))
    wire.client(f.heartbeat(1))
    assert told(wire) == []
    if then is FORWARD:
        wire.wake("key")
    else:
        wire.advance(100)
    (entry,) = [each for each in wire.engine.chain.entries if each.policy is policies[1]]
    assert [each[0] for each in told(wire)] == [entry.name]


@pytest.mark.parametrize("needs", [Need.HEADER, Need.BODY])
def test_a_policys_reply_that_refuses_is_reported_like_any_refusal(needs):
    """A reply that does not refuse is not reported."""
    verdicts = [Respond(b"\x00\x2c", REFUSED), Respond(b"\x00\x00")]
    wire, ear = listening(Recorder(lambda _: verdicts.pop(0), needs=needs))
    told = []
    ear.on_policy_refused = told.append
    wire.client(f.heartbeat(1)).client(f.heartbeat(2))
    assert [(each.policy, each.kind, each.message) for each in told] == [
        ("p0", "reject", "it is late")
    ]
    assert [(trace.refused, trace.refused_by) for trace in ear.traces if trace.is_news] == [
        (44, "p0")
    ]
    assert wire.to_client == f.reply(1, b"\x00\x2c") + f.reply(2, b"\x00\x00")


def test_a_request_of_two_reads_has_a_receive_stage_when_it_becomes_reportable_later():
    """The time that its client took to send it is no reason to trace it, but belongs to its trace."""
    wire, ear = listening(Recorder(lambda _: REFUSED, needs=Need.BODY))
    frame = f.heartbeat(1)
    wire.client(frame[:-3]).advance(250)
    wire.client(frame[-3:])
    (trace,) = ear.traces
    assert [(each.kind, each.ended_us - each.began_us) for each in trace.stages] == [
        ("receive", 250_000)
    ]


def test_a_throttle_follows_a_client_that_changes_its_name():
    """The rest of its muted time counts for its new user and client id."""
    wire = Wire(make_engine([Recorder(lambda _: Throttle(500))]))
    wire.client(f.heartbeat(1))
    first = wire.session.usage
    assert first.blocked.count == 1
    wire.session.become(replace(wire.session.peer, user="alice", client_id="app"))
    assert first.blocked.count == 0
    assert wire.session.usage.blocked.count == 1
    wire.advance(500)
    assert wire.session.usage.blocked.count == 0
