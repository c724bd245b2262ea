"""How the buckets of one client stand at this moment: what is used of which limit, and who waits for it.

Rules:
- Looking changes nothing: no bucket is made for a client that has asked for nothing yet, and none lives longer for it.
- A bucket that lets nothing pass at this moment is full, whatever its rate of the last ten seconds is.
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
    """How one bucket stands at this moment, for one of the clients that share it."""

    entity: str
    """The bucket's name, as in `user=alice`."""
    key: str
    """request_rate, producer_byte_rate or consumer_byte_rate."""
    limit: float
    """Per second."""
    rate: float
    """Per second, over the last ten; of what was let through."""
    wait_ms: float
    """How long a request that comes now waits, or its client is muted for; 0: it passes at once."""
    waiting: int
    """Requests that are held at this moment."""

    @property
    def used(self) -> float:
        """Which part of the limit is used, from 0 to 1. A bucket that lets nothing pass at this moment is full."""
        return 1.0 if self.wait_ms > 0 else min(1.0, self.rate / self.limit)


def bucket_statuses(
    manager: ClientQuotaManager, user: str, client_id: str, now_ms: int, *, smooth: bool
) -> list[BucketStatus]:
    """The buckets that this pair draws on, in the order of KEYS. `smooth`: the release schedule counts."""
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
