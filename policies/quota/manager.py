"""The quota buckets: found quickly by (user, client id), and dropped when they are idle.

Rules (Kafka: `ClientQuotaManager`):
- A bucket is identified by its key and tags. It outlives connections, and is dropped an hour after its last use if
  nothing is owed.
- A new limit changes a bucket's limit and keeps its samples and its debt; another winning level means another bucket.
  No scan is needed for that: `on_limits_changed` only drops the table of clients and their buckets.
- Configured entities never share a bucket and are never evicted. Of buckets made from a default, beyond
  `max_default_buckets` the idle ones are dropped (no debt, no waiting request). When none is idle, new clients share a
  few buckets, so that a flood of invented names costs neither memory nor the limit.
"""

from __future__ import annotations

from itertools import islice
from math import inf
from typing import TYPE_CHECKING, Final

from policies.api import ANONYMOUS
from policies.quota.bucket import ClientBuckets, QuotaBucket
from policies.quota.entity import DEFAULT_NAME, KEYS, ClientQuotas, QuotaEntity, ResolvedLimit, Tags
from policies.quota.rate import SampledRate
from policies.quota.sensors import BucketMetrics

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from policies.api import Peer

EXPIRY_MS: Final = 3_600_000
"""Kafka's `InactiveSensorExpirationTimeSeconds`."""
MAX_CLIENTS: Final = 10_000
"""(user, client id) pairs in the table `clients`; as many again are in a second table."""
AUTHENTICATED: Final = frozenset({"sasl", "unknown"})
"""Values of `Peer.principal_source` that mean that the broker accepted an authentication."""
SHARED_BUCKETS: Final = 64
"""Number of shared buckets for each key and default, for clients without room for a bucket of their own."""
EVICTION_RETRY_MS: Final = 1000
"""Time until the next search for idle buckets after a search that found none, in ms."""


