"""How the buckets of a client stand: what is used of which limit, and who waits."""

from __future__ import annotations

import pytest

from policies.quota.bucket_status import BucketStatus, bucket_statuses
from policies.quota.entity import CONSUMER_BYTE_RATE, REQUEST_RATE, ClientQuotas, QuotaEntity
from policies.quota.manager import ClientQuotaManager

ANYBODY = QuotaEntity(None, "<default>")


def manager(**options) -> ClientQuotaManager:
    """Each client id may have 10 requests and 1000 bytes out a second."""
    quotas = ClientQuotas()
    quotas.set(ANYBODY, REQUEST_RATE, 10)
    quotas.set(ANYBODY, CONSUMER_BYTE_RATE, 1000)
    return ClientQuotaManager(quotas, burst_ms=1000, **options)


@pytest.mark.parametrize("smooth", [True, False])
def test_looking_makes_no_bucket(smooth):
    """A client that asks for nothing costs the manager nothing, however often it is looked at."""
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
def test_what_is_used_is_between_nothing_and_all(limit, rate, wait_ms, used):
    """A bucket that lets nothing pass is full, however little it has let through."""
    assert BucketStatus("e", REQUEST_RATE, limit, rate, wait_ms, 0).used == used


def test_where_the_measured_rate_counts_the_wait_is_kafkas():
    """(O - T) / T times the window."""
    made = manager()
    made.buckets_of("alice", "a", 0).request.rate.record(200, 0)
    (found, _) = bucket_statuses(made, "alice", "a", 0, smooth=False)
    assert (found.rate, found.wait_ms) == (20.0, 10_000)


def test_who_is_exempt_stands_nowhere():
    """Nor does who has not authenticated, where clients do."""
    made = manager(exempt=frozenset({"mirror"}))
    assert bucket_statuses(made, "mirror", "m", 0, smooth=True) == []
    made.authenticates = True
    assert bucket_statuses(made, "ANONYMOUS", "m", 0, smooth=True) == []
    assert len(bucket_statuses(made, "alice", "m", 0, smooth=True)) == 2
