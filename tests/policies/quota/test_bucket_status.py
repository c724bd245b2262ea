"""The status of a client's buckets: the used share of each limit, and the requests that wait."""

import pytest

from policies.quota.bucket_status import BucketStatus, bucket_statuses
from policies.quota.entity import CONSUMER_BYTE_RATE, REQUEST_RATE, ClientQuotas, QuotaEntity
from policies.quota.manager import ClientQuotaManager

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
