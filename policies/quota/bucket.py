"""The bucket of one quota entity: its counts, its debt, and the held requests that wait for it."""

from __future__ import annotations

from collections import OrderedDict
from math import inf
from typing import TYPE_CHECKING

from policies.api import QuotaViolation
from policies.quota.entity import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    tags_text,
)
from policies.quota.rate import ReleaseSchedule
from policies.quota.sensors import ThrottleTime

if TYPE_CHECKING:
    from policies.api import Peer
    from policies.quota.entity import ResolvedLimit
    from policies.quota.rate import SampledRate


_new_violation = tuple.__new__  # the same as QuotaViolation(...), in half the time


class Waiter:
    """A held request; it is its own watch key."""

    __slots__ = ("bucket", "cost", "exchange_id", "paid", "peer", "session_id")

    def __init__(
        self, bucket: QuotaBucket, peer: Peer, exchange_id: int, cost: float, *, paid: bool
    ) -> None:
        self.bucket = bucket
        self.peer = peer
        self.session_id = peer.session_id
        self.exchange_id = exchange_id
        self.cost = cost
        self.paid = paid
        """Whether the buckets before this one are charged already."""


class QuotaBucket(ReleaseSchedule):
    """The counts and the queue of one entity and key."""

    __slots__ = (
        "born_ms",
        "fetches_in_flight",
        "is_default",
        "key",
        "limit",
        "mean_reply_bytes",
        "name",
        "policy",
        "queue",
        "queued_cost",
        "rate",
        "rev",
        "tags",
        "throttle_time",
    )

    def __init__(
        self,
        key: str,
        resolved: ResolvedLimit,
        burst_ms: float,
        rate: SampledRate,
        rev: int,
        now_ms: int,
        policy: str = "",
    ) -> None:
        super().__init__(resolved.limit, burst_ms)
        self.key = key
        self.tags = resolved.tags
        self.name = tags_text(resolved.tags)
        self.limit = resolved.limit
        self.is_default = resolved.is_default
        self.rev = rev
        self.policy = policy
        self.rate = rate
        self.born_ms = now_ms
        self.queue: OrderedDict[int, Waiter] | None = None
        """Waiters by session, first come first served. A session's channel is muted, so it waits once."""
        self.queued_cost = 0.0
        """The cost of all requests in the queue."""
        self.fetches_in_flight = 0
        """For consumer_byte_rate only."""
        self.mean_reply_bytes = 0.0
        """Mean of the replies charged lately; for consumer_byte_rate only."""
        self.throttle_time: ThrottleTime | None = None

    def enqueue(self, waiter: Waiter) -> None:
        """Append a request to the queue."""
        if self.queue is None:
            self.queue = OrderedDict()
        self.queue[waiter.session_id] = waiter
        self.queued_cost += waiter.cost

    def remove(self, waiter: Waiter) -> None:
        """Remove a request from any place in the queue; no effect if it is not there."""
        queue = self.queue
        if queue and queue.get(waiter.session_id) is waiter:
            del queue[waiter.session_id]
            self.queued_cost = self.queued_cost - waiter.cost if queue else 0.0

    def set_limit(self, resolved: ResolvedLimit | None, rev: int, now_ms: int) -> None:
        """Take the current limit; None: there is no limit any more."""
        self.rev = rev
        self.is_default = resolved is None or resolved.is_default
        limit = inf if resolved is None else resolved.limit
        if limit != self.limit:
            self.limit = limit
            self.set_rate(limit, now_ms)

    def violation(self, now_ms: int) -> QuotaViolation:
        """Return the reason of a throttle by the sampled rate: the rate at `now_ms`."""
        return QuotaViolation(
            self.name, self.key, self.rate.observe(now_ms)[0], self.limit, self.policy
        )

    def violation_for_delay(self, delay_ms: float, now_ms: int) -> QuotaViolation:
        """Return the reason of a throttle or wait by the release schedule: the rate that corresponds to this delay.

        The sampled rate would not do: it knows no burst, and counts only the requests that passed.
        """
        rate = self.rate.rate_for_delay(delay_ms, self.limit, now_ms)
        return _new_violation(QuotaViolation, (self.name, self.key, rate, self.limit, self.policy))

    def record_throttle(self, throttle_time_ms: int, now_ms: int) -> None:
        """Record a delay above 0 ms."""
        if self.throttle_time is None:
            self.throttle_time = ThrottleTime()
        self.throttle_time.record(throttle_time_ms, now_ms)


class ClientBuckets:
    """The buckets of one (user, client id); None if no limit holds."""

    __slots__ = ("fetch", "produce", "request")

    def __init__(
        self, request: QuotaBucket | None, produce: QuotaBucket | None, fetch: QuotaBucket | None
    ) -> None:  # in the order of KEYS
        self.request = request
        self.produce = produce
        self.fetch = fetch

    def of(self, key: str) -> QuotaBucket | None:
        """Return the bucket of this key."""
        return {
            REQUEST_RATE: self.request,
            PRODUCER_BYTE_RATE: self.produce,
            CONSUMER_BYTE_RATE: self.fetch,
        }[key]
