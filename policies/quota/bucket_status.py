"""The present state of one client's buckets: the used part of each limit, and the requests that wait.

Rules:
- Reading changes nothing: no bucket is made for a client without requests, and none is kept longer.
- A bucket that lets no request pass now is full, even if its rate of the last ten seconds is below the limit.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

from policies.quota.entity import KEYS, tags_text
from policies.quota.rate import throttle_time_ms

if TYPE_CHECKING:
    from policies.quota.bucket import QuotaBucket
    from policies.quota.manager import ClientQuotaManager


class BucketStatus(NamedTuple):
    """The present state of one bucket, for one of the clients that share it."""

    entity: str
    """The bucket's name, as in `user=alice`."""
    key: str
    """request_rate, producer_byte_rate or consumer_byte_rate."""
    limit: float
    """Per second."""
    rate: float
    """Per second, over the last ten seconds; of the requests that passed."""
    wait_ms: float
    """How long a request that comes now waits, or its client is muted, in ms; 0: it passes at once."""
    waiting: int
    """Requests that are held now."""

    @property
    def used(self) -> float:
        """The used part of the limit, from 0 to 1. A bucket that lets no request pass now is full."""
        return 1.0 if self.wait_ms > 0 else min(1.0, self.rate / self.limit)


def bucket_statuses(
    manager: ClientQuotaManager, user: str, client_id: str, now_ms: int, *, smooth: bool
) -> list[BucketStatus]:
    """Return the buckets that this pair draws on, in the order of KEYS. `smooth`: the release schedule decides."""
    account = manager.clients.get((user, client_id))
    if account is not None:
        buckets = (account.request, account.produce, account.fetch)
        return [
            _status_of(bucket, now_ms, smooth=smooth)
            for bucket in buckets
            if bucket is not None and bucket.limit != inf
        ]
    found: list[BucketStatus] = []
    for key in () if manager.is_unlimited(user) else KEYS:
        resolved = manager.quotas.resolve(key, user, client_id)
        bucket = None if resolved is None else manager.find(key, resolved.tags)
        if bucket is not None:
            found.append(_status_of(bucket, now_ms, smooth=smooth))
        elif resolved is not None:
            found.append(BucketStatus(tags_text(resolved.tags), key, resolved.limit, 0.0, 0.0, 0))
    return found


def _status_of(bucket: QuotaBucket, now_ms: int, *, smooth: bool) -> BucketStatus:
    rate, window_ms = bucket.rate.observe(now_ms)
    wait_ms: float = throttle_time_ms(rate, bucket.limit, window_ms)
    if smooth:
        wait_ms = max(0.0, bucket.delay_ms(now_ms) + bucket.queued_cost * bucket.unit_ms)
    waiting = len(bucket.queue or ())
    return BucketStatus(bucket.name, bucket.key, bucket.limit, rate, wait_ms, waiting)
