"""The delays of the family `api`: one for each throttled request, and all of the time that the family `entity` has."""

from random import Random

import pytest

from policies.api import FORWARD, Hold, Policy, Throttle
from policies.quota.policy import Quota
from proxy.core.stats.histogram import BUCKETS, bucket_of
from tests.support.core.holding import Holding
from tests.support.core.ledger import TimedWire, make_counting_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import fetch, fetch_reply
from tests.support.quotas.quota_plays import Play
from tests.support.quotas.quota_scripts import Script, script, short_throttles

SEEDS = 60


class OnlyAsked(Holding):
    """Does not ask for replies, nor for ends."""

    on_response = Policy.on_response
    on_complete = Policy.on_complete


def lower_us(bucket: int) -> int:
    """Return the shortest time of a bucket."""
    return 0 if bucket == 0 else int(2 ** ((bucket - 1) / 8) * 0.98)


def upper_us(bucket: int) -> float:
    """Return the longest time of a bucket, whose edges are accurate to 1.6 %."""
    return 2 ** (bucket / 8) * 1.02


def plays(seed: int) -> list[Script]:
    """Return a play of each kind."""
    return [
        short_throttles(Random(seed)),
        *(script(Random(seed), enforcement) for enforcement in ("entity", "channel")),
    ]


@pytest.mark.parametrize("defers", [False, True])
def test_the_delays_of_requests_add_up_to_the_throttles_of_their_clients(*, defers: bool) -> None:
    """However requests wait, are paused for, answered or lost: as many as were throttled, and their time."""
    throttled = 0
    for seed in range(SEEDS):
        for made in plays(seed):
            play = Play(made, Quota, defers=defers)
            play.run()
            counts = [0] * BUCKETS
            for meter in play._engine.meters.by_api():
                counts = list(map(int.__add__, counts, meter.waits.get("delay", [0] * BUCKETS)))
            ledger = play.ledger
            assert sum(counts) == ledger.sum("throttled"), seed
            us = ledger.sum("throttle_ms") * 1000
            assert sum(n * lower_us(at) for at, n in enumerate(counts)) <= us, seed
            assert us <= sum(n * upper_us(at) for at, n in enumerate(counts)), seed
            throttled += ledger.sum("throttled")
    assert throttled > 10 * SEEDS


def test_the_waits_and_the_pauses_of_one_request_are_one_delay() -> None:
    """It is held for 200 ms, forwarded with a pause of 300 ms, and its reply makes the pause 400 ms longer."""
    policy = Holding(
        FORWARD,
        Hold(10_000, "key", throttles=True),
        Throttle(300),
        hear=lambda request: Throttle(700) if request.exchange_id == 2 else FORWARD,
    )
    engine, ledger = make_counting_engine([policy], now_ms=5_000)
    wire = TimedWire(engine)
    wire.client(fetch(1)).broker(fetch_reply(1, 0))
    wire.client(fetch(2))
    wire.pass_us(200_000)
    wire.wake("key")
    wire.broker(fetch_reply(2, 0))
    wire.pass_us(2_000_000)
    wire.end_seconds()
    waits = {}
    for meter in engine.meters.by_api():
        waits |= meter.waits
    assert (ledger.sum("throttled"), ledger.sum("throttle_ms")) == (1, 900)
    assert waits["delay"][bucket_of(900_000)] == sum(waits["delay"]) == 1
    assert waits["throttle"][bucket_of(200_000)] == 1


def test_a_request_that_waited_for_a_quota_is_counted_whatever_its_reply() -> None:
    """Nothing else than the wait makes its reply special, and the request after it has no delay."""
    policy = OnlyAsked(FORWARD, Hold(10_000, "key", throttles=True), FORWARD)
    policy.response_apis = frozenset()
    engine, ledger = make_counting_engine([policy], now_ms=5_000)
    wire = TimedWire(engine)
    wire.client(f.beat(1)).broker(f.beat_reply(1))
    wire.client(f.beat(2))
    wire.pass_us(64_000)
    wire.wake("key")
    wire.broker(f.beat_reply(2))
    wire.client(f.beat(3)).broker(f.beat_reply(3))
    wire.end_seconds()
    (delays,) = [meter.waits["delay"] for meter in engine.meters.by_api()]
    assert (ledger.sum("throttled"), ledger.sum("throttle_ms")) == (1, 64)
    assert delays[bucket_of(64_000)] == sum(delays) == 1
