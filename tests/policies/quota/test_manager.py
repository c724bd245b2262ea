"""The buckets: which clients share one, what a change keeps, and when a bucket is forgotten."""

import tracemalloc

import pytest

from policies.api import Peer
from policies.quota import manager as module
from policies.quota.bucket import QuotaBucket, Waiter
from policies.quota.entity import DEFAULT_NAME, ClientQuotas, QuotaEntity
from policies.quota.manager import ClientQuotaManager
from tests.support.messages.golden import cases

RATE = "request_rate"
HOUR_MS = 3_600_000


def made(*limits: tuple[QuotaEntity, float], **settings) -> ClientQuotaManager:
    quotas = ClientQuotas()
    for whose, value in limits:
        quotas.set(whose, RATE, value)
    return ClientQuotaManager(quotas, **settings)


def request(manager: ClientQuotaManager, user: str, client_id: str, now_ms: int) -> QuotaBucket:
    """Count and charge one request."""
    bucket = manager.buckets_of(user, client_id, now_ms).request
    assert bucket is not None
    bucket.charge(1, now_ms)
    bucket.rate.record(1, now_ms)
    return bucket


def wait(bucket: QuotaBucket, session_id: int = 1) -> Waiter:
    waiter = Waiter(bucket, Peer(session_id, "127.0.0.1", 1), 7, 1, paid=False)
    bucket.enqueue(waiter)
    return waiter


def test_clients_that_share_a_limit_share_a_bucket():
    """A default has a bucket for each user; without a quota, and for an exempt principal, there is none."""
    manager = made()
    account = manager.buckets_of("alice", "c", 0)
    assert (account.request, account.produce, account.fetch) == (None, None, None)
    assert list(manager) == []

    manager = made((QuotaEntity("alice"), 5), (QuotaEntity(DEFAULT_NAME), 9))
    alice = manager.buckets_of("alice", "a", 0).request
    assert manager.buckets_of("alice", "b", 0).request is alice
    assert manager.buckets_of("bob", "a", 0).request is not alice
    assert (
        manager.buckets_of("bob", "a", 0).request is not manager.buckets_of("carol", "a", 0).request
    )

    manager = made((QuotaEntity(DEFAULT_NAME), 5), exempt=frozenset({"mirror"}))
    assert manager.buckets_of("mirror", "c", 0).request is None
    assert manager.buckets_of("alice", "c", 0).request is not None


def test_a_changed_limit_keeps_the_bucket_and_another_winning_level_remembers_the_first():
    """Its samples and its debt stay, also while another level wins."""
    alice = QuotaEntity("alice")
    manager = made((alice, 100), burst_ms=1000)
    for _ in range(150):
        bucket = request(manager, "alice", "a", 0)
    assert bucket.rate.measure(0) == 15
    manager.quotas.set(alice, RATE, 200)
    manager.on_limits_changed()
    again = manager.buckets_of("alice", "a", 0).request
    assert again is bucket
    assert (again.limit, again.rate.measure(0)) == (200, 15)
    assert again.credits(0) == pytest.approx(-50)

    alice, report = QuotaEntity("alice"), QuotaEntity("alice", "report")
    manager = made((alice, 100))
    first = request(manager, "alice", "report", 0)
    manager.quotas.set_override(report, RATE, 5)
    manager.on_limits_changed()
    assert request(manager, "alice", "report", 0) is not first
    manager.quotas.set_override(report, RATE, None)
    manager.on_limits_changed()
    assert manager.buckets_of("alice", "report", 0).request is first


def test_a_bucket_is_forgotten_after_an_idle_hour():
    """Not at the hour but after it, and not while it has a debt or held requests."""
    manager = made((QuotaEntity(DEFAULT_NAME), 5), (QuotaEntity("slow"), 0.0001))
    request(manager, "alice", "c", 0)
    for _ in range(3):
        request(manager, "slow", "c", 0)
    wait(request(manager, "bob", "c", 0))

    def users(now_ms: int) -> set[str]:
        manager.expire(now_ms)
        return {bucket.tags[0] for _, bucket in manager}

    assert users(HOUR_MS) == {"alice", "slow", "bob"}
    assert users(HOUR_MS + 1) == {"slow", "bob"}
    assert request(manager, "alice", "c", HOUR_MS + 2).tags == ("alice", "")


def test_a_bucket_outlives_its_ttl_only_by_use():
    """It expires strictly later than the ttl after the last record, like Kafka's sensors."""
    case = cases("quota.metrics")["sensor-expiry"]
    managers = [
        made((QuotaEntity(DEFAULT_NAME), 5), expiry_ms=ttl, smooth=True) for ttl in case["ttl_ms"]
    ]
    times = [list(each) for each in case["recorded_ms"]]
    for manager, recorded in zip(managers, times, strict=True):
        request(manager, "u", "c", recorded.pop(0))
    for now_ms, present in zip(case["purge_ms"], case["present"], strict=True):
        for manager, recorded in zip(managers, times, strict=True):
            manager.expire(now_ms)
            if recorded and recorded[0] == now_ms:
                request(manager, "u", "c", recorded.pop(0))
        assert [bool(list(manager)) for manager in managers] == present


def test_expiry_checks_a_bounded_number_at_a_time():
    """It proceeds in rounds, so that no tick takes long."""
    manager = made((QuotaEntity(DEFAULT_NAME), 5))
    for number in range(10):
        request(manager, f"u{number}", "c", 0)
    for left in (6, 2, 0):
        manager.expire(2 * HOUR_MS, 4)
        assert len(list(manager)) == left


