"""Tables at every width: cut names, folded rows, complete lines in a pipe; and the live table."""

import fcntl
import os
import struct
import termios
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from proxy.cli import tables, top

NAMES = ("user", "client id", "quota", "limit/s", "used/s", "waiting")
LONG = "payments-" + "x" * 238 + "-7"
ROWS = [
    ("alice", LONG, "consumer_byte_rate", "1048576", "1048000.5", "3"),
    ("bob", "app", "request_rate", "20", "19", "-"),
]


def test_in_a_pipe_names_are_complete_and_a_row_is_one_line():
    """Other programs can then cut and search them."""
    lines = tables.format_table(NAMES, ROWS).splitlines()
    assert len(lines) == 3
    assert LONG in lines[1]


def test_160_columns_take_a_long_name_cut_in_its_middle():
    """Both ends are kept, because they tell names apart."""
    first, second, _ = tables.format_table(NAMES, ROWS, 160).splitlines()
    assert first.split() == ["user", "client", "id", "quota", "limit/s", "used/s", "waiting"]
    shown = second.split()[1]
    assert shown.startswith("payments-xxx")
    assert shown.endswith("xxx-7")
    assert "…" in shown
    assert len(second) == 160


def test_80_columns_hold_a_row_on_one_line():
    """The name is cut, the figures are not."""
    lines = tables.format_table(NAMES, ROWS, 80).splitlines()
    assert lines == [
        "user   client id                 quota               limit/s     used/s  waiting",
        "alice  payments-xxx…xxxxxxxxx-7  consumer_byte_rate  1048576  1048000.5        3",
        "bob    app                       request_rate             20         19        -",
    ]


def test_40_columns_fold_a_row_and_its_header_alike():
    """Each column stands at the same place in all rows."""
    assert tables.format_table(NAMES, ROWS, 40).splitlines() == [
        "user   client id      quota",
        "  limit/s     used/s  waiting",
        "alice  paymen…xxxx-7  consumer_byte_rate",
        "  1048576  1048000.5        3",
        "bob    app            request_rate",
        "       20         19        -",
    ]


def test_wide_characters_and_combining_marks_are_counted_in_cells():
    """Columns stay aligned with names of every script."""
    rows = [("日本語", "1"), ("e\u0301te\u0301", "2"), ("abc", "3")]
    lines = tables.format_table(("user", "n"), rows).splitlines()
    assert [tables.cells(line) for line in lines] == [9, 9, 9, 9]


@given(text=st.text(max_size=40), width=st.integers(0, 30))
def test_a_text_that_is_cut_fits_and_keeps_both_its_ends(text, width):
    """This holds for every character."""
    shown = tables.shorten(text, width)
    assert tables.cells(shown) <= max(width, 0)
    if tables.cells(text) <= width:
        assert shown == text
    elif width:
        head, _, tail = shown.partition(tables.ELLIPSIS)
        assert text.startswith(head)
        assert text.endswith(tail) or tables.ELLIPSIS in text


@given(
    width=st.integers(40, 200),
    rows=st.lists(
        st.tuples(
            *[st.text("ab日-", max_size=249)] * 3, *[st.text("0123456789.", max_size=12)] * 3
        ),
        max_size=4,
    ),
)
def test_no_line_is_wider_than_its_terminal(width, rows):
    """The width is 40 or more; every figure is complete."""
    records = tables.format_rows(NAMES, rows, width)
    for row, record in zip(rows, records[1:], strict=True):
        assert max(map(tables.cells, record)) <= width
        assert all(figure in " ".join(record) for figure in row[3:])


@pytest.mark.parametrize(("columns", "width"), [(40, 40), (160, 160), (0, tables.DEFAULT_WIDTH)])
def test_the_width_is_that_of_the_terminal(monkeypatch, columns, width):
    """COLUMNS has priority; a pipe has no width."""
    monkeypatch.delenv("COLUMNS", raising=False)
    leader, follower = os.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(follower, "w") as terminal, os.fdopen(leader, "rb"):
        monkeypatch.setattr("sys.stdout", terminal)
        assert tables.terminal_width() == width
        monkeypatch.setenv("COLUMNS", "99")
        assert tables.terminal_width() == 99
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe, os.fdopen(reader):
        monkeypatch.setattr("sys.stdout", pipe)
        assert tables.terminal_width() is None


@pytest.mark.parametrize("column", sorted(tables.CUT))
@pytest.mark.parametrize("width", [None, 120])
def test_no_client_makes_the_lines_of_others_long(column, width):
    """A client id has up to 32,767 bytes, and stands in texts about its client, too."""
    rows = [("app", "7"), ("x" * 32_767, "8"), ("報" * 10_000, "9")]
    lines = tables.format_table((column, "used/s"), rows, width).splitlines()
    assert len(lines) == 4
    assert max(map(tables.cells, lines)) <= tables.MAX_NAME_CELLS + 10
    assert tables.MAX_NAME_CELLS >= 249, "the longest topic"


DRAWN = [(("alice", "5"), False), (("bob", "7"), True), (("eve", "9"), False)]


def drawn(height: int) -> Text:
    return top.draw_table("head", ("user", "ms"), DRAWN, 40, height)


def test_a_frame_has_the_head_the_column_names_and_the_rows() -> None:
    """Flagged rows are red."""
    text = drawn(24)
    assert text.plain == "head\n\nuser   ms\nalice   5\nbob     7\neve     9"
    assert [
        text.plain[each.start : each.end].strip() for each in text.spans if each.style == "red"
    ] == ["bob     7"]


def test_rows_that_do_not_fit_are_counted() -> None:
    """At least one row is drawn."""
    assert drawn(7).plain.endswith("alice   5\nbob     7\nand 1 more")
    assert drawn(1).plain.endswith("alice   5\nand 2 more")


def test_watching_ends_with_the_frames_or_with_ctrl_c() -> None:
    """It returns whether the frames ended."""

    def stopped() -> Iterator[Callable[..., Text]]:
        yield lambda *_: Text("one")
        raise KeyboardInterrupt

    assert top.watch([lambda *_: Text("one"), lambda *_: Text("two")])
    assert not top.watch(stopped())
