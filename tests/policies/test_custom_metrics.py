"""Metrics of policies: checked when they are made, bounded under any input of clients, kept over a reload."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.custom_metrics import (
    MAX_LABEL_CHARS,
    MAX_METRICS,
    MAX_SERIES,
    OTHER,
    CustomMetrics,
    MetricSpec,
    conflicts,
)
from policies.testing import BenchHost

LOOKUPS = MetricSpec("counter", "lookups", "Lookups by result.", ("result",))
SIZES = MetricSpec("histogram", "sizes", "Sizes.", (), (1, 10.5))


def test_a_counter_counts_by_its_labels_and_a_histogram_at_its_bounds() -> None:
    """A count may be a fraction; a value that equals a bound is below it, as in Prometheus."""
    counter = CustomMetrics().counter(LOOKUPS)
    counter.add(1, "hit")
    counter.add(2.5, "hit")
    counter.add(0, "miss")
    assert counter.series == {("hit",): 3.5, ("miss",): 0}

    histogram = CustomMetrics().histogram(SIZES)
    for value in (-3, 1, 1.01, 10.5, 11):
        histogram.add(value)
    (series,) = histogram.series.values()
    assert series.counts == [2, 2, 1]
    assert series.sum == pytest.approx(20.51)


@given(st.lists(st.text(max_size=3) | st.text(max_size=MAX_LABEL_CHARS + 5), max_size=20))
def test_labels_of_clients_are_bounded_and_nothing_is_lost(labels: list[str]) -> None:
    """There are at most MAX_SERIES series and `other`, each can be written as UTF-8, and all counts are there."""
    counter = CustomMetrics().counter(LOOKUPS)
    for label in labels:
        counter.add(1, label)
    assert len(counter.series) <= MAX_SERIES + 1
    assert sum(counter.series.values()) == len(labels)
    for (label,) in counter.series:
        label.encode()


def test_the_series_after_the_last_is_other() -> None:
    """A million client ids are one series more than the limit; known series still count."""
    counter = CustomMetrics().counter(LOOKUPS)
    for number in range(MAX_SERIES + 1_000):
        counter.add(1, f"client-{number}")
    counter.add(1, "client-0")
    assert len(counter.series) == MAX_SERIES + 1
    assert counter.series[(OTHER,)] == 1_000
    assert counter.series[("client-0",)] == 2


@pytest.mark.parametrize("count", [-1, float("nan"), float("inf"), 1e16])
def test_a_count_that_would_spoil_the_metric_is_refused(count: float) -> None:
    """A counter never falls, and stays a number."""
    counter = CustomMetrics().counter(LOOKUPS)
    with pytest.raises(ValueError, match=r"lookups gets .*, expected a number in 0\.\."):
        counter.add(count, "hit")
    with pytest.raises(ValueError, match="sizes"):
        CustomMetrics().histogram(SIZES).add(count if count != -1 else float("-inf"))
    assert counter.series == {}


@pytest.mark.parametrize("labels", [(), ("a", "b"), (7,), (None,)])
def test_labels_are_texts_and_as_many_as_defined(labels: tuple[object, ...]) -> None:
    """The error names the metric and its labels."""
    with pytest.raises(TypeError, match=r"the metric lookups are .*, expected texts for: result"):
        CustomMetrics().counter(LOOKUPS).add(1, *labels)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda host: host.counter("Look ups", "Help."), "the metric's name is 'Look ups'"),
        (lambda host: host.counter("lookups_total", "Help."), "without the ending _total"),
        (lambda host: host.counter("a" * 81, "Help."), "the metric's name is"),
        (lambda host: host.counter("a", "two\nlines"), "a has the help"),
        (lambda host: host.counter("a", ""), "a has the help ''"),
        (lambda host: host.counter("a", "Help.", ["policy"]), "a has the labels 'policy'"),
        (lambda host: host.counter("a", "Help.", ["b", "b"]), "a has the labels 'b', 'b'"),
        (lambda host: host.counter("a", "Help.", list("bcdefg")), "5 different names at most"),
        (lambda host: host.histogram("a", "Help.", []), "expected 1..30 rising numbers"),
        (lambda host: host.histogram("a", "Help.", [2, 1]), "the buckets 2, 1"),
        (lambda host: host.histogram("a", "Help.", [1, float("nan")]), "the buckets 1, nan"),
        (lambda host: host.histogram("a", "Help.", range(31)), "1..30 rising"),
    ],
)
def test_a_wrong_definition_is_refused(make: Callable[[BenchHost], object], words: str) -> None:
    """The error names the metric, the part that is wrong and what is expected."""
    with pytest.raises(ValueError, match="expected") as refused:
        make(BenchHost())
    assert words in str(refused.value)


def test_the_same_definition_is_the_same_metric() -> None:
    """Another one under its name is refused, also by another entry, and so is one more than the limit."""
    host = BenchHost()
    first = host.counter("lookups", "Lookups.")
    assert host.counter("lookups", "Lookups.") is first
    with pytest.raises(ValueError, match="lookups is defined twice"):
        host.histogram("lookups", "Lookups.", [1])
    for number in range(1, MAX_METRICS):
        host.counter(f"n{number}", "Help.")
    with pytest.raises(ValueError, match=f"more is metric {MAX_METRICS + 1}"):
        host.counter("more", "Help.")

    ours, same, other = CustomMetrics(), CustomMetrics(), CustomMetrics()
    ours.counter(LOOKUPS)
    same.counter(LOOKUPS)
    other.counter(LOOKUPS._replace(labels=()))
    defined = {"lookups": LOOKUPS}
    assert not [*conflicts(same, defined), *conflicts(ours, {})]
    assert [*conflicts(other, defined)] == [
        "the metric lookups is defined differently by another entry"
    ]


def test_a_reload_continues_what_is_defined_as_before() -> None:
    """Also what requests from before the reload still add; a metric with other labels begins at nothing."""
    before, after = CustomMetrics(), CustomMetrics()
    old, sizes = before.counter(LOOKUPS), before.histogram(SIZES)
    old.add(3, "hit")
    sizes.add(5)
    new = after.counter(LOOKUPS)
    changed = after.histogram(SIZES._replace(buckets=(1, 2)))
    after.adopt(before)
    new.add(1, "hit")
    old.add(1, "hit")
    assert new.series == {("hit",): 5}
    assert changed.series == {}
