"""The window of five minutes: against sums over all seconds, in any order and any batches."""

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


def crossings(batches: Iterable[tuple[Rows, int]]) -> list[Crossing]:
    """Return the crossings of rows in batches, each followed by its watermark; the state is written after each."""
    window = ThrottledWindow()
    found: list[Crossing] = []
    for rows, watermark_s in batches:
        for at, blocked_ms, connections in rows:
            window.add(at * 1000, blocked_ms, connections, f"quota {at}")
        window = ThrottledWindow.load(window.dump())
        found += window.advance(watermark_s * 1000)
        window = ThrottledWindow.load(window.dump())
    assert window.due_ms() is None
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
def test_the_alerts_are_those_of_the_sums_in_any_order_and_batches(rows, seed, batches) -> None:
    """Rows come up to two minutes late and in batches of any size; the alerts follow from the rows alone."""
    late = sorted(rows, key=lambda row: row[0] + seed.randrange(120))
    size = max(1, len(late) // batches)
    told, newest = [], 0
    for begin in range(0, len(late), size):
        batch = late[begin : begin + size]
        newest = max(newest, *(at for at, _, _ in batch))
        told.append((batch, newest - 120))
    told.append(([], newest + SECONDS + 1))
    found = crossings(told)

    assert [(each.raised, each.at_ms, each.throttled_ms) for each in found] == expected(rows)
    for each in found:
        last = max(at for at, _, _ in rows if (at + 1) * 1000 <= each.at_ms)
        assert each.quota == f"quota {last}"


def test_a_silent_client_is_cleared_when_half_of_the_window_is_over() -> None:
    """Five minutes of throttle, then nothing: other clients' rows move the watermark, and the alert ends."""
    rows = [(T0 + second, 1000, 1) for second in range(SECONDS)]
    raised, cleared = crossings([(rows, T0 + SECONDS), ([], T0 + 2 * SECONDS)])

    assert (raised.raised, raised.at_ms - T0 * 1000) == (True, 241_000)
    assert (cleared.raised, cleared.at_ms - T0 * 1000) == (False, 450_000)
    assert cleared.raised_ms == raised.at_ms


def test_two_processes_of_one_name_share_their_connections() -> None:
    """One muted connection of two is half a second, however the rows are divided."""
    both = [row for s in range(SECONDS) for row in ((T0 + s, 1000, 1), (T0 + s, 0, 1))]

    assert crossings([(both, T0 + 9 * SECONDS)]) == []
