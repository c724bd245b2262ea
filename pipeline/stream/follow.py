"""Follows running queries: tells of each batch in one line, and ends all queries when one fails or at a signal.

Rules:
- SIGINT and SIGTERM end the queries between two batches, or after MAX_BATCH_SECONDS in the middle of one.
- A file that is broken is named once, and the query is started again without it.
- A query is started again a few times if a file could not be read for a moment only.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Collection
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from pipeline.errors import JobFailedError
from pipeline.hadoop import JAVA_ENDED, cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

Start = Callable[[Collection[str]], "StreamingQuery"]
"""Starts a query, given the files that it shall not read."""
Counts = dict[tuple[str, int], dict[str, int]]
"""What a query has counted in a batch, by the name of the query and the number of the batch."""
MAX_STARTS: Final = 10
MAX_BATCH_SECONDS: Final = 20
_POLL_SECONDS: Final = 0.5
_STOP_POLL_SECONDS: Final = 0.05
_UNREADABLE: Final = re.compile(
    r"FAILED_READ_FILE\.\w+] Encountered error while reading file (\S+)\.\s"
)


class Summaries:
    """The lines of a query's batches, each told once."""

    def __init__(self, counts: Counts) -> None:
        self._told: dict[str, str] = {}
        self._counts = counts

    def new_lines(self, query: StreamingQuery) -> list[str]:
        """Return the lines of the batches since the last call."""
        lines = []
        for progress in query.recentProgress:
            at = progress.timestamp
            if at <= self._told.get(query.name, ""):
                continue
            self._told[query.name] = at
            counts = counted(progress) | self._counts.pop((query.name, progress.batchId), {})
            if any(counts.values()):
                lines.append(f"{query.name}, batch {progress.batchId}: {in_words(counts)}")
        return lines


def counted(progress: StreamingQueryProgress) -> dict[str, int]:
    """Return the counts of a batch by name: lines read, lines in quarantine, duplicates, late rows, observed counts."""
    counts = {"lines read": progress.numInputRows or 0}
    for observed in progress.observedMetrics.values():
        counts |= {name: value or 0 for name, value in observed.asDict().items()}
    operators = progress.stateOperators
    counts["late rows dropped"] = max(
        (each.numRowsDroppedByWatermark for each in operators), default=0
    )
    counts["duplicates dropped"] = sum(
        each.customMetrics.get("numDroppedDuplicateRows", 0) for each in operators
    )
    return counts


def in_words(counts: dict[str, int]) -> str:
    """Return the counts that are not zero, in words."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


class _Running:
    """A query, and how to start it again."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._without: frozenset[str] = frozenset()
        self._starts = 0
        self.query = start(self._without)

    def fail(self, error: StreamingQueryException, broken: set[str]) -> None:
        """Start the query again, without the files that are `broken`. Raises JobFailedError if that has not helped."""
        file = _unreadable(error)
        self._starts += file not in broken
        if file is None or file in self._without or self._starts > MAX_STARTS:
            raise JobFailedError(_words(f"The query {self.query.name}", error)) from error
        self._without = frozenset(broken)
        self.query = self._start(self._without)


def follow(
    starts: Sequence[Start],
    tell: Callable[[str], None],
    is_broken: Callable[[str], bool],
    counts: Counts,
) -> None:
    """Start the queries and return when all have ended, or after a signal; `tell` gets a line for each batch.

    Each start is given the files that shall not be read: a query has failed by them, and they are broken. `counts` gets
    what batches have counted before they end. Raises JobFailedError if a query fails.
    """
    summaries = Summaries(counts)
    running: list[_Running] = []
    broken: set[str] = set()
    with _signals() as stopped:
        try:
            for start in starts:
                running.append(_Running(start))  # noqa: PERF401 - those that run are stopped if one cannot start
            active = True
            while active and not stopped.wait(_POLL_SECONDS):
                active = False
                for each in running:
                    active |= each.query.isActive  # asked first: the last batch is told of
                    for line in summaries.new_lines(each.query):
                        tell(line)
                    error = each.query.exception()
                    if error is not None:
                        file = _unreadable(error)
                        if file is not None and file not in broken and is_broken(file):
                            tell(f"{file} is left out, it cannot be read: {cause_of(error)}")
                            broken.add(file)
                        each.fail(error, broken)
                        active = True
        except JAVA_ENDED as error:
            if not stopped.is_set():  # a signal to all processes of a job ends Spark, too
                raise JobFailedError(_words("The stream", error)) from error
        finally:
            with suppress(*JAVA_ENDED):
                _stop([each.query for each in running], wait=stopped.is_set())
    if stopped.is_set():
        tell("stopped; start it again to go on")


def _stop(queries: Sequence[StreamingQuery], *, wait: bool) -> None:
    """Stop the queries, after their batches if there is time to `wait` for them."""
    give_up = time.monotonic() + (MAX_BATCH_SECONDS if wait else 0)
    waiting = list(queries)
    while waiting and time.monotonic() < give_up:
        for each in waiting:
            if not each.status["isTriggerActive"]:
                each.stop()
        waiting = [each for each in waiting if each.isActive]
        time.sleep(_STOP_POLL_SECONDS)
    for each in waiting:
        each.stop()


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set; only the main thread may ask for signals."""
    stopped = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_short(error: Exception) -> JobFailedError:
    """Return an error of a batch without Java's stack. Spark looks for words in its text when a query is stopped, by an
    expression for which a long text is too long.
    """
    found = _UNREADABLE.search(str(error))
    return JobFailedError(f"{found[0] if found else ''}\nCaused by: {cause_of(error)}")


def _unreadable(error: StreamingQueryException) -> str | None:
    """Return the file that an error names, as `_metadata.file_path` has it; None if it is about none."""
    found = _UNREADABLE.search(str(error))
    return re.sub("^file:/+", "file:/", found[1]) if found else None


def _words(subject: str, error: Exception) -> str:
    return f"{subject} failed: {cause_of(error)}. Start it again: nothing is lost or counted twice"
