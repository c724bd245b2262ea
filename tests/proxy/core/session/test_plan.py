"""Plans: which requests one holds for, and which of them take the fast loops."""

from dataclasses import replace

import pytest

from policies.api import FORWARD, Need, Peer, Policy
from policies.chain import Hooks
from policies.testing import BenchHost
from proxy.core.engine import Engine
from proxy.core.session.paths import ASKED, GENERAL, HEARD, IF_UNTAGGED, PASSES, SHOWN
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


NAMES_BROKERS = {"key": ApiKey.PRODUCE, "version": 10, "carries_addresses": True, "acks": -1}
JUDGES = Hooks(on_request=on_request)
HEAD, BODY = (Hooks(need=need, on_request=on_request) for need in (Need.HEAD, Need.BODY))


@pytest.mark.parametrize(
    ("hooks", "facts", "request_path", "reply_path"),
    [
        (NO_HOOKS, {}, PASSES, PASSES),
        (NO_HOOKS, {"acks": -1}, PASSES, PASSES),
        (NO_HOOKS, {"acks": 1}, PASSES, PASSES),
        (NO_HOOKS, {"acks": 0}, ASKED, PASSES),  # it opens no slot in the queue
        (NO_HOOKS, {"rewrite": rewrite}, PASSES, HEARD),
        (NO_HOOKS, {"rewrite": rewrite, **NAMES_BROKERS}, PASSES, IF_UNTAGGED),
        (JUDGES, {}, ASKED, PASSES),
        (Hooks(on_response=on_response), {}, ASKED, HEARD),
        (Hooks(on_complete=on_complete), {}, ASKED, HEARD),
        # what a policy needs beyond the header is read first
        (HEAD, {}, SHOWN, PASSES),
        (BODY, {}, SHOWN, PASSES),
        # the topics of a Produce are complete only after its last byte
        (HEAD, {"acks": -1, "key": ApiKey.PRODUCE}, GENERAL, PASSES),
        # Sluice reads the requests of a sign-on, and whether a quota counts one depends on the session
        *((NO_HOOKS, {"key": key}, GENERAL, PASSES) for key in (17, 18, 36)),
    ],
)
def test_the_paths_of_request_and_reply_follow_from_the_hooks_and_the_api(
    hooks, facts, request_path, reply_path
):
    """The fast loops handle what no policy is asked about, and what it decides by the header."""
    plan = make(hooks, **facts)
    assert (plan.request_path, plan.reply_path) == (request_path, reply_path)
    assert plan.silent == (facts.get("acks") == 0)
    assert plan.on_request is hooks.on_request
    assert plan.answer is None


def test_kinds_that_are_alike_count_together():
    """All plans of an API share its meter; with meters by key, those of one speaker do."""
    engine = make_engine()
    assert make(engine=engine).meter is make(acks=1, engine=engine).meter
    assert make(engine=engine, key=99).meter is not make(engine=engine).meter
    by_key = make_engine(meters_by_key=True)
    plan = make(engine=by_key)
    assert (plan.meter.user, plan.meter.client_id) == (PEER.user, PEER.client_id)
    assert plan.request_path == PASSES  # the fast loop counts bytes as well then
    assert plan.tally is plan.meter
    assert make(engine=engine).tally is None


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


def test_a_watched_plan_differs_in_its_replies_only():
    """It is made once, and its replies do not pass."""
    plan = make()
    watched = plan.watched()
    assert (watched.request_path, watched.reply_path) == (ASKED, HEARD)
    assert watched.meter is plan.meter
    assert plan.watched() is watched
    assert (plan.request_path, plan.reply_path) == (PASSES, PASSES)


def test_an_api_with_a_bound_of_its_own_keeps_it_for_its_body():
    """A DescribeClientQuotas has a mebibyte after its header, however long that is."""
    for client_id in ("c", "c" * 300):
        wire = Wire()
        wire.client(f.request(48, 0, 1, bytes(5), client_id=client_id))
        (plan,) = wire.session.plans.by_kind.values()
        assert plan.max_bytes == (1 << 20) + 8 + 2 + len(client_id)
        assert plan.min_bytes == 8 + len(plan.prefix)


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


def test_the_plan_looked_up_last_is_that_of_the_last_kind_and_is_forgotten_with_the_others():
    """The fast loop takes it without a lookup."""
    wire = Wire()
    plans = wire.session.plans
    for number in (1, 3, 5):  # the first request makes the plan, the second finds it
        wire.client(f.produce(number)).client(f.produce(number + 1))
        assert plans.last_plan is plans.by_kind[f.PRODUCE << 16 | 3]
        wire.client(f.beat(number + 10)).client(f.beat(number + 20))
        assert plans.last_plan is plans.by_kind[plans.last_kind]
        assert plans.last_plan.api.name == "Heartbeat"
    wire.client(f.produce(7, acks=1))
    wire.client(f.produce(8, acks=1))
    assert plans.last_plan.acks == 1
    plans.clear()
    assert plans.last_plan is None
    wire.client(f.produce(9))
    wire.client(f.produce(10))
    assert plans.last_plan.acks == -1


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
