"""The window of five minutes: against sums over all seconds, in any batches, with rows delivered twice."""

from collections.abc import Iterable

from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.stream.throttled_window import Crossing, ThrottledWindow

T0 = 1_763_683_200
SECONDS = 300
Rows = list[tuple[int, int, int]]
"""Second, blocked_ms and connections of each row."""


def expected(rows: Rows) -> list[tuple[bool, int, int]]:
    """Return the crossings that sums over all seconds give: raised or cleared, at_ms, throttled_ms."""
    blocked: dict[int, int] = {}
    open_: dict[int, int] = {}
    for at, blocked_ms, connections in rows:
        blocked[at] = blocked.get(at, 0) + blocked_ms
        open_[at] = open_.get(at, 0) + connections
    found, raised = [], False
    for end in range(min(blocked), max(blocked) + SECONDS + 1):
        window = range(end - SECONDS + 1, end + 1)
        total = sum(min(1000, blocked[at] // max(1, open_[at])) for at in window if at in blocked)
        if total > 240_000 if not raised else total <= 150_000:
            raised = not raised
            found.append((raised, (end + 1) * 1000, total))
    return found


def crossings(batches: Iterable[Rows], watermark_s: int) -> list[Crossing]:
    """Return the crossings of rows in batches, and those when only the watermark moves on to a second.

    The state is written and read after each step.
    """
    window = ThrottledWindow()
    found: list[Crossing] = []
    for rows in batches:
        for at, blocked_ms, connections in rows:
            window.add(at * 1000, "boot", blocked_ms, connections, f"quota {at}")
        window = ThrottledWindow.load(window.dump())
        found += window.advance(window.newest_ms)
        window = ThrottledWindow.load(window.dump())
    found += window.advance(watermark_s * 1000)
    assert not window
    return found


@st.composite
def busy_rows(draw: st.DrawFn) -> Rows:
    """Draw rows of runs of seconds, most of them throttled, with gaps between the runs."""
    rows, at = [], T0
    for _ in range(draw(st.integers(1, 4))):
        at += draw(st.integers(0, 700))
        blocked_ms = draw(st.sampled_from([300, 1000, 1700, 2000, 90_000]))
        connections = draw(st.integers(0, 3))
        for _ in range(draw(st.integers(1, 500))):
            rows.append((at, blocked_ms, connections))
            at += 1
    return rows


@given(rows=busy_rows(), seed=st.randoms(use_true_random=False), batches=st.integers(1, 9))
@example(
    rows=[(T0 + s, 1000, 1) for s in range(241)], seed=__import__("random").Random(0), batches=1
)
def test_the_alerts_are_those_of_the_sums_in_any_batches(rows, seed, batches) -> None:
    """Rows come in the order of their seconds; in a batch they may be in any order, and some come again later."""
    size = max(1, len(rows) // batches)
    told = []
    for begin in range(0, len(rows), size):
        again = seed.sample(rows[:begin], min(begin, 3))
        batch = rows[begin : begin + size] + again
        told.append(seed.sample(batch, len(batch)))
    found = crossings(told, rows[-1][0] + SECONDS)

    assert [(each.raised, each.at_ms, round(each.share * 300_000)) for each in found] == expected(
        rows
    )
    for each in found:
        last = max(at for at, _, _ in rows if (at + 1) * 1000 <= each.at_ms)
        assert each.quota == f"quota {last}"


def test_an_alert_is_raised_with_the_row_that_completes_it() -> None:
    """No watermark is needed: it would be two minutes behind."""
    window = ThrottledWindow()
    for second in range(241):
        window.add((T0 + second) * 1000, "boot", 1000, 1, None)

    (raised,) = window.advance(window.newest_ms)
    assert raised.at_ms == (T0 + 241) * 1000


def test_a_silent_client_is_cleared_when_half_of_the_window_is_over() -> None:
    """Five minutes of throttle, then nothing: other clients' rows move the watermark, and the alert ends."""
    rows = [(T0 + second, 1000, 1) for second in range(SECONDS)]
    raised, cleared = crossings([rows], T0 + 2 * SECONDS)

    assert (raised.raised, raised.at_ms - T0 * 1000) == (True, 241_000)
    assert (cleared.raised, cleared.at_ms - T0 * 1000) == (False, 450_000)
    assert cleared.raised_ms == raised.at_ms


def test_a_late_row_counts_in_later_judgements() -> None:
    """The first minute comes after the others: the alert is raised by the next row, not for the past."""
    window = ThrottledWindow()
    found = []
    for batch in (range(60, 240), range(60), range(240, 242)):
        for second in batch:
            window.add((T0 + second) * 1000, "boot", 1000, 1, None)
        found += window.advance(window.newest_ms)

    assert [(each.raised, each.at_ms) for each in found] == [(True, (T0 + 241) * 1000)]


def test_two_processes_of_one_name_share_their_connections() -> None:
    """One muted connection of two is half a second."""
    window = ThrottledWindow()
    for second in range(SECONDS):
        window.add((T0 + second) * 1000, "one", 1000, 1, None)
        window.add((T0 + second) * 1000, "two", 0, 1, None)

    assert list(window.advance((T0 + 2 * SECONDS) * 1000)) == []


def test_an_alert_is_cleared_although_the_window_has_become_smaller() -> None:
    """The job is started again with a minute for a window."""
    window = ThrottledWindow()
    for second in range(241):
        window.add((T0 + second) * 1000, "boot", 1000, 1, "q")
    (raised,) = window.advance(window.newest_ms)
    window = ThrottledWindow.load(window.dump(), 60)

    (cleared,) = window.advance((T0 + 400) * 1000)
    assert (cleared.raised, cleared.raised_ms) == (False, raised.at_ms)
    assert cleared.at_ms == (T0 + 241 + 30) * 1000
