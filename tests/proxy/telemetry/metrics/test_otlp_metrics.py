"""The push of metrics as a collector decodes it: OTLP over HTTP, set up by the SDK's variables."""

import logging
import socket
import time
from collections.abc import Iterator

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE

from proxy.telemetry.facts import STARTED_S
from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.families import Distribution, Family, MetricPoint
from proxy.telemetry.metrics.otlp_metrics import OtlpMetricExporter
from proxy.telemetry.metrics.push import load_otlp
from tests.support.telemetry.metrics_collector import Heard, attributes, listening

AT_MS = 1_700_000_000_123
BELOW = tuple(range(1, len(names.STEP.edges) + 1))
FAMILIES = [
    Family(
        names.REQUESTS,
        [MetricPoint(("Fetch", "replied"), 7), MetricPoint(("Produce", "expired"), 2)],
    ),
    Family(names.POOL_USED, [MetricPoint(("request",), 4096)]),
    Family(names.STEP, [MetricPoint((), Distribution(BELOW, 99, 1.25, {}))]),
    Family(names.BUILD, [MetricPoint(("1.2.3", "3.11"), 1)]),
]


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Heard]:
    """Return a collector on loopback that the usual variable names."""
    heard = Heard()
    with listening(heard) as port:
        for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
        yield heard


def send(families: list[Family] = FAMILIES) -> bool:
    exporter = OtlpMetricExporter("1.2.3")
    try:
        return exporter.export(families, AT_MS)
    finally:
        exporter.shutdown()


def test_a_counter_is_a_cumulative_sum(collector: Heard) -> None:
    """It is monotonic, has its labels as attributes, and Prometheus would restore its name."""
    assert send()

    metric = collector.metrics()["sluice_requests"]
    assert (metric.unit, metric.description) == ("1", names.REQUESTS.help)
    assert metric.sum.is_monotonic
    assert metric.sum.aggregation_temporality == AGGREGATION_TEMPORALITY_CUMULATIVE
    fetch, produce = metric.sum.data_points
    assert (attributes(fetch.attributes), fetch.as_int) == (
        {"api": "Fetch", "outcome": "replied"},
        7,
    )
    assert (attributes(produce.attributes), produce.as_int) == (
        {"api": "Produce", "outcome": "expired"},
        2,
    )
    assert fetch.time_unix_nano == AT_MS * 1_000_000
    assert fetch.start_time_unix_nano == int(STARTED_S * 1e9)


def test_a_gauge_is_a_gauge(collector: Heard) -> None:
    """Its unit is spelt as OpenTelemetry does; the build information is a gauge too."""
    assert send()

    found = collector.metrics()
    (point,) = found["sluice_pool_used_bytes"].gauge.data_points
    assert found["sluice_pool_used_bytes"].unit == "By"
    assert (attributes(point.attributes), point.as_int) == ({"pool": "request"}, 4096)
    (point,) = found["sluice_build"].gauge.data_points
    assert attributes(point.attributes) == {"version": "1.2.3", "python": "3.11"}


def test_a_histogram_has_each_buckets_own_count(collector: Heard) -> None:
    """Counts are not cumulative; there is one more than bounds; bounds are in seconds."""
    assert send()

    metric = collector.metrics()["sluice_event_loop_step_seconds"]
    (point,) = metric.histogram.data_points
    assert metric.unit == "s"
    assert list(point.explicit_bounds) == [2**edge / 1e6 for edge in names.STEP.edges]
    assert list(point.bucket_counts) == [*(1 for _ in BELOW), 99 - len(BELOW)]
    assert (point.count, point.sum) == (99, 1.25)
    assert not point.HasField("min")
    assert not point.HasField("max")


def test_the_variables_of_the_resource_are_used(
    collector: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They add to the defaults; the service is not the SDK's `unknown_service`."""
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=pod-7")
    assert send()

    assert collector.paths == ["/v1/metrics"]
    (sender,) = (each.resource for each in collector.requests[0].resource_metrics)
    assert attributes(sender.attributes) == {
        "service.name": "sluice",
        "service.version": "1.2.3",
        "k8s.pod.name": "pod-7",
    }


def test_a_refused_push_is_a_failure_and_no_secret_is_logged(
    collector: Heard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK's log lines do not contain the headers."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20secret")
    collector.status = 400
    with caplog.at_level(logging.DEBUG):
        assert not send()

    assert collector.requests
    assert "secret" not in caplog.text


def test_the_exporter_of_the_push_is_this_one() -> None:
    """The push loads it when it starts."""
    exporter = load_otlp("1.2.3")
    exporter.shutdown()

    assert isinstance(exporter, OtlpMetricExporter)


def test_a_timeout_is_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry specifies so, and the SDK does otherwise: a push to a silent collector ends."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
        begun = time.monotonic()

        assert not send()
        # Read as seconds it would be longer than any machine makes it.
        assert 0.19 < time.monotonic() - begun < 190


def test_a_timeout_that_is_not_a_number_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The error names the variable."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "soon")

    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_METRICS_TIMEOUT"):
        OtlpMetricExporter("1.2.3")
