"""Plans: for which requests one holds, and which of them need no more than a glance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from policies.api import FORWARD, Need, Peer, Policy
from policies.chain import Hooks
from policies.testing import BenchHost
from proxy.core.session.plan import Plan
from proxy.core.session.shared_state import NEVER_US
from proxy.core.stats.histogram import FINE_US
from tests.support import frames as f
from tests.support.sessions import Wire, make_engine
from wire import apis
from wire.apis import Api, ApiKey

if TYPE_CHECKING:
    from proxy.core.engine import Engine

PEER = Peer(1, "10.0.0.9", 40000)
NOBODY = Hooks()


def on_request(request, peer, now_ms):
    return FORWARD


def on_response(request, response, peer, now_ms):
    return FORWARD


def on_complete(request, outcome, now_ms):
    return None


def rewrite(buf, start, end):
    return None


def api(key: int = ApiKey.HEARTBEAT) -> Api:
    found = apis.find(key, apis.OFFERED[key][0])
    assert found is not None
    return found


def make(
    hooks: Hooks = NOBODY,
    acks: int | None = None,
    rewrite=None,
    *,
    wait_ms: int = 0,
    engine: Engine | None = None,
    **facts: int,
) -> Plan:
    described = replace(api(), **facts)
    prefix = b"\x00\x05tests"
    engine = engine or make_engine()
    usage = engine.usage.join(PEER.user, PEER.client_id, 0)
    return Plan(described, PEER, prefix, acks, hooks, rewrite, 1000, engine, usage, wait_ms)


def test_requests_that_nobody_asks_about_are_simple():
    """They pass, they are paired with their replies, and that is all."""
    plan = make()
    assert (plan.simple, plan.fast, plan.plain, plan.silent) == (True, True, True, False)
    assert plan.on_request is None
    assert plan.answer is None


@pytest.mark.parametrize(
    "hooks",
    [
        Hooks(on_request=on_request),
        Hooks(on_response=on_response),
        Hooks(on_complete=on_complete),
        Hooks(need=Need.HEAD, on_request=on_request),
    ],
    ids=["request", "reply", "end", "head"],
)
def test_requests_that_somebody_asks_about_are_not(hooks):
    """Whoever asks, before or after, gets a request with all its fields."""
    assert not make(hooks).simple


@pytest.mark.parametrize(
    ("need", "fast"), [(Need.HEADER, True), (Need.HEAD, False), (Need.BODY, False)]
)
def test_only_who_is_content_with_the_header_is_asked_in_the_fast_loop(need, fast):
    """Everything else has to be looked into first."""
    plan = make(Hooks(need=need, on_request=on_request))
    assert plan.fast is fast
    assert plan.on_request is (on_request if fast else None)


def test_a_produce_without_acks_gets_no_reply_and_is_fast_and_not_simple():
    """It opens no slot in the queue."""
    plan = make(acks=0)
    assert plan.silent
    assert not plan.simple
    assert plan.fast
    assert not plan.simple


@pytest.mark.parametrize("acks", [None, -1, 1])
def test_whatever_else_is_asked_for_is_replied_to(acks):
    """Acks of one or of all; no acks field at all."""
    plan = make(acks=acks)
    assert not plan.silent
    assert plan.simple


@pytest.mark.parametrize(
    ("hooks", "change", "plain"),
    [
        (NOBODY, None, True),
        (Hooks(on_request=on_request), None, True),
        (NOBODY, rewrite, False),
        (Hooks(on_response=on_response), None, False),
        (Hooks(on_complete=on_complete), None, False),
    ],
)
def test_replies_that_nobody_hears_or_changes_are_plain(hooks, change, plain):
    """Being asked about the request is not being told of the reply."""
    assert make(hooks, rewrite=change).plain is plain


def test_with_a_meter_for_each_key_the_fast_loop_counts_bytes_as_well():
    """It stays the fast loop: only then there is a tally."""
    plan = make(engine=make_engine(meters_by_key=True))
    assert plan.simple
    assert plan.plain
    assert plan.tally is plan.meter
    assert make(engine=make_engine()).tally is None


def test_kinds_that_are_alike_count_together():
    """All plans of an API share its meter; with meters by key, those of one speaker do."""
    engine = make_engine()
    assert make(engine=engine).meter is make(acks=1, engine=engine).meter
    assert make(engine=engine, key=99).meter is not make(engine=engine).meter
    by_key = make_engine(meters_by_key=True)
    meter = make(engine=by_key).meter
    assert (meter.user, meter.client_id) == (PEER.user, PEER.client_id)


@pytest.mark.parametrize(
    ("key", "wait_ms", "slow_us"),
    [
        (ApiKey.HEARTBEAT, 0, 70_000),
        (ApiKey.PRODUCE, 29_500, 70_000),
        (ApiKey.FETCH, 500, 570_000),
    ],
)
def test_what_is_slow_is_the_operators_word_and_a_fetch_may_wait(key, wait_ms, slow_us):
    """A fetch that waits for data as it was asked to is not slow; the fast loop sorts what it can by one look."""
    plan = make(key=key, wait_ms=wait_ms, engine=make_engine(slow_ms=70))
    assert plan.slow_us == slow_us
    assert plan.fine_us == FINE_US
    assert make(engine=make_engine(slow_ms=7)).fine_us == 7_000


def test_where_nothing_is_slow_nothing_ever_is():
    """A setting of 0."""
    assert make().slow_us >= NEVER_US


def test_no_quota_counts_what_makes_somebody_known():
    """SASL, which is listened to, and so never for the fast loop."""
    assert [(make(key=key).spared, make(key=key).fast) for key in (17, 36, 12)] == [
        (True, False),
        (True, False),
        (False, True),
    ]


def test_a_watched_plan_is_the_same_but_for_its_replies():
    """It is made once; whoever watches a request looks at its reply."""
    plan = make()
    twin = plan.watched()
    assert (twin.simple, twin.plain, twin.glance) == (False, False, None)
    assert twin.meter is plan.meter
    assert twin.fast
    assert plan.watched() is twin
    assert (plan.simple, plan.plain) == (True, True)


def test_a_plan_holds_for_frames_that_can_show_its_beginning():
    """Key, version and correlation id are eight bytes, then comes what is usual."""
    plan = make()
    assert plan.min_bytes == 8 + len(plan.prefix)
    assert plan.max_bytes == 1000


def test_an_api_with_a_bound_of_its_own_keeps_it():
    """The smaller of both holds."""
    assert make(request_max_bytes=300).max_bytes == 300
    assert make(request_max_bytes=3000).max_bytes == 1000


def test_one_comparison_tells_api_speaker_and_acks():
    """A client that says the same again is recognised; another acks, or another name, is not."""
    wire = Wire()

    def plan_after(data: bytes) -> Plan:
        wire.client(data)
        return wire.session.plans.by_kind[f.PRODUCE << 16 | 3]

    first = plan_after(f.produce(1))
    assert plan_after(f.produce(2, topic="other", size_bytes=5)) is first
    weak = plan_after(f.produce(3, acks=1))
    assert (first.acks, weak.acks) == (-1, 1)
    assert plan_after(f.produce(4, acks=1, client_id="testy")).peer.client_id == "testy"


def test_a_policy_that_only_hears_replies_sees_a_whole_request():
    """Every field of it, though nobody asked about the request."""

    class Hears(Policy):
        Config = dict
        seen: tuple | None = None

        def on_response(self, request, response, peer, now_ms):
            self.seen = (request.exchange_id, request.api_key, request.head, request.body)
            return FORWARD

    hears = Hears({}, BenchHost())
    wire = Wire(make_engine([hears]))
    for n in (1, 2):  # the second one finds its plan
        wire.client(f.heartbeat(n)).broker(f.heartbeat_reply(n))
    assert wire.watcher.policy_errors == []
    assert hears.seen == (2, ApiKey.HEARTBEAT, None, None)
