"""The observer: every hook is optional, and none is called for an ordinary request."""

import inspect

from policies.chain import Reporter
from proxy.core.observer import Observer
from proxy.telemetry.log import LogObserver
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from tests.support.messages.throttled import fetch

HOOKS = {name for name in vars(Observer) if name.startswith("on_")}
OFTEN = {"on_trace", "on_unmuted", "on_audited", "on_authentication_failed"}
"""Reported very often, or again by `on_session_closed`: for metrics, traces and the audit log, not for the
log."""


@for_each(sorted(HOOKS))
def test_a_hook_that_is_not_overridden_does_nothing(name):
    """Subclasses override the hooks that they need."""
    observer = Observer()
    hook = getattr(observer, name)
    assert hook(*[None] * len(inspect.signature(hook).parameters)) is None
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


def test_a_request_answered_in_the_brokers_place_is_reported_once():
    """With its client; a fetch that a drain answers early still had time, so the broker is not at fault."""
    wire = Wire().client(f.produce(1, client_id="billing"))
    wire.advance(29_499)
    assert wire.watcher.expired == []
    wire.advance(1)
    assert wire.watcher.expired == [("billing", "Produce")]
    wire = Wire().client(fetch(1))
    wire.drain()
    assert wire.to_client
    assert wire.watcher.expired == []


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
