"""The observer: every hook is optional, and none is called for an ordinary request."""

import inspect

from policies.api import Peer, Reject
from policies.chain import Reporter
from policies.decision import PolicyDecision
from proxy.core.errors import CloseReason
from proxy.core.observer import AuthenticationFailure, Observer
from proxy.core.stats.request_trace import RequestTrace
from proxy.telemetry.log import LogObserver
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.throttled import fetch

PEER = Peer(1, "10.0.0.9", 40000)
RULING = PolicyDecision("mine", Reject(44), PEER, "Fetch", 7)
TELLINGS = {
    "on_session_opened": (PEER,),
    "on_session_closed": (PEER, CloseReason.DRAINED, "detail"),
    "on_authentication_failed": (PEER, AuthenticationFailure("PLAIN", "bob", "wrong", 7)),
    "on_handshake_failed": ("10.0.0.9", 40000, "the client speaks no TLS"),
    "on_bootstrap_closed": (PEER, "kafka-1:9092", "tls"),
    "on_node_learned": (1, "kafka-1", 9092),
    "on_unmapped_node": (99,),
    "on_trace": (RequestTrace(0),),
    "on_unmuted": (RequestTrace(0), 1_000),
    "on_second": (1_000, ()),
    "on_expired": (PEER, "Fetch"),
    "on_pool_depleted": ("requests",),
    "on_pool_recovered": ("requests", 7),
    "on_accept_delayed": ("max_connections", 96),
    "on_descriptors_exhausted": ("Too many open files",),
    "on_internal_error": (RuntimeError("bug"),),
    "on_policy_error": ("mine", "on_request", RuntimeError("bug")),
    "on_policy_observed": (RULING,),
    "on_policy_refused": (RULING,),
    "on_audited": (RequestTrace(0),),
    "on_policy_message": ("mine", "info", "found", {"topic": "orders"}),
    "on_policy_slow": ("mine", "on_request", "Fetch", 5_000),
    "on_slow_step": (50, ["mine"]),
}
HOOKS = {name for name in vars(Observer) if name.startswith("on_")}
OFTEN = {"on_trace", "on_unmuted", "on_audited", "on_authentication_failed"}
"""Reported very often, or again by `on_session_closed`: for metrics, traces and the audit log, not for the
log."""


def test_the_lists_above_have_every_hook():
    """A new hook must be added to one of them, and is then covered by the tests below."""
    assert set(TELLINGS) == HOOKS


@for_each(sorted(TELLINGS))
def test_a_hook_that_is_not_overridden_does_nothing(name):
    """Subclasses override the hooks that they need."""
    observer = Observer()
    getattr(observer, name)(*TELLINGS[name])
    assert vars(observer) == {}


def test_the_log_overrides_every_hook_for_rare_events():
    """An event without a listener would be lost; frequent events are not logged, but it sums up by the second."""
    assert {name for name in HOOKS if name in vars(LogObserver)} == HOOKS - OFTEN


def test_the_observer_has_the_hooks_of_the_chain():
    """Names and arguments are the same."""
    for name, hook in inspect.getmembers(Reporter, inspect.isfunction):
        if name.startswith("on_"):
            ours = inspect.signature(getattr(Observer, name))
            assert list(ours.parameters) == list(inspect.signature(hook).parameters)


def test_a_request_answered_in_the_brokers_place_is_reported():
    """It is reported once, with its client."""
    told: list[tuple[str, str]] = []

    class Listening(Observer):
        def on_expired(self, peer: Peer, api_name: str) -> None:
            told.append((peer.client_id, api_name))

    engine = make_engine()
    engine.observer = Listening()
    wire = Wire(engine).client(f.produce(1, client_id="billing"))
    wire.advance(29_499)
    assert told == []
    wire.advance(1)
    assert told == [("billing", "Produce")]


def test_a_request_that_a_drain_answers_early_is_not_reported():
    """The broker is not at fault: the fetch still had time."""
    told: list[str] = []

    class Listening(Observer):
        def on_expired(self, peer: Peer, api_name: str) -> None:
            told.append(api_name)

    engine = make_engine()
    engine.observer = Listening()
    wire = Wire(engine).client(fetch(1))
    wire.drain()
    assert wire.to_client
    assert told == []


def test_no_hook_is_called_for_an_ordinary_request():
    """A thousand requests lead to calls for their session only."""
    told: list[str] = []

    class Counting(Observer):
        def __getattribute__(self, name: str) -> object:
            if name in HOOKS:
                told.append(name)
            return super().__getattribute__(name)

    engine = make_engine()
    engine.observer = Counting()
    wire = Wire(engine)
    for n in range(1000):
        wire.client(f.heartbeat(n)).broker(f.heartbeat_reply(n))
    wire.release()
    assert told == ["on_session_opened", "on_session_closed"]
