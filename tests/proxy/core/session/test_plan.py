"""Plans: which requests one holds for, and which of them take the fast loops."""

from dataclasses import replace

import pytest

from policies.api import FORWARD, Need, Peer, Policy
from policies.chain import Hooks
from policies.testing import BenchHost
from proxy.core.engine import Engine
from proxy.core.session.plan import Plan
from proxy.core.session.shared_state import NEVER_US
from proxy.core.stats.histogram import FINE_US
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire import apis
from wire.apis import Api, ApiKey

PEER = Peer(1, "10.0.0.9", 40000)
NO_HOOKS = Hooks()


def on_request(request, peer, now_ms):
    return FORWARD


def on_response(request, response, peer, now_ms):
    return FORWARD


def on_complete(request, outcome, peer, result, now_ms):
    return None


def rewrite(buf, start, end):
    return None


def api(key: int = ApiKey.HEARTBEAT) -> Api:
    found = apis.find(key, apis.OFFERED[key][0])
    assert found is not None
    return found


def make(
    hooks: Hooks = NO_HOOKS,
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


def test_requests_without_hooks_are_simple():
    """They are forwarded and paired with their replies, and no more."""
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
def test_requests_with_a_hook_are_not_simple(hooks):
    """A hook before or after the request needs all of its fields."""
    assert not make(hooks).simple


@pytest.mark.parametrize(
    ("need", "fast"), [(Need.HEADER, True), (Need.HEAD, False), (Need.BODY, False)]
)
def test_what_a_policy_needs_beyond_the_header_is_read_first(need, fast):
    """A head, a body or names are read, and then the policy is asked."""
    plan = make(Hooks(need=need, on_request=on_request))
    assert (plan.fast, plan.reads) == (fast, not fast)


def test_a_produce_of_which_a_policy_needs_the_head_streams_past_a_walker():
    """Its topics are complete only after its last byte, so it is not judged in the read."""
    plan = make(Hooks(need=Need.HEAD, on_request=on_request), acks=-1, key=ApiKey.PRODUCE)
    assert not plan.reads


def test_a_produce_without_acks_gets_no_reply_and_is_fast_and_not_simple():
    """It opens no slot in the queue."""
    plan = make(acks=0)
    assert plan.silent
    assert not plan.simple
    assert plan.fast
    assert not plan.simple


@pytest.mark.parametrize("acks", [None, -1, 1])
def test_every_request_but_one_with_acks_0_gets_a_reply(acks):
    """With acks=1, with acks=all, and without an acks field."""
    plan = make(acks=acks)
    assert not plan.silent
    assert plan.simple


@pytest.mark.parametrize(
    ("hooks", "change", "plain"),
    [
        (NO_HOOKS, None, True),
        (Hooks(on_request=on_request), None, True),
        (NO_HOOKS, rewrite, False),
        (Hooks(on_response=on_response), None, False),
        (Hooks(on_complete=on_complete), None, False),
    ],
)
def test_replies_without_a_hook_or_a_rewrite_are_plain(hooks, change, plain):
    """A hook on the request alone does not change that."""
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
def test_a_request_is_slow_by_the_setting_and_a_fetch_may_wait_as_well(key, wait_ms, slow_us):
    """The wait of a Fetch is added to slow_ms; fine_us is never above slow_us."""
    plan = make(key=key, wait_ms=wait_ms, engine=make_engine(slow_ms=70))
    assert plan.slow_us == slow_us
    assert plan.fine_us == FINE_US
    assert make(engine=make_engine(slow_ms=7)).fine_us == 7_000


def test_no_request_is_slow_without_the_setting():
    """slow_us is NEVER_US at least."""
    assert make().slow_us >= NEVER_US


def test_the_fast_loop_takes_no_request_of_a_sign_on():
    """Sluice reads them, and whether a quota counts one depends on the session."""
    assert [make(key=key).fast for key in (17, 18, 36, 12)] == [False, False, False, True]
    assert not make(key=17).spared


def test_a_watched_plan_differs_in_its_replies_only():
    """It is made once, and its replies are not plain."""
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


def test_an_api_with_a_bound_of_its_own_keeps_it_for_its_body():
    """A DescribeClientQuotas has a mebibyte after its header, however long that is."""
    for client_id in ("c", "c" * 300):
        wire = Wire()
        wire.client(f.request(48, 0, 1, bytes(5), client_id=client_id))
        (plan,) = wire.session.plans.by_kind.values()
        assert plan.max_bytes == (1 << 20) + 8 + 2 + len(client_id)


def test_a_plan_is_found_by_api_client_id_and_acks():
    """The same again finds the plan; other acks or another client id do not."""
    wire = Wire()

    def plan_after(data: bytes) -> Plan:
        wire.client(data)
        return wire.session.plans.by_kind[f.PRODUCE << 16 | 3]

    first = plan_after(f.produce(1))
    assert plan_after(f.produce(2, topic="other", size_bytes=5)) is first
    weak = plan_after(f.produce(3, acks=1))
    assert (first.acks, weak.acks) == (-1, 1)
    assert plan_after(f.produce(4, acks=1, client_id="testy")).peer.client_id == "testy"


def test_a_policy_that_only_hears_replies_sees_every_field_of_the_request():
    """No policy was asked about the request itself."""

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
