"""The metrics page in both formats, as the parsers of prometheus_client read it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from proxy.telemetry.metrics import names
from proxy.telemetry.metrics.exposition import OPENMETRICS, render, wants_openmetrics
from proxy.telemetry.metrics.families import Distribution, Exemplar, Family, MetricPoint
from proxy.telemetry.metrics.metric import MetricKind
from proxy.telemetry.metrics.names import ALL

READERS = {False: read_text, True: read_openmetrics}
BOTH = pytest.mark.parametrize("openmetrics", [False, True], ids=["text", "openmetrics"])
ID = "ab" * 16


def read(families: list[Family], *, openmetrics: bool):
    return list(READERS[openmetrics](render(families, openmetrics=openmetrics).decode()))


def steps(exemplars: dict[int, Exemplar] | None = None) -> Family:
    below = tuple(range(len(names.STEP.edges)))
    return Family(names.STEP, [MetricPoint((), Distribution(below, 40, 1.5, exemplars or {}))])


@BOTH
def test_every_metric_of_the_table_can_be_read(*, openmetrics: bool) -> None:
    """A strict parser reads each one, with type, unit and help as in the table."""
    families = []
    for metric in ALL:
        labels = tuple(f"{label} 1" for label in metric.labels)
        below = (1,) * len(metric.edges)
        histogram = metric.kind is MetricKind.HISTOGRAM
        families.append(
            Family(
                metric, [MetricPoint(labels, Distribution(below, 2, 0.5, {}) if histogram else 1)]
            )
        )

    found = read(families, openmetrics=openmetrics)

    for metric, family in zip(ALL, found, strict=True):
        assert family.documentation == metric.help
        if openmetrics:
            assert (family.name, family.type) == (metric.family, metric.kind.value)
            assert family.unit == metric.unit
        (first, *_) = family.samples
        assert first.name == metric.name + (
            "_bucket" if metric.kind is MetricKind.HISTOGRAM else ""
        )
        assert set(first.labels) - {"le"} == set(metric.labels)


@BOTH
@given(user=st.text(min_size=1))
def test_any_label_value_is_read_back_unchanged(user: str, *, openmetrics: bool) -> None:
    """Quotes, backslashes and line ends are escaped as both formats require."""
    if not openmetrics and any(c in user for c in "\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"):
        return  # this parser splits lines at these characters; `users.label_of` replaces them
    (family,) = read([Family(names.USER_RATE, [MetricPoint((user,), 3)])], openmetrics=openmetrics)

    (sample,) = family.samples
    assert (sample.labels, sample.value) == ({"user": user}, 3)


@BOTH
def test_a_histogram_is_cumulative_and_complete(*, openmetrics: bool) -> None:
    """It has a bucket for each edge in seconds, one without an edge, the sum and the count."""
    (family,) = read([steps()], openmetrics=openmetrics)

    *buckets, total, count = family.samples
    assert [float(each.labels["le"]) for each in buckets] == [
        *(2**edge / 1e6 for edge in names.STEP.edges),
        float("inf"),
    ]
    assert [each.value for each in buckets] == [*range(len(names.STEP.edges)), 40]
    assert (total.name, total.value) == ("sluice_event_loop_step_seconds_sum", 1.5)
    assert (count.name, count.value) == ("sluice_event_loop_step_seconds_count", 40)


def test_an_exemplar_stands_at_its_bucket() -> None:
    """In OpenMetrics it has trace id, value and time; it may stand after the last edge."""
    beyond = len(names.STEP.edges)
    kept = {3: Exemplar(ID, 0.0001, 1.7e9), beyond: Exemplar(ID, 9.5, 1.7e9 + 0.5)}
    (family,) = read([steps(kept)], openmetrics=True)

    found = {n: each.exemplar for n, each in enumerate(family.samples) if each.exemplar}
    assert {n: (e.labels, e.value, float(e.timestamp)) for n, e in found.items()} == {
        3: ({"trace_id": ID}, 0.0001, 1.7e9),
        beyond: ({"trace_id": ID}, 9.5, 1.7e9 + 0.5),
    }


def test_the_older_format_has_no_exemplars() -> None:
    """The text format does not have them."""
    page = render([steps({3: Exemplar(ID, 0.0001, 1.7e9)})], openmetrics=False)

    assert b"trace_id" not in page
    assert b"# EOF" not in page


def test_openmetrics_ends_with_its_end_mark() -> None:
    """A client can tell a page that was cut off."""
    assert render([], openmetrics=True) == b"# EOF\n"


def test_a_client_that_accepts_openmetrics_gets_it() -> None:
    """Prometheus accepts it; a browser and curl get plain text."""
    prometheus = f"{OPENMETRICS.partition(';')[0]};version=1.0.0,text/plain;version=0.0.4;q=0.5"

    assert wants_openmetrics(prometheus)
    assert not wants_openmetrics("*/*")
    assert not wants_openmetrics("text/plain;version=0.0.4")
