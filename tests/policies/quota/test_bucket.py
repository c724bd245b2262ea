"""A bucket: the queue of its held requests, its throttle times and its status."""

import pytest

from policies.api import Peer
from policies.quota.bucket import ClientBuckets, QuotaBucket, Waiter
from policies.quota.bucket_status import BucketStatus, bucket_statuses
from policies.quota.entity import (
    CONSUMER_BYTE_RATE,
    KEYS,
    REQUEST_RATE,
    ClientQuotas,
    QuotaEntity,
    ResolvedLimit,
)
from policies.quota.manager import ClientQuotaManager
from policies.quota.rate import SampledRate
from policies.quota.sensors import ThrottleTime


def bucket(key: str = "request_rate") -> QuotaBucket:
    """A bucket of one a second that nothing was charged to."""
    resolved = ResolvedLimit(1.0, ("u", ""), QuotaEntity("u"), is_default=False)
    return QuotaBucket(key, resolved, 2000, SampledRate(), 0, 0)


def wait(bucket: QuotaBucket, session_id: int) -> Waiter:
    """Return a request of cost 1 that waits for this bucket."""
    waiter = Waiter(bucket, Peer(session_id, "127.0.0.1", 1), 7, 1, paid=False)
    bucket.enqueue(waiter)
    return waiter


def test_waiters_are_served_in_order_of_arrival_after_one_leaves():
    """The queued cost is the sum of the costs of those that are left; leaving twice changes nothing."""
    queue = bucket()
    waiters = [wait(queue, session_id) for session_id in range(4)]
    queue.remove(waiters[1])
    queue.remove(waiters[1])
    assert list(queue.queue.values()) == [waiters[0], *waiters[2:]]
    assert queue.queued_cost == 3
    for each in waiters:
        queue.remove(each)
    assert (len(queue.queue), queue.queued_cost) == (0, 0)


def test_each_key_has_its_bucket():
    """`of` returns None without a limit."""
    request, fetch = bucket(), bucket("consumer_byte_rate")
    buckets = ClientBuckets(request, None, fetch)
    assert [buckets.of(key) for key in KEYS] == [request, None, fetch]


def test_average_and_maximum_cover_recent_throttles():
    """All samples count; without one there is no value (Kafka's NaN)."""
    sensor = ThrottleTime()
    assert (sensor.average_ms(0), sensor.max_ms(0)) == (None, None)
    for at_ms, delay_ms in ((1000, 100), (2000, 300), (31_000, 50)):
        sensor.record(delay_ms, at_ms)
    assert sensor.average_ms(31_000) == pytest.approx(150)
    assert sensor.max_ms(31_000) == 300


def test_a_minute_after_the_last_throttle_there_is_no_value():
    """A sample expires 60 s after its own last event."""
    sensor = ThrottleTime()
    sensor.record(300, 2000)
    sensor.record(50, 31_000)
    assert (sensor.average_ms(61_999), sensor.max_ms(61_999)) == (175, 300)
    assert (sensor.average_ms(62_000), sensor.max_ms(62_000)) == (50, 50)
    assert sensor.max_ms(90_999) == 50
    assert (sensor.average_ms(91_000), sensor.max_ms(91_000)) == (None, None)


def test_it_never_keeps_more_than_three_samples():
    """Any number of throttles keeps at most three."""
    sensor = ThrottleTime()
    for at_ms in range(0, 3_600_000, 7000):
        sensor.record(1, at_ms)
    assert len(sensor._windows) <= 3


ANYBODY = QuotaEntity(None, "<default>")


def manager(**options) -> ClientQuotaManager:
    """Give each client id 10 requests and 1000 bytes out a second."""
    quotas = ClientQuotas()
    quotas.set(ANYBODY, REQUEST_RATE, 10)
    quotas.set(ANYBODY, CONSUMER_BYTE_RATE, 1000)
    return ClientQuotaManager(quotas, burst_ms=1000, **options)


@pytest.mark.parametrize("smooth", [True, False])
def test_reading_the_status_makes_no_bucket(smooth):
    """A client without requests costs the manager no memory, however often its status is read."""
    made = manager()
    found = bucket_statuses(made, "alice", "a", 0, smooth=smooth)
    assert [each.key for each in found] == [REQUEST_RATE, CONSUMER_BYTE_RATE]
    assert {(each.entity, each.used, each.wait_ms) for each in found} == {("client-id=a", 0.0, 0.0)}
    assert (len(list(made)), len(made.clients)) == (0, 0)


def test_a_client_that_is_not_at_hand_is_looked_up_in_its_bucket():
    """The account may have been forgotten; what is owed is not."""
    made = manager()
    made.buckets_of("alice", "a", 0).request.charge(25, 0)
    at_hand = bucket_statuses(made, "alice", "a", 0, smooth=True)
    made.on_limits_changed()
    assert bucket_statuses(made, "alice", "a", 0, smooth=True) == at_hand
    assert at_hand[0].wait_ms == 1500


@pytest.mark.parametrize(
    ("limit", "rate", "wait_ms", "used"),
    [(10, 0, 0, 0.0), (10, 4, 0, 0.4), (10, 0.1, 1, 1.0), (10, 975, 0, 1.0), (10, 975, 5, 1.0)],
)
def test_the_used_share_is_between_0_and_1(limit, rate, wait_ms, used):
    """A bucket that lets no request pass is full, however little it has let through."""
    assert BucketStatus("e", REQUEST_RATE, limit, rate, wait_ms, 0).used == used


def test_by_the_measured_rate_the_wait_is_kafkas_formula():
    """The wait is (O - T) / T times the window."""
    made = manager()
    made.buckets_of("alice", "a", 0).request.rate.record(200, 0)
    (found, _) = bucket_statuses(made, "alice", "a", 0, smooth=False)
    assert (found.rate, found.wait_ms) == (20.0, 10_000)


def test_an_exempt_principal_has_no_status():
    """Neither has an unauthenticated client, where clients authenticate."""
    made = manager(exempt=frozenset({"mirror"}))
    assert bucket_statuses(made, "mirror", "m", 0, smooth=True) == []
    made.authenticates = True
    assert bucket_statuses(made, "ANONYMOUS", "m", 0, smooth=True) == []
    assert len(bucket_statuses(made, "alice", "m", 0, smooth=True)) == 2
