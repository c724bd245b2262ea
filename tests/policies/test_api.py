"""The contract: a policy that overrides nothing, and the fields of verdicts."""

from dataclasses import FrozenInstanceError, replace

import msgspec
import pytest

from policies.api import (
    EXEMPT,
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Patch,
    Peer,
    Policy,
    PolicyConfigError,
    QuotaViolation,
    Reject,
    Respond,
    Throttle,
)
from policies.limits import Limits
from policies.live_changes import TakesLiveChanges
from policies.maintenance import Maintenance
from policies.responses import UNKNOWN
from policies.testing import BenchHost, BenchRequest, BenchResponse, PolicyBench
from wire import apis

PEER = Peer(1, "10.0.0.9", 40000)


def make() -> Policy:
    return Policy({"a": 1}, BenchHost("mine"))


def request() -> BenchRequest:
    facts = apis.find(apis.ApiKey.HEARTBEAT, 0)
    assert facts is not None
    return BenchRequest(facts)


def test_a_policy_that_overrides_nothing_forwards_all_and_listens_to_all():
    """It returns the object FORWARD, which the core compares by identity; its interests are the cheapest."""
    policy = make()
    assert policy.on_connect(PEER, 0) is FORWARD
    assert policy.on_request(request(), PEER, 0) is FORWARD
    assert policy.on_response(request(), BenchResponse(), PEER, 0) is FORWARD

    policy = make()
    before = dict(vars(policy))
    policy.on_complete(request(), Outcome.REPLIED, PEER, UNKNOWN, 0)
    policy.on_disconnect(PEER, 0)
    policy.on_tick(0)
    policy.adopt(make())
    policy.close()
    assert vars(policy) == before

    assert make().effective_quota("alice", "report") is None

    policy = make()
    assert policy.config == {"a": 1}
    assert policy.host.name == "mine"

    assert Policy.apis is None
    assert Policy.response_apis is None
    assert Policy.needs is Need.HEADER
    assert Policy.tick_ms == 0


def test_verdicts_do_no_more_than_they_are_told():
    """Verdicts with the same effect are equal, whatever their reasons; needs are ordered for the chain."""
    why = QuotaViolation("user=alice", "request_rate", 12.0, 10.0)
    assert Throttle(5, why=why) == Throttle(5)
    assert Hold(5, "key", why=why) == Hold(5, "key") != Hold(5, "key", throttles=True)
    assert EXEMPT == FORWARD
    assert EXEMPT is not FORWARD

    assert Need.HEADER < Need.HEAD < Need.BODY

    assert Forward() == FORWARD == Forward(patches=(), body=None)
    assert Forward(patches=(Patch(0, b"\x01"),)) != FORWARD
    assert Forward(body=b"") != FORWARD

    assert Throttle(5).forward is FORWARD
    assert Throttle(5) == Throttle(5, FORWARD) != Throttle(5, Reject(44))
    assert Hold(5, "key").then is FORWARD
    assert Hold(5, ("any", "hashable")) != Hold(5, "key")

    assert not Reject(44).close
    assert Reject(44) != Reject(44, close=True)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (PEER, "client_id"),
        (FORWARD, "body"),
        (Patch(0, b"x"), "offset"),
        (Respond(b"x"), "body"),
        (Reject(1), "code"),
        (Hold(1, "key"), "watch"),
    ],
)
def test_values_between_core_and_policy_are_frozen(value, name):
    """A peer is replaced when more is known; a verdict never changes. A Throttle is not frozen: it is made often."""
    with pytest.raises(FrozenInstanceError):
        setattr(value, name, None)


def test_a_peer_is_anonymous_on_the_bootstrap_port_until_more_is_known():
    """Its identity is learnt, never guessed."""
    assert (PEER.client_id, PEER.user, PEER.node_id) == ("", "ANONYMOUS", None)
    assert PEER.principal_source == "none"
    assert replace(PEER, client_id="app").session_id == PEER.session_id


@pytest.mark.parametrize(
    ("path", "text"), [("", "no good"), ("rates[2].limit", "rates[2].limit: no good")]
)
def test_a_refused_setting_says_where_it_stands(path, text):
    """The path is the key below the entry's config; it is empty for the whole config."""
    error = PolicyConfigError(path, "no good")
    assert str(error) == text
    assert (error.path, error.message) == (path, "no good")
    assert isinstance(error, ValueError)


def test_a_policy_with_both_methods_takes_live_changes() -> None:
    """Its state is an object that JSON has, and the policy takes it as a change; others are changed by a reload."""
    policy = PolicyBench(Maintenance, {"pauses": [{"topic": "orders"}]}).policy
    assert isinstance(policy, TakesLiveChanges)
    shown = msgspec.json.decode(msgspec.json.encode(policy.live_state()))
    policy.change_live({"pauses": shown["settings"]}, 0)
    assert msgspec.to_builtins(policy.live_state())["pauses"][0]["topic"] == "orders"

    assert not isinstance(PolicyBench(Limits, {}).policy, TakesLiveChanges)
