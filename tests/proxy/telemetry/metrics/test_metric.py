"""A metric's family."""

from proxy.telemetry.metrics.metric import Metric, MetricKind


def test_a_family_has_no_suffix_of_samples():
    """Those of counters and of infos are not part of its name."""
    assert Metric("a_total", MetricKind.COUNTER, "").family == "a"
    assert Metric("a_info", MetricKind.INFO, "").family == "a"
    assert Metric("a_total", MetricKind.GAUGE, "").family == "a_total"
