"""Enforcement `entity`: one release schedule per entity, shared by all its connections.

Rules:
- A request is charged when it may pass. While its entity is above its limit, requests on all its connections wait,
  held before their first byte is forwarded. The queue is served in order, one request each time the schedule allows, by
  the alarm of its first request. A client that disconnects frees its place.
- A client whose request passes is muted until the next request may pass and those in the queue have passed. So no more
  than T * (s + burst_seconds) + 1 requests pass in any s seconds.
- Produce: its bytes wait first, then the request does (KIP-124); the client is muted for the longer delay of both.
  acks=0 is counted and muted like any other.
- Fetch and ShareFetch: each is charged the mean cost of the last replies in advance, and settled by its own reply. The
  bytes that it may ask for are limited to its share of the burst, so that the replies to all fetches in flight or
  waiting cannot silence the entity for longer than that.
- Exempt principals differ from clients without a limit: the requests of exempt principals count as exempt.
"""

from __future__ import annotations

from functools import partial
from math import ceil, inf
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.api import EXEMPT, FORWARD, Forward, Hold, Throttle
from policies.quota.bucket import QuotaBucket, Waiter
from policies.quota.fetch_limit import limit_fetch
from policies.quota.gate import QuotaGate
from policies.quota.rate import MAX_THROTTLE_MS
from wire.apis import RECORDS_IN_REPLIES, RECORDS_IN_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.api import Gate, Host, Peer, QuotaViolation, Request, Response, Verdict
    from policies.quota.manager import ClientQuotaManager

MAX_HOLD_MS: Final = MAX_THROTTLE_MS
"""A held request waits for its slot without a shorter limit; its client gives up long before that."""
REVIEW_BATCH: Final = 64
"""Held requests that one step reviews after a change of limits."""
MIN_FETCH_SHARE_MS: Final = 1000
"""The fetches in flight may together ask for at least this many ms' worth of bytes, even if the burst is shorter."""
_MEAN_WEIGHT: Final = 8
"""A reply moves the mean of the last replies by an eighth."""


class _InFlightFetch(NamedTuple):
    """A fetch in flight, and what it was charged before its reply."""

    bucket: QuotaBucket
    charged_bytes: float


