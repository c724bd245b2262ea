"""The most active clients, and their throttle times."""

from policies.api import Outcome, Peer
from proxy.core.stats.request_trace import RequestTrace
from proxy.core.stats.usage import UsageRow
from proxy.telemetry.client_activity import FRESH_MS, HALF_MS, MAX_KEYS, ClientActivity, Throttles

NOW_MS = 1_000_000


def row(user: str, requests: int, blocked_ms: int = 0) -> UsageRow:
    return UsageRow(
        NOW_MS - 1000, user, "c", requests, requests, 0, 0, 0, 0, 0, 1, 0, 0, 0, blocked_ms, 0
    )


def throttled(user: str, ms: int, at_ms: int = NOW_MS) -> RequestTrace:
    trace = RequestTrace(at_ms * 1000)
    trace.peer = Peer(1, "h", 1, client_id="c", user=user)
    trace.outcome = Outcome.REPLIED
    trace.ended_us = at_ms * 1000
    trace.throttle_until_ms = at_ms + ms
    return trace


def test_throttled_clients_come_first_then_the_busiest():
    """A client with a low limit has few requests, and is the one that an operator looks for."""
    principals = ClientActivity()
    principals.on_second(NOW_MS - 1000, [row("a", 1), row("b", 9), row("c", 0, blocked_ms=5)])
    assert [each.row.user for each in principals.busiest(2, NOW_MS)] == ["c", "b"]


def test_only_fresh_rates_and_delayed_requests_count():
    """Without connected clients no second ends, and no client is active; a slow request has a trace too."""
    principals = ClientActivity()
    principals.on_second(NOW_MS - 1000, [row("a", 1)])
    assert principals.busiest(9, NOW_MS + FRESH_MS)
    assert principals.busiest(9, NOW_MS + FRESH_MS + 1) == []

    principals = ClientActivity()
    principals.on_second(NOW_MS - 1000, [row("a", 1)])
    principals.on_trace(throttled("a", 0))
    assert principals.busiest(1, NOW_MS)[0].throttles is None


def test_throttle_times_are_kept_for_each_client():
    """They are the median and 99th percentile, to a bucket's width, the count and the total."""
    principals = ClientActivity()
    principals.on_second(NOW_MS - 1000, [row("a", 1), row("b", 1)])
    for ms in [100] * 98 + [1000] * 2:
        principals.on_trace(throttled("a", ms))
    by_user = {each.row.user: each.throttles for each in principals.busiest(9, NOW_MS)}
    assert by_user["b"] is None
    throttles = by_user["a"]
    assert throttles is not None
    median, p99 = throttles.quantiles_ms(NOW_MS) or (0, 0)
    assert 100 <= median < 110
    assert 1000 <= p99 < 1100
    assert (throttles.count, throttles.total_ms) == (100, 98 * 100 + 2 * 1000)


def test_percentiles_cover_the_last_minute():
    """The counts cover all time."""
    throttles = Throttles(NOW_MS)
    throttles.add(100, NOW_MS)
    assert throttles.quantiles_ms(NOW_MS + HALF_MS) is not None
    assert throttles.quantiles_ms(NOW_MS + 2 * HALF_MS) is None
    throttles.add(100, NOW_MS + 10 * HALF_MS)
    assert throttles.quantiles_ms(NOW_MS + 12 * HALF_MS) is None
    assert throttles.count == 2


def test_the_number_of_clients_with_throttle_times_is_bounded():
    """The client that was throttled longest ago is dropped."""
    principals = ClientActivity()
    principals.on_trace(throttled("first", 5))
    principals.on_trace(throttled("second", 5))
    for place in range(MAX_KEYS - 1):
        principals.on_trace(throttled("first", 5))
        principals.on_trace(throttled(f"other-{place}", 5))
    principals.on_second(NOW_MS - 1000, [row("first", 2), row("second", 1)])
    first, second = principals.busiest(2, NOW_MS)
    assert first.throttles is not None
    assert second.throttles is None
