"""Enforcement `channel`: Kafka's own rule, with its sawtooth and its exceptions.

Rules (KIP-124; Kafka: `ClientQuotaManager`, `ClientRequestQuotaManager`):
- A request is judged when its reply is sent, after it was recorded: a violation stays recorded. Only the channel that
  violates is muted, although the bucket is shared.
- The delay for a request rate is at most one window; the delay for a byte rate has no cap.
- `sequential` (KIP-124's text): the byte delay, or the broker's own, comes first; the request rate is judged as of its
  end, and its delay is added. `max` (Kafka since 2.0): the longest counts.
- The reply of a throttled fetch is sent whole and stays charged: the broker has advanced the session already. Instead,
  the bytes that a Fetch or ShareFetch may ask for are limited.
- acks=0 has no reply: its bytes are judged when it comes, its request never (Kafka exempts it). It counts as exempt, as
  all requests of an exempt principal do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.api import EXEMPT, FORWARD, Forward, Throttle
from policies.quota.fetch_limit import limit_fetch
from policies.quota.rate import MAX_THROTTLE_MS, throttle_time_ms
from wire.apis import RECORDS_IN_REPLIES, RECORDS_IN_REQUESTS
from wire.throttle import MAX_BROKER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Gate, Peer, QuotaViolation, Request, Response, Verdict
    from policies.quota.bucket import QuotaBucket
    from policies.quota.manager import ClientQuotaManager


class KafkaRule:
    """Judges requests by Kafka's rule. `hooks_by_api` has the APIs that need more than a count at the reply.

    They are functions of the rule, as in `SmoothRule`.
    """

    def __init__(
        self, manager: ClientQuotaManager, *, samples: int, window_ms: int, sequential: bool
    ) -> None:
        self.manager = manager
        self.hooks_by_api: dict[int, Callable[[KafkaRule, Request, Peer, int], Verdict]] = (
            dict.fromkeys(RECORDS_IN_REQUESTS, KafkaRule._on_produce)
        )
        self._exempt = manager.exempt
        self._find_hook = self.hooks_by_api.get
        self._find = manager.clients.get
        self._cap_ms = window_ms
        self._min_span_seconds = (samples - 1) * window_ms / 1000
        self._sequential = sequential
        self._bytes = False

    def count_bytes(self, *, produce: bool, fetch: bool) -> None:
        """Set whether the bytes of requests and of replies with records are limited."""
        self._bytes = produce or fetch
        for key in RECORDS_IN_REPLIES:
            self.hooks_by_api.pop(key, None)
            if fetch:
                self.hooks_by_api[key] = KafkaRule._on_fetch

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """Judge what cannot be judged at the reply."""
        hook = self._find_hook(request.api_key)
        if hook is not None:
            return hook(self, request, peer, now_ms)
        return EXEMPT if self._exempt and peer.user in self._exempt else FORWARD

    def maybe_gate(self, api_key: int, peer: Peer) -> Gate | None:
        """Return None: the request's reply is judged."""
        return None

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        """Record the request, judge it, and join the delays."""
        account = self._find((peer.user, peer.client_id))
        if account is None:
            account = self.manager.buckets_of_peer(peer, now_ms)
        byte_ms = 0
        spent: QuotaBucket | None = None
        if self._bytes:
            api_key = request.api_key
            if api_key in RECORDS_IN_REQUESTS:
                spent = account.produce
                byte_ms = self._judge_bytes(spent, request.size_bytes, now_ms)
            elif api_key in RECORDS_IN_REPLIES:
                spent = account.fetch
                byte_ms = self._judge_bytes(spent, response.size_bytes, now_ms)
        bucket = account.request
        if bucket is not None:
            bucket.rate.record(1, now_ms)
            observed, window_ms = bucket.rate.observe(now_ms)
            if observed > bucket.limit:
                request_ms = throttle_time_ms(observed, bucket.limit, window_ms, self._cap_ms)
                return self._join(bucket, spent, request_ms, byte_ms, response, now_ms)
        if byte_ms:
            return self._join(bucket, spent, 0, byte_ms, response, now_ms)
        return FORWARD

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Do nothing: no request waits."""

    def on_limits_changed(self, now_ms: int) -> None:
        """Do nothing: the next reply is judged by the new limits."""

    def throttle_until_ms(self, peer: Peer, why: QuotaViolation, now_ms: int) -> float:
        """Return until when this client has to be muted under the present limits, judged as of `now_ms`."""
        account = self.manager.buckets_of_peer(peer, now_ms)
        longest_ms = 0
        for bucket in (account.request, account.produce, account.fetch):
            if bucket is not None and bucket.key == why.quota:
                observed, window_ms = bucket.rate.observe(now_ms)
                cap_ms = self._cap_ms if bucket is account.request else None
                longest_ms = throttle_time_ms(observed, bucket.limit, window_ms, cap_ms)
        return now_ms + longest_ms

    def _judge_bytes(self, bucket: QuotaBucket | None, size_bytes: int, now_ms: int) -> int:
        if bucket is None:
            return 0
        bucket.rate.record(size_bytes, now_ms)
        observed, window_ms = bucket.rate.observe(now_ms)
        return throttle_time_ms(observed, bucket.limit, window_ms)

    def _join(
        self,
        bucket: QuotaBucket | None,
        spent: QuotaBucket | None,
        request_ms: int,
        byte_ms: int,
        response: Response,
        now_ms: int,
    ) -> Forward | Throttle:
        """Return one delay for both, and for the broker's own; each is recorded in its bucket's sensor."""
        first_ms = max(byte_ms, min(response.throttle_time_ms, MAX_BROKER_MS))
        judged_ms = now_ms
        if self._sequential:
            if first_ms and bucket is not None:
                judged_ms += first_ms
                observed, window_ms = bucket.rate.observe(judged_ms)
                request_ms = throttle_time_ms(observed, bucket.limit, window_ms, self._cap_ms)
            total_ms = min(first_ms + request_ms, MAX_THROTTLE_MS)
        else:
            total_ms = max(first_ms, request_ms)
            if byte_ms > request_ms:
                request_ms = 0
            else:  # a tie is the request's, as in Kafka
                byte_ms = 0
        if byte_ms and spent is not None:
            spent.record_throttle(byte_ms, now_ms)
        if request_ms and bucket is not None:
            bucket.record_throttle(request_ms, now_ms)
        if not total_ms:
            return FORWARD
        why = None
        if byte_ms > request_ms:
            why = None if spent is None else spent.violation(now_ms)
        elif request_ms and bucket is not None:
            why = bucket.violation(judged_ms)
        return Throttle(total_ms, FORWARD, why)

    def _on_produce(self, request: Request, peer: Peer, now_ms: int) -> Forward | Throttle:
        if self._exempt and peer.user in self._exempt:
            return EXEMPT
        if request.acks != 0:
            return FORWARD
        if not self._bytes:
            return EXEMPT
        spent = self.manager.buckets_of_peer(peer, now_ms).produce
        byte_ms = self._judge_bytes(spent, request.size_bytes, now_ms)
        if not byte_ms or spent is None:
            return EXEMPT
        spent.record_throttle(byte_ms, now_ms)
        return Throttle(byte_ms, EXEMPT, spent.violation(now_ms))

    def _on_fetch(self, request: Request, peer: Peer, now_ms: int) -> Forward:
        if self._exempt and peer.user in self._exempt:
            return EXEMPT
        spent = self.manager.buckets_of_peer(peer, now_ms).fetch
        return (
            FORWARD if spent is None else limit_fetch(request, spent.limit * self._min_span_seconds)
        )
