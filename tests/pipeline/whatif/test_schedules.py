"""The numpy twins give the same delay for every request as the file that the proxy runs."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.whatif.schedules import ReleaseSchedules, SampledRates
from policies.quota.rate import ReleaseSchedule, SampledRate
from tests.support.telemetry.usage_rows import START_MS

BUCKETS = 3
limits = st.floats(0.01, 1e6)
traces = st.lists(
    st.tuples(
        st.integers(0, BUCKETS - 1),
        st.sampled_from([0, 0, 0, 1, 7, 400, 1000, 5_000, 10_999, 11_000, 60_000]),
        st.integers(0, 5_000),
    ),
    min_size=1,
    max_size=80,
)


@given(st.lists(limits, min_size=BUCKETS, max_size=BUCKETS), st.floats(0, 60_000), traces)
def test_release_schedules_equal_the_proxys(
    rates: list[float], burst_ms: float, trace: list[tuple[int, int, int]]
) -> None:
    """The delay before and after each charge, and the credits, are the same floats."""
    own = [ReleaseSchedule(rate, burst_ms) for rate in rates]
    twins = ReleaseSchedules(np.array(rates), burst_ms)
    now_ms = START_MS
    for place, pause_ms, cost in trace:
        now_ms += pause_ms
        which, now = np.array([place]), np.array([float(now_ms)])
        assert twins.delay_ms(which, now)[0] == own[place].delay_ms(now_ms)
        assert twins.charge(which, np.array([float(cost)]), now)[0] == own[place].charge(
            cost, now_ms
        )
        assert twins.credits(which, now)[0] == own[place].credits(now_ms)


@given(
    st.integers(2, 13),
    st.sampled_from([1000, 3000]),
    traces,
)
def test_sampled_rates_equal_the_proxys(
    samples: int, window_ms: int, trace: list[tuple[int, int, int]]
) -> None:
    """After each request of each bucket: rate and span."""
    own = [SampledRate(samples, window_ms) for _ in range(BUCKETS)]
    twins = SampledRates(BUCKETS, samples, window_ms)
    now_ms = START_MS
    for place, pause_ms, cost in trace:
        now_ms += pause_ms
        which, now = np.array([place]), np.array([now_ms])
        own[place].record(cost, now_ms)
        twins.record(which, np.array([float(cost)]), now)
        everywhere = np.arange(BUCKETS)
        observed, span_ms = twins.observe(everywhere, np.full(BUCKETS, now_ms))
        assert [each.observe(now_ms) for each in own] == list(zip(observed, span_ms, strict=True))


def test_many_buckets_are_charged_in_one_call() -> None:
    """A call for all buckets gives each what a call for it alone gives."""
    rates = np.array([1.0, 10.0, 100.0])
    together, alone = ReleaseSchedules(rates, 500), ReleaseSchedules(rates, 500)
    now, cost = np.array([1e6, 2e6, 3e6]), np.array([5.0, 6.0, 70.0])
    delays = together.charge(np.arange(3), cost, now)
    each = [alone.charge(np.array([n]), cost[n : n + 1], now[n : n + 1])[0] for n in range(3)]
    assert list(delays) == each
    assert min(delays) > 0
