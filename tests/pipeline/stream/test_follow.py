"""Queries are followed to their end; one that fails ends all, unless a file is broken."""

import os
import signal
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial

import pytest
from pyspark.errors import AnalysisException

from pipeline.errors import JobFailedError
from pipeline.stream.follow import follow

BROKEN = (
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///log/{}.  SQLSTATE: KD001\n"
    "Caused by: java.io.EOFException: end"
)


@dataclass
class Query:
    """A query that ends after some looks at it, perhaps with an error."""

    name: str
    looks: int = 1
    error: str | None = None
    stopped: bool = False
    active_looks: int = 0
    """How often the query is in a batch when it is asked, after the signal."""
    recentProgress: list[object] = field(default_factory=list)  # noqa: N815 - Spark's name

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self.looks -= 1
        return self.looks > 0

    @property
    def status(self) -> dict[str, bool]:
        self.active_looks -= 1
        return {"isTriggerActive": self.active_looks >= 0}

    def exception(self) -> Exception | None:
        return Exception(self.error) if self.error and self.looks <= 0 else None

    def stop(self) -> None:
        assert self.active_looks <= 0, "stopped in the middle of a batch"
        self.stopped = True
        self.looks = 0


def is_always(_: str) -> bool:
    """Each file that a query fails by is broken."""
    return True


@pytest.fixture(autouse=True)
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait between two looks."""
    monkeypatch.setattr("pipeline.stream.follow._POLL_SECONDS", 0)


def test_it_returns_when_the_last_query_has_ended() -> None:
    """However long the first has been over."""
    queries = [Query("a"), Query("b", looks=5)]
    follow([lambda _, each=each: each for each in queries], lambda _: None, is_always, {})

    assert all(each.stopped and each.looks <= 0 for each in queries)


def test_a_failed_query_ends_the_others_and_is_named() -> None:
    """The error has Spark's words without the plan of the query."""
    other, failed = (
        Query("a", looks=99),
        Query("b", error="disk full\n=== Streaming Query ===\nplan"),
    )

    with pytest.raises(JobFailedError, match=r"^The query b failed: disk full\."):
        follow([lambda _: other, lambda _: failed], lambda _: None, is_always, {})
    assert other.stopped


def test_a_query_that_cannot_start_ends_those_that_run() -> None:
    """Nothing is left running."""
    first = Query("a", looks=99)

    def fail(_: object) -> Query:
        raise AnalysisException("no such topic\nplan")

    with pytest.raises(JobFailedError, match=r"The stream failed: no such topic\."):
        follow([lambda _: first, fail], lambda _: None, is_always, {})
    assert first.stopped


def test_a_broken_file_is_named_once_and_left_out() -> None:
    """Each query fails by it and is started again without it, any number of times."""
    told: list[str] = []
    without: dict[str, list[list[str]]] = {"a": [], "b": []}

    def start(name: str, broken: Collection[str]) -> Query:
        without[name].append(sorted(broken))
        left = [file for file in ("1.gz", "2.gz") if f"file:/log/{file}" not in broken]
        return Query(name, error=BROKEN.format(left[0]) if left else None)

    follow([partial(start, "a"), partial(start, "b")], told.append, is_always, {})

    one, two = "file:/log/1.gz", "file:/log/2.gz"
    assert told == [
        f"{file} is left out, it cannot be read: java.io.EOFException: end" for file in (one, two)
    ]
    assert without == {"a": [[], [one], [one, two]], "b": [[], [one], [one, two]]}


def test_a_file_that_can_be_read_again_is_not_left_out() -> None:
    """Its storage has failed for a moment; if that goes on, the stream ends."""
    without: list[Collection[str]] = []

    def start(broken: Collection[str]) -> Query:
        without.append(broken)
        return Query("a", error=BROKEN.format("1.gz") if len(without) < 4 else None)

    follow([start], lambda _: None, lambda _: False, {})
    assert without == [frozenset()] * 4
    with pytest.raises(JobFailedError, match="EOFException"):
        follow(
            [lambda _: Query("a", error=BROKEN.format("1.gz"))], lambda _: None, lambda _: False, {}
        )


def test_a_file_that_is_read_although_it_is_left_out_ends_the_stream() -> None:
    """Or it would be started again without end."""
    with pytest.raises(JobFailedError, match="EOFException"):
        follow([lambda _: Query("a", error=BROKEN.format("1.gz"))], lambda _: None, is_always, {})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_queries_in_one_line(number: signal.Signals) -> None:
    """Between two batches. The handlers that were there before are there again."""
    query, told = Query("a", looks=10**9, active_looks=3), []

    def start(_: object) -> Query:
        os.kill(os.getpid(), number)
        return query

    before = signal.getsignal(number)
    follow([start], told.append, is_always, {})

    assert query.stopped
    assert told == ["stopped; start it again to go on"]
    assert signal.getsignal(number) is before