class ClientQuotaManager:
    """Finds, makes and drops the buckets of all clients.

    The rules read `clients` directly because it is on the request path; `buckets_of` adds clients that it lacks.
    `smooth`: the release schedule decides (else the sampled rate).
    """

    def __init__(
        self,
        quotas: ClientQuotas,
        *,
        smooth: bool = True,
        burst_ms: float = 2000,
        samples: int = 11,
        window_ms: int = 1000,
        exempt: Container[str] = frozenset(),
        max_default_buckets: int = 10_000,
        expiry_ms: int = EXPIRY_MS,
        policy: str = "",
    ) -> None:
        self.quotas = quotas
        self.clients: dict[tuple[str, str], ClientBuckets] = {}
        self._smooth = smooth
        self._burst_ms = burst_ms
        self._samples = samples
        self._window_ms = window_ms
        self.exempt = exempt
        """Users without any limit."""
        self.epoch = 0
        """Changes when a client's buckets or their limits may be others than before."""
        self.authenticates = False
        """A client has authenticated here, so requests before authentication are charged to no bucket."""
        self._max_default_buckets = max_default_buckets
        self._expiry_ms = expiry_ms
        self._policy = policy
        """Name of the entry, for messages to clients."""
        self._older_clients: dict[tuple[str, str], ClientBuckets] = {}
        self._tables: dict[str, dict[Tags, QuotaBucket]] = {key: {} for key in KEYS}
        self._shared: dict[tuple[str, QuotaEntity, int], QuotaBucket] = {}
        self._defaults = 0  # how many buckets in the tables are made from a default, or were
        self._retry_eviction_ms = 0
        self._fresh_rev = -1  # revision of the quotas when every bucket last got its limit
        self._expiry_queue: list[tuple[str, Tags]] = []  # buckets to check for expiry

    def __iter__(self) -> Iterator[tuple[str, QuotaBucket]]:
        """Yield every bucket with its key."""
        for key, table in self._tables.items():
            for bucket in table.values():
                yield key, bucket
        for (key, _, _), bucket in self._shared.items():
            yield key, bucket

    def buckets_of(self, user: str, client_id: str, now_ms: int) -> ClientBuckets:
        """Return the buckets of this pair, and add the pair to `clients`."""
        pair = (user, client_id)
        account = self.clients.get(pair)
        if account is not None:
            return account
        account = self._older_clients.pop(pair, None)
        if account is None:
            account = ClientBuckets(
                *(self._maybe_bucket(key, user, client_id, now_ms) for key in KEYS)
            )
        if len(self.clients) >= MAX_CLIENTS:
            self._older_clients = dict(self.clients)
            self.clients.clear()
        self.clients[pair] = account
        return account

    def buckets_of_peer(self, peer: Peer, now_ms: int) -> ClientBuckets:
        """Return the buckets of this client; the first authenticated client shows that clients authenticate here."""
        if not self.authenticates and peer.principal_source in AUTHENTICATED:
            self.authenticates = True
            self.on_limits_changed()
        return self.buckets_of(peer.user, peer.client_id, now_ms)

    def adopt(self, previous: ClientQuotaManager) -> None:
        """Take over the buckets of the previous manager, with their samples, debts and queues."""
        self.quotas.supersede(previous.quotas)
        self._tables, self._shared = previous._tables, previous._shared
        self._defaults = previous._defaults
        self.authenticates = previous.authenticates
        same_windows = (self._samples, self._window_ms) == (previous._samples, previous._window_ms)
        if not (same_windows and self._burst_ms == previous._burst_ms):
            for _, bucket in self:
                bucket.pass_ms += bucket.burst_ms - self._burst_ms
                bucket.burst_ms = self._burst_ms
                if not same_windows:
                    bucket.rate = SampledRate(self._samples, self._window_ms)
        self.on_limits_changed()

    def on_limits_changed(self) -> None:
        """Forget which limits apply to which client; the next request of each client resolves them again."""
        self.epoch += 1
        self.clients.clear()
        self._older_clients.clear()

    def expire(self, now_ms: int, max_buckets: int = 1000) -> None:
        """Check the next `max_buckets` buckets and drop those that were unused for an hour."""
        if not self._expiry_queue:
            self._expiry_queue = [(key, tags) for key in KEYS for tags in self._tables[key]]
            if self._shared:  # clients that share may have room for their own again
                kept = self._shared.items()
                self._shared = {n: each for n, each in kept if not self._expired(each, now_ms)}
                self.on_limits_changed()
        part, self._expiry_queue = (
            self._expiry_queue[:max_buckets],
            self._expiry_queue[max_buckets:],
        )
        for key, tags in part:
            bucket = self._tables[key].get(tags)
            if bucket is not None and self._expired(bucket, now_ms):
                self._drop(key, [tags])

    def usage(self, now_ms: int) -> Iterator[BucketMetrics]:
        """Yield a row for each bucket with a limit."""
        self._refresh(now_ms)
        for key, bucket in self:
            if bucket.limit != inf:
                throttled = bucket.throttle_time
                yield BucketMetrics(
                    *bucket.tags,
                    key,
                    bucket.limit,
                    bucket.rate.measure(now_ms),
                    throttled.average_ms(now_ms) if throttled else None,
                    throttled.max_ms(now_ms) if throttled else None,
                    len(bucket.queue or ()),
                )

    def find(self, key: str, tags: Tags) -> QuotaBucket | None:
        """Return the bucket of these tags; None if they have none of their own."""
        return self._tables[key].get(tags)

    def is_unlimited(self, user: str) -> bool:
        """Return whether no limit holds for this user here."""
        return user in self.exempt or (self.authenticates and user == ANONYMOUS)

    # -- buckets -----------------------------------------------------------------------------

    def _maybe_bucket(self, key: str, user: str, client_id: str, now_ms: int) -> QuotaBucket | None:
        resolved = self.quotas.resolve(key, user, client_id)
        if resolved is None or self.is_unlimited(user):
            return None
        rev = self.quotas.rev
        table = self._tables[key]
        bucket = table.get(resolved.tags)
        if bucket is None:
            full = resolved.is_default and self._defaults >= self._max_default_buckets
            if full and not self._evict_idle(now_ms):
                return self._shared_bucket(key, resolved, now_ms)
            self._defaults += resolved.is_default
            table[resolved.tags] = bucket = self._make(key, resolved, now_ms)
        elif bucket.rev != rev:
            bucket.set_limit(resolved, rev, now_ms)
        return bucket

    def _make(self, key: str, resolved: ResolvedLimit, now_ms: int) -> QuotaBucket:
        rate = SampledRate(self._samples, self._window_ms)
        return QuotaBucket(
            key, resolved, self._burst_ms, rate, self.quotas.rev, now_ms, self._policy
        )

    def _shared_bucket(self, key: str, resolved: ResolvedLimit, now_ms: int) -> QuotaBucket:
        name = (key, resolved.entity, hash(resolved.tags) % SHARED_BUCKETS)
        bucket = self._shared.get(name)
        if bucket is None:
            user, client_id = resolved.tags
            tags = (DEFAULT_NAME if user else "", DEFAULT_NAME if client_id else "")
            bucket = self._shared[name] = self._make(key, resolved._replace(tags=tags), now_ms)
        elif bucket.rev != self.quotas.rev:
            bucket.set_limit(resolved, self.quotas.rev, now_ms)
        return bucket

    def _refresh(self, now_ms: int) -> None:
        """Give every bucket its current limit."""
        rev = self.quotas.rev
        if rev == self._fresh_rev:
            return
        self._fresh_rev = rev
        self._defaults = 0
        for key, table in self._tables.items():
            for tags, bucket in table.items():
                if bucket.rev != rev:
                    bucket.set_limit(self.quotas.limit_of(key, tags), rev, now_ms)
                self._defaults += bucket.is_default
        for (key, entity, _), bucket in self._shared.items():
            limit = self.quotas.get(entity, key)
            same = (
                None
                if limit is None
                else ResolvedLimit(limit, bucket.tags, entity, is_default=True)
            )
            bucket.set_limit(same, rev, now_ms)

    # -- eviction ----------------------------------------------------------------------------

    def _evict_idle(self, now_ms: int) -> bool:
        """Drop an eighth of the buckets made from a default, the oldest idle ones.

        Returns whether there is room now.
        """
        if now_ms < self._retry_eviction_ms:
            return False
        self._refresh(now_ms)
        surplus = self._defaults - self._max_default_buckets * 7 // 8
        for key, table in self._tables.items():
            idle = (t for t, each in table.items() if each.is_default and self._idle(each, now_ms))
            gone = list(islice(idle, max(0, surplus)))
            surplus -= len(gone)
            self._drop(key, gone)
        if self._defaults < self._max_default_buckets:
            return True
        self._retry_eviction_ms = now_ms + EVICTION_RETRY_MS
        return False

    def _idle(self, bucket: QuotaBucket, now_ms: int) -> bool:
        """Return whether a new bucket would be in the same state."""
        return (
            not bucket.queue
            and bucket.is_paid(now_ms)
            and (self._smooth or bucket.rate.unused(now_ms))
        )

    def _expired(self, bucket: QuotaBucket, now_ms: int) -> bool:
        last_ms = bucket.born_ms if bucket.rate.last_ms < 0 else bucket.rate.last_ms
        return now_ms - last_ms > self._expiry_ms and self._idle(bucket, now_ms)

    def _drop(self, key: str, gone: list[Tags]) -> None:
        """Drop buckets, and the table of clients with them: it must not hold a bucket that is not in the manager."""
        for tags in gone:
            self._defaults -= self._tables[key].pop(tags).is_default
        if gone:
            self.on_limits_changed()