def test_beyond_the_maximum_the_oldest_idle_buckets_of_a_default_are_removed():
    """An account that is opened again gets the manager's bucket."""
    manager = made(
        (QuotaEntity(None, DEFAULT_NAME), 10), (QuotaEntity("alice"), 1), max_default_buckets=16
    )
    alice = request(manager, "alice", "", 0)
    for number in range(16):
        request(manager, "u", f"c{number}", number)
    request(manager, "u", "new", 1000)
    left = {bucket.tags for _, bucket in manager}
    assert left == {("alice", ""), *(("", f"c{n}") for n in range(2, 16)), ("", "new")}
    assert manager.buckets_of("alice", "", 1000).request is alice
    again = manager.buckets_of("u", "c0", 1000).request
    assert ("", "c0") in {bucket.tags for _, bucket in manager}
    assert any(bucket is again for _, bucket in manager)


@pytest.mark.parametrize("smooth", [True, False])
def test_a_bucket_that_is_in_use_or_configured_is_never_evicted(smooth):
    """New clients share a bucket instead, and never with a configured entity."""
    named = [(QuotaEntity("u", f"n{number}"), 5) for number in range(40)]
    manager = made(
        (QuotaEntity(None, DEFAULT_NAME), 0.5), *named, max_default_buckets=16, smooth=smooth
    )
    busy = [request(manager, "u", f"c{number}", 0) for number in range(15)]
    waited = manager.buckets_of("u", "waits", 0).request
    wait(waited)
    ours = [request(manager, "u", f"n{number}", 0) for number in range(40)]
    shared = [manager.buckets_of("u", f"x{number}", 1).request for number in range(1000)]
    assert {each.tags for each in shared} == {("", DEFAULT_NAME)}
    assert 1 < len({id(each) for each in shared}) <= module.SHARED_BUCKETS
    kept = {id(bucket) for _, bucket in manager}
    assert {id(each) for each in (*busy, waited, *ours)} <= kept
    assert not {id(each) for each in shared} & {id(each) for each in ours}
    assert len(kept) <= 16 + 40 + module.SHARED_BUCKETS


def test_clients_that_share_get_their_own_bucket_when_there_is_room():
    """The next round of expiry gives it to them."""
    manager = made((QuotaEntity(None, DEFAULT_NAME), 1), max_default_buckets=8)
    for number in range(8):
        request(manager, "u", f"c{number}", 0)
    assert manager.buckets_of("u", "late", 1).request.tags == ("", DEFAULT_NAME)
    manager.expire(10_000)
    assert manager.buckets_of("u", "late", 10_000).request.tags == ("", "late")


def test_usage_has_each_buckets_rate_limit_throttles_and_queue():
    """Limits are the present ones; buckets without a limit are left out."""
    alice = QuotaEntity("alice")
    manager = made((alice, 5), (QuotaEntity("bob"), 5))
    bucket = request(manager, "alice", "c", 0)
    request(manager, "bob", "c", 0)
    bucket.record_throttle(300, 0)
    bucket.record_throttle(100, 0)
    wait(bucket)
    manager.quotas.set(QuotaEntity("bob"), RATE, None)
    manager.quotas.set(alice, RATE, 7)
    assert list(manager.usage(0)) == [("alice", "", RATE, 7, 0.1, 200, 300, 1)]


def test_a_new_manager_adopts_the_debts():
    """It uses its own limits, burst and windows; the queues stay."""
    old = made((QuotaEntity("alice"), 10), burst_ms=2000)
    bucket = None
    for _ in range(30):
        bucket = request(old, "alice", "c", 0)
    waiter = wait(bucket)
    new = made((QuotaEntity("alice"), 5), burst_ms=1000)
    new.adopt(old)
    taken = new.buckets_of("alice", "c", 0).request
    assert taken is bucket
    assert (taken.limit, taken.queue, taken.queued_cost) == (5, {1: waiter}, 1)
    assert taken.rate.measure(0) == 3
    assert taken.pass_ms + taken.burst_ms == pytest.approx(1000 + 2 * 2000)


def test_a_new_manager_with_other_windows_begins_its_samples_again():
    """The samples of another window cannot be measured; the debt stays."""
    old = made((QuotaEntity("alice"), 10), burst_ms=2000)
    for _ in range(30):
        bucket = request(old, "alice", "c", 0)
    owed_ms = bucket.pass_ms
    new = made((QuotaEntity("alice"), 10), burst_ms=2000, window_ms=500)
    new.adopt(old)
    taken = new.buckets_of("alice", "c", 0).request
    assert taken is bucket
    assert (taken.rate.measure(0), taken.pass_ms) == (0, owed_ms)
    taken.rate.record(10, 0)
    assert taken.rate.measure(0) == 2  # eleven samples of half a second


def test_a_shared_bucket_takes_a_changed_limit():
    """With the next request of a client that shares it."""
    limit = QuotaEntity(None, DEFAULT_NAME)
    manager = made((limit, 1), max_default_buckets=8)
    for number in range(8):
        request(manager, "u", f"c{number}", 0)
    shared = manager.buckets_of("u", "late", 1).request
    manager.quotas.set(limit, RATE, 7)
    manager.on_limits_changed()
    assert manager.buckets_of("u", "late", 1).request is shared
    assert shared.limit == 7


@pytest.mark.parametrize("smooth", [True, False])
def test_ever_new_client_ids_cost_less_than_30_mb(smooth):
    """Under a default for client ids, with twenty new ones each
    millisecond, memory does not grow with their number.
    """
    manager = made((QuotaEntity(None, DEFAULT_NAME), 10), smooth=smooth)
    tracemalloc.start()
    try:
        ask_for(manager, 40_000)
        _, max_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert max_bytes < 30_000_000
    assert len(list(manager)) <= 10_000 + module.SHARED_BUCKETS


def ask_for(manager, count):
    for number in range(count):
        request(manager, "ANONYMOUS", f"client-{number}", 1_700_000_000_000 + number // 20)
