"""A bucket: the queue of its held requests, and the bucket of each quota key."""

from policies.api import Peer
from policies.quota.bucket import ClientBuckets, QuotaBucket, Waiter
from policies.quota.entity import KEYS, QuotaEntity, ResolvedLimit
from policies.quota.rate import SampledRate


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