class SmoothRule:
    """Judges requests by a release schedule per entity.

    `hooks_by_api` has the APIs that need more than a count of one. They are functions of the rule and not its methods:
    a rule that referred to itself would outlive its reload.
    """

    def __init__(self, manager: ClientQuotaManager, host: Host, burst_ms: float) -> None:
        self.manager = manager
        self.hooks_by_api: dict[int, Callable[[SmoothRule, Request, Peer, int], Verdict]] = {}
        self._host = host
        self._burst_ms = burst_ms
        self._find_hook = self.hooks_by_api.get
        self._find = manager.clients.get
        self._held: dict[int, Waiter] = {}  # by session
        self._fetches: dict[int, dict[int, _InFlightFetch]] = {}  # by session, exchange
        self._alarms: dict[
            QuotaBucket, int
        ] = {}  # when this rule serves the queue of a bucket next

    def count_bytes(self, *, produce: bool, fetch: bool) -> None:
        """Set whether the bytes of requests and of replies with records are limited."""
        hooks = self.hooks_by_api
        # By name: as an attribute it would be a C function in the compiled build.
        on_produce = vars(SmoothRule)["_on_produce"]
        for keys, hook, wanted in (
            (RECORDS_IN_REQUESTS, on_produce, produce),
            (RECORDS_IN_REPLIES, SmoothRule._on_fetch, fetch),
        ):
            for key in keys:
                hooks.pop(key, None)
                if wanted:
                    hooks[key] = hook
        if not fetch:  # `on_response` gets no replies to those in flight any more
            for session_id in tuple(self._fetches):
                self._forget_fetches(session_id)

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """Forward the request, with a throttle if needed, or hold it."""
        hook = self._find_hook(request.api_key)
        if hook is not None:
            return hook(self, request, peer, now_ms)
        account = self._find((peer.user, peer.client_id))
        if account is None:
            account = self.manager.buckets_of_peer(peer, now_ms)
        bucket = account.request
        if bucket is None:
            return self._without_limit(peer)
        ahead_ms = now_ms - bucket.pass_ms
        if ahead_ms < 0.0 or bucket.queue:
            return self.count(request, peer, now_ms)
        # As in `count`, written out: nearly every request takes this path.
        if ahead_ms > bucket.burst_ms:  # noqa: PLR1730 - a call of min is too slow here
            ahead_ms = bucket.burst_ms
        ahead_ms -= bucket.unit_ms
        bucket.pass_ms = now_ms - ahead_ms
        bucket.rate.record(1, now_ms)
        return FORWARD if ahead_ms >= 0.0 else _throttle(bucket, bucket.pass_ms - now_ms, now_ms)

    def maybe_gate(self, api_key: int, peer: Peer) -> Gate | None:
        """Return the gate of a client's requests of an API; None: each gets `on_request`."""
        is_ordinary = api_key in RECORDS_IN_REQUESTS or api_key not in self.hooks_by_api
        if not is_ordinary or peer.user in self.manager.exempt:
            return None
        return QuotaGate(self.manager, peer, api_key, self._held)

    def count(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """Judge it as a request, without its bytes."""
        bucket = self.manager.buckets_of_peer(peer, now_ms).request
        if bucket is None:
            return self._without_limit(peer)
        held = self._admit(bucket, 1, request, peer, now_ms)
        if held is not None:
            return held
        bucket.rate.record(1, now_ms)
        return self._throttle((bucket,), now_ms)

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        """Settle the real cost of a fetch."""
        if request.api_key not in RECORDS_IN_REPLIES:
            return FORWARD
        fetching = self._fetches.get(peer.session_id, {}).pop(request.exchange_id, None)
        charged_bytes = 0.0
        if fetching is not None:
            fetching.bucket.fetches_in_flight -= 1
            charged_bytes = fetching.charged_bytes
        bucket = self.manager.buckets_of_peer(peer, now_ms).fetch
        if bucket is None:
            return FORWARD
        size_bytes = response.size_bytes
        bucket.charge(size_bytes - charged_bytes, now_ms)
        bucket.rate.record(size_bytes, now_ms)
        bucket.mean_reply_bytes += (size_bytes - bucket.mean_reply_bytes) / _MEAN_WEIGHT
        if bucket.queue:  # its first request may pass earlier now
            self._set_alarm(bucket, now_ms)
        return self._throttle((bucket,), now_ms)

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Remove the client's waiting request and its fetches in flight."""
        self._forget_fetches(peer.session_id)
        waiter = self._held.get(peer.session_id)
        if waiter is not None:
            self._forget(waiter)

    def on_limits_changed(self, now_ms: int) -> None:
        """Serve every queue by its new limit, in the same order.

        Requests to which another limit applies now are judged again. A large number is reviewed in several steps.
        """
        self._in_parts(list(self._held.values()), self._recheck, now_ms)

    def throttle_until_ms(self, peer: Peer, why: QuotaViolation, now_ms: int) -> float:
        """Return until when this client has to be muted under the present limits."""
        account = self.manager.buckets_of_peer(peer, now_ms)
        owed = (each for each in (account.request, account.produce, account.fetch) if each)
        return max(
            (each.pass_ms + each.queued_cost * each.unit_ms for each in owed), default=now_ms
        )

    def adopt(self, previous: SmoothRule) -> None:
        """Share the state of the previous rule. `on_limits_changed` is called next, and sets the alarms.

        The previous rule is still asked about requests that cannot move to the new chain.
        """
        self._held = previous._held
        self._fetches = previous._fetches
        previous._alarms.clear()

    def release(self, now_ms: int) -> None:
        """Release each held request, because another rule judges it from now on.

        A request that cannot move to the new chain waits here again. Fetches in flight are charged by their replies.
        """
        waiters = list(self._held.values())
        for waiter in waiters:
            self._forget(waiter)
        self._alarms.clear()
        for of_session in self._fetches.values():
            for fetching in of_session.values():
                fetching.bucket.fetches_in_flight -= 1
                fetching.bucket.charge(-fetching.charged_bytes, now_ms)
        self._fetches.clear()
        self._in_parts(waiters, lambda waiter, _: self._host.wake(waiter), now_ms)

    def _in_parts(
        self, waiters: list[Waiter], apply: Callable[[Waiter, int], object], now_ms: int
    ) -> None:
        """Call `apply` for each waiter in order; a large number is handled in several steps."""
        waiters.reverse()
        self._next_part(waiters, apply, now_ms)

    def _next_part(
        self, waiters: list[Waiter], apply: Callable[[Waiter, int], object], now_ms: int
    ) -> None:
        for _ in range(min(len(waiters), REVIEW_BATCH)):
            apply(waiters.pop(), now_ms)
        if waiters:
            self._host.call_at(now_ms + 1, partial(self._next_part, waiters, apply))

    # -- waiting -----------------------------------------------------------------------------

    def _admit(
        self,
        bucket: QuotaBucket,
        cost: float,
        request: Request,
        peer: Peer,
        now_ms: int,
        *,
        paid: bool = False,
    ) -> Hold | None:
        """Charge `cost` if the request may pass now; else hold it. `paid`: see Waiter."""
        waiter = self._maybe_waiter(request, peer)
        queue = bucket.queue
        if bucket.pass_ms <= now_ms and (
            not queue or (waiter is not None and next(iter(queue.values())) is waiter)
        ):
            if waiter is not None:
                self._forget(waiter)
            bucket.charge(cost, now_ms)
            return None
        if waiter is not None:
            self._forget(waiter)
        waiter = Waiter(bucket, peer, request.exchange_id, cost, paid=paid)
        self._held[peer.session_id] = waiter
        ahead = bucket.queued_cost
        bucket.enqueue(waiter)
        self._set_alarm(bucket, now_ms)
        why = bucket.violation_for_delay(
            max(0.0, bucket.pass_ms - now_ms) + ahead * bucket.unit_ms, now_ms
        )
        return Hold(MAX_HOLD_MS, waiter, throttles=True, why=why)

    def _maybe_waiter(self, request: Request, peer: Peer) -> Waiter | None:
        waiter = self._held.get(peer.session_id)
        if waiter is None or waiter.exchange_id == request.exchange_id:
            return waiter
        self._forget(
            waiter
        )  # its request was forwarded anyway: the entry only observes, or the proxy drains
        return None

    def _forget(self, waiter: Waiter) -> None:
        if self._held.get(waiter.session_id) is waiter:
            del self._held[waiter.session_id]
        waiter.bucket.remove(waiter)

    def _recheck(self, waiter: Waiter, now_ms: int) -> None:
        if self._held.get(waiter.session_id) is not waiter:
            return  # it has passed, or its client has gone
        bucket = waiter.bucket
        if self.manager.buckets_of_peer(waiter.peer, now_ms).of(bucket.key) is bucket:
            self._set_alarm(bucket, now_ms)  # it has the new limit already
            return
        bucket.remove(waiter)
        if not self._host.wake(waiter):
            self._forget(waiter)

    def _forget_fetches(self, session_id: int) -> None:
        for fetching in self._fetches.pop(session_id, {}).values():
            fetching.bucket.fetches_in_flight -= 1

    def _set_alarm(self, bucket: QuotaBucket, now_ms: int) -> None:
        at_ms = ceil(min(max(bucket.pass_ms, now_ms), now_ms + MAX_THROTTLE_MS))
        if at_ms < self._alarms.get(bucket, inf):
            self._alarms[bucket] = at_ms
            self._host.call_at(at_ms, partial(self._on_alarm, bucket))

    def _on_alarm(self, bucket: QuotaBucket, now_ms: int) -> None:
        """Serve the queue as far as the schedule allows."""
        if now_ms < self._alarms.get(bucket, inf):
            return  # an earlier alarm has done it
        del self._alarms[bucket]
        while bucket.queue:
            if bucket.pass_ms > now_ms:
                self._set_alarm(bucket, now_ms)
                return
            head = next(iter(bucket.queue.values()))
            self._host.wake(head)
            self._forget(head)  # if it is still there, its client has disconnected

    def _throttle(self, buckets: tuple[QuotaBucket | None, ...], now_ms: int) -> Forward | Throttle:
        """Return a Throttle until all that these buckets owe or have queued may have passed; the longest counts."""
        longest_ms, longest = 0, None
        for bucket in buckets:
            if bucket is None:
                continue
            left_ms = bucket.pass_ms - now_ms + bucket.queued_cost * bucket.unit_ms
            if left_ms > longest_ms:
                longest_ms, longest = ceil(min(left_ms, MAX_THROTTLE_MS)), bucket
        if longest is None:
            return FORWARD
        return _throttle(longest, longest_ms, now_ms)

    def _without_limit(self, peer: Peer) -> Forward:
        """Forward a request that no limit applies to."""
        return EXEMPT if peer.user in self.manager.exempt else FORWARD

    # -- bytes -------------------------------------------------------------------------------

    def _on_produce(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        account = self._find((peer.user, peer.client_id))
        if account is None:
            account = self.manager.buckets_of_peer(peer, now_ms)
        produce, bucket = account.produce, account.request
        if produce is None and bucket is None:
            return self._without_limit(peer)
        size_bytes = request.size_bytes
        if (
            produce is not None
            and bucket is not None
            and produce.pass_ms <= now_ms >= bucket.pass_ms
            and not (produce.queue or bucket.queue or peer.session_id in self._held)
        ):  # as below, when no request waits
            produce.charge(size_bytes, now_ms)
            produce.rate.record(size_bytes, now_ms)
            bucket.charge(1, now_ms)
            bucket.rate.record(1, now_ms)
            if produce.pass_ms <= now_ms >= bucket.pass_ms:
                return FORWARD
            return self._throttle((bucket, produce), now_ms)
        waiter = self._maybe_waiter(request, peer)
        if produce is not None and (waiter is None or not waiter.paid):
            held = self._admit(produce, size_bytes, request, peer, now_ms)
            if held is not None:
                return held
            produce.rate.record(size_bytes, now_ms)
        if bucket is not None:
            held = self._admit(bucket, 1, request, peer, now_ms, paid=True)
            if held is not None:
                return held
            bucket.rate.record(1, now_ms)
        return self._throttle((bucket, produce), now_ms)

    def _on_fetch(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        account = self.manager.buckets_of_peer(peer, now_ms)
        fetch, bucket = account.fetch, account.request
        if fetch is None and bucket is None:
            return self._without_limit(peer)
        waiter = self._maybe_waiter(request, peer)
        if fetch is not None and (waiter is None or not waiter.paid):
            expected = fetch.mean_reply_bytes
            held = self._admit(fetch, expected, request, peer, now_ms)
            if held is not None:
                return held
            of_session = self._fetches.setdefault(peer.session_id, {})
            of_session[request.exchange_id] = _InFlightFetch(fetch, expected)
            fetch.fetches_in_flight += 1
        if bucket is not None:
            held = self._admit(bucket, 1, request, peer, now_ms, paid=True)
            if held is not None:
                return held
            bucket.rate.record(1, now_ms)
        throttle = self._throttle((bucket,), now_ms)
        if fetch is None:
            return throttle
        at_once = fetch.fetches_in_flight + len(
            fetch.queue or ()
        )  # this one is among those in flight
        share = fetch.limit * max(self._burst_ms, MIN_FETCH_SHARE_MS) / 1000 / max(1, at_once)
        limited = limit_fetch(request, share)
        if isinstance(throttle, Throttle) and limited is not FORWARD:
            return Throttle(throttle.throttle_time_ms, limited, throttle.why)
        return limited if throttle is FORWARD else throttle


def _throttle(bucket: QuotaBucket, left_ms: float, now_ms: int) -> Forward | Throttle:
    """Return a Throttle for this time, in whole ms, which the bucket counts."""
    if left_ms <= 0:
        return FORWARD
    time_ms = ceil(left_ms) if left_ms < MAX_THROTTLE_MS else MAX_THROTTLE_MS
    if bucket.throttle_time is None:
        bucket.record_throttle(time_ms, now_ms)
    else:
        bucket.throttle_time.record(time_ms, now_ms)
    return Throttle(time_ms, FORWARD, bucket.violation_for_delay(time_ms, now_ms))
