"""Totals by user: every request counts once while users come and go."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.stats.usage import OTHER as SHARED
from proxy.core.stats.usage import UsageRow
from proxy.telemetry.metrics.users import (
    MAX_CANDIDATES,
    MAX_LABEL_CHARS,
    OTHER,
    RANK_EVERY_MS,
    UserBook,
    label_of,
)


def row(user: str, requests: int = 1, *, ts_ms: int = 0, client_id: str = "c") -> UsageRow:
    """Return a second of one key: each request has 10 bytes and a reply of 20, one is throttled for 5 ms."""
    return UsageRow(
        ts_ms,
        user,
        client_id,
        requests=requests,
        charged=requests,
        exempt=2,
        request_bytes=10 * requests,
        charged_bytes=10 * requests,
        exempt_bytes=0,
        response_bytes=20 * requests,
        connections=1,
        throttled=1,
        throttle_ms=5,
        throttle_ms_max=5,
        blocked_ms=0,
        mute_ms=0,
    )


def told(book: UserBook, *seconds: list[UsageRow]) -> UserBook:
    for rows in seconds:
        book.put(rows[0].ts_ms, rows)
    book.fold()
    return book


def requests(book: UserBook, now_ms: int = 0) -> dict[str, int]:
    return {series.user: series.tally.requests for series in book.series(now_ms)}


def rates(book: UserBook, now_ms: int) -> dict[str, int]:
    return {series.user: series.rate for series in book.series(now_ms)}


def test_the_client_ids_of_a_user_are_one_series() -> None:
    """Rows of one user are added up, in every column."""
    book = told(UserBook(5), [row("ada", 3), row("ada", 4, client_id="d")])

    (series,) = book.series(0)
    tally = series.tally
    assert (series.user, tally.requests, series.rate) == ("ada", 7, 7)
    assert (tally.request_bytes, tally.response_bytes) == (70, 140)
    assert (tally.throttled, tally.throttle_ms) == (2, 10)
    assert book.exempt == 4


def test_a_user_called_other_is_counted_in_other() -> None:
    """A user called `other`, and the key that newcomers series in the core, are counted in `other`."""
    assert requests(told(UserBook(9), [row(OTHER, 2), row(SHARED, 3)])) == {OTHER: 5}


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 50)), min_size=1, max_size=9
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(0, 5),
)
def test_no_series_falls_and_no_request_is_counted_twice(
    seconds: list[list[tuple[str, int]]], max_users: int
) -> None:
    """The sum of all series grows by each second's requests; a new series starts at 0."""
    book = UserBook(max_users)
    before: dict[str, int] = {}
    for place, second in enumerate(seconds):
        ts_ms = place * RANK_EVERY_MS // 3
        told(book, [row(user, count, ts_ms=ts_ms) for user, count in second])
        now = requests(book)
        stayed = now.keys() & before.keys()
        assert all(now[user] >= before[user] for user in stayed)
        left = before.keys() - now.keys()
        # A user's requests in the second in which it loses its series are dropped with the series.
        unseen = sum(count for user, count in second if user in left)
        gone = sum(before[user] for user in left) + unseen
        assert sum(now.values()) + gone == sum(before.values()) + sum(n for _, n in second)
        assert len(now) <= max_users + 1
        before = now


def test_a_busier_user_takes_a_series_after_a_minute_and_an_equal_one_does_not() -> None:
    """It has more than twice the requests of the one that it replaces, and its series starts at 0."""
    book = told(UserBook(2), [row("idle", 1), row("steady", 50)], [row("busy", 500, ts_ms=1000)])
    assert set(requests(book)) == {"idle", "steady", OTHER}

    told(book, [row("steady", 50, ts_ms=RANK_EVERY_MS)])
    assert requests(book) == {"steady": 100, "busy": 0, OTHER: 500}

    told(book, [row("busy", 9, ts_ms=RANK_EVERY_MS + 1000)])
    assert requests(book) == {"steady": 100, "busy": 9, OTHER: 500}

    book = UserBook(1)
    for second in range(200):
        told(book, [row("first", 10, ts_ms=1000 * second), row("second", 19, ts_ms=1000 * second)])

    assert requests(book) == {"first": 2000, OTHER: 3800}


def test_the_rate_is_that_of_the_last_second() -> None:
    """It is 0 for a user without requests in it, and for all when no second ends any more."""
    book = told(UserBook(5), [row("a", 3), row("b", 4)], [row("a", 5, ts_ms=1000)])

    assert rates(book, 2100) == {"a": 5, "b": 0}
    assert rates(book, 4000) == {"a": 0, "b": 0}


def test_rows_are_folded_in_turns() -> None:
    """A turn takes a bounded number; the next turn or the next second takes the rest."""
    book = UserBook(5)
    book.put(0, [row("a")] * 10)
    assert book.fold(4)
    assert requests(book) == {"a": 4}
    assert not book.fold(6)
    assert requests(book) == {"a": 10}
    book.put(1000, [row("a", ts_ms=1000)] * 3)
    book.put(2000, [row("a", ts_ms=2000)] * 2)
    assert requests(book) == {"a": 13}
    assert not book.fold(100)
    assert requests(book) == {"a": 15}


def test_names_of_users_are_made_printable_and_short() -> None:
    """Unprintable characters are replaced, long names are cut; names that become equal share a series."""
    assert label_of("ad\na\x1b[0m") == "ad?a?[0m"
    assert len(label_of("x" * 10_000)) == MAX_LABEL_CHARS
    long = "x" * MAX_LABEL_CHARS
    book = told(UserBook(5), [row(long + "1"), row(long + "2"), row("ada\n"), row("ada\t")])

    assert requests(book) == {long: 2, "ada?": 2}


def test_the_users_that_are_told_apart_are_bounded() -> None:
    """Only MAX_CANDIDATES users of `other` compete for a series; one that came after them is counted all the same."""
    crowd = [row(f"u{n}") for n in range(MAX_CANDIDATES)]
    book = told(UserBook(1), [row("first")], crowd, [row("late", 500)])
    told(book, [row("first", ts_ms=RANK_EVERY_MS)])

    assert requests(book) == {"first": 2, OTHER: MAX_CANDIDATES + 500}
