"""The gate of one client's requests under `entity` enforcement: charges those that pass without a delay.

Rules:
- It does what `SmoothRule.on_request` does for a request that passes at once and brings no throttle, and gives the same
  figures, digit by digit. It passes no other request, and changes nothing for those.
- The client's buckets are found once, and again after `ClientQuotaManager.epoch` has changed: the limits, or the
  buckets, may be others then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.client_gate import ClientGate
from wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Container

    from policies.api import Peer
    from policies.quota.bucket import QuotaBucket
    from policies.quota.manager import ClientQuotaManager

_UNBOUND = -1


class QuotaGate(ClientGate):
    """The gate of the requests of one API and client. `held`: the sessions of which a request waits."""

    __slots__ = ("_bucket", "_epoch", "_held", "_manager", "_peer", "_produces", "_spent")

    def __init__(
        self, manager: ClientQuotaManager, peer: Peer, api_key: int, held: Container[int]
    ) -> None:
        self._manager = manager
        self._peer = peer
        self._produces = api_key == ApiKey.PRODUCE
        self._held = held
        self._epoch = _UNBOUND
        self._bucket: QuotaBucket | None = None
        self._spent: QuotaBucket | None = None

    def __call__(self, size_bytes: int, now_ms: int) -> bool:
        """Do as `passes`: a gate is callable (`policies.api.Gate`)."""
        return self.passes(size_bytes, now_ms)

    def passes(self, size_bytes: int, now_ms: int) -> bool:
        """Charge a request that may pass now without a delay, and return True; else return False."""
        if self._epoch != self._manager.epoch:
            self._bind(now_ms)
        if self._spent is not None:
            return self._passes_by_bytes(self._spent, size_bytes, now_ms)
        bucket = self._bucket
        if bucket is None:
            return True
        ahead_ms = now_ms - bucket.pass_ms
        if ahead_ms > bucket.burst_ms:  # noqa: PLR1730 - a call of min is too slow here
            ahead_ms = bucket.burst_ms
        ahead_ms -= bucket.unit_ms
        if ahead_ms < 0.0 or bucket.queue:
            return False
        bucket.pass_ms = now_ms - ahead_ms
        rate = bucket.rate
        if now_ms < rate.valid_ms:  # as `record`, without a call
            rate.sum += 1
            rate.last_ms = now_ms
        else:
            rate.record(1, now_ms)
        return True

    def _passes_by_bytes(self, spent: QuotaBucket, size_bytes: int, now_ms: int) -> bool:
        """As `passes`, for a Produce with a limit of bytes."""
        if spent.queue or spent.pass_ms > now_ms or self._peer.session_id in self._held:
            return False
        earliest_ms = now_ms - spent.burst_ms
        spent_ms = spent.pass_ms
        if spent_ms < earliest_ms:  # noqa: PLR1730 - as above
            spent_ms = earliest_ms
        spent_ms += size_bytes * spent.unit_ms
        if spent_ms > now_ms:
            return False
        bucket = self._bucket
        if bucket is not None:
            if bucket.queue or bucket.pass_ms > now_ms:
                return False
            earliest_ms = now_ms - bucket.burst_ms
            pass_ms = bucket.pass_ms
            if pass_ms < earliest_ms:  # noqa: PLR1730 - as above
                pass_ms = earliest_ms
            pass_ms += bucket.unit_ms
            if pass_ms > now_ms:
                return False
            bucket.pass_ms = pass_ms
            bucket.rate.record(1, now_ms)
        spent.pass_ms = spent_ms
        spent.rate.record(size_bytes, now_ms)
        return True

    def _bind(self, now_ms: int) -> None:
        account = self._manager.buckets_of_peer(self._peer, now_ms)
        self._epoch = self._manager.epoch  # finding them may have changed it
        self._bucket = account.request
        self._spent = account.produce if self._produces else None
