"""Queries are followed to their end; one that fails ends all, unless Python was only slow to start."""

from dataclasses import dataclass, field

import pytest
from pyspark.errors import AnalysisException

from pipeline.errors import JobFailedError
from pipeline.stream.follow import MAX_STARTS, follow

SLOW = "org.apache.spark.SparkException: Python worker failed to connect back."


@dataclass
class Query:
    """A query that ends after some looks at it, perhaps with an error."""

    name: str
    looks: int = 1
    error: str | None = None
    stopped: bool = False
    recentProgress: list[object] = field(default_factory=list)  # noqa: N815 - Spark's name

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self.looks -= 1
        return self.looks > 0

    def exception(self) -> Exception | None:
        return Exception(self.error) if self.error and self.looks <= 0 else None

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between two looks."""
    monkeypatch.setattr("pipeline.stream.follow._POLL_SECONDS", 0)


def test_it_returns_when_the_last_query_has_ended() -> None:
    """However long the first has been over."""
    queries = [Query("a"), Query("b", looks=5)]
    follow([lambda each=each: each for each in queries], lambda _: None)

    assert all(each.stopped and each.looks <= 0 for each in queries)


def test_a_failed_query_ends_the_others_and_is_named() -> None:
    """The error has Spark's words without the plan of the query."""
    other, failed = (
        Query("a", looks=99),
        Query("b", error="disk full\n=== Streaming Query ===\nplan"),
    )

    with pytest.raises(JobFailedError, match=r"^The query b failed: disk full\."):
        follow([lambda: other, lambda: failed], lambda _: None)
    assert other.stopped


def test_a_query_whose_python_was_slow_is_started_again() -> None:
    """And is followed to its end."""
    queries = [Query("a", error=SLOW), Query("a", error=SLOW), Query("a", looks=3)]
    waiting = iter(queries)
    follow([lambda: next(waiting)], lambda _: None)

    assert queries[2].stopped


def test_it_is_not_started_again_without_end() -> None:
    """After MAX_STARTS the error is told."""
    starts = []

    def start() -> Query:
        starts.append(Query("a", error=SLOW))
        return starts[-1]

    with pytest.raises(JobFailedError, match="Python worker"):
        follow([start], lambda _: None)
    assert len(starts) == MAX_STARTS


def test_a_query_that_cannot_start_ends_those_that_run() -> None:
    """Nothing is left running."""
    first = Query("a", looks=99)

    def fail() -> Query:
        raise AnalysisException("no such topic\nplan")

    with pytest.raises(JobFailedError, match=r"The stream failed: no such topic\."):
        follow([lambda: first, fail], lambda _: None)
    assert first.stopped
