"""The live table: what it draws, and when it ends."""

from collections.abc import Callable, Iterator

from rich.text import Text

from proxy.cli import live

ROWS = [(("alice", "5"), False), (("bob", "7"), True), (("eve", "9"), False)]


def drawn(height: int) -> Text:
    return live.draw_table("head", ("user", "ms"), ROWS, 40, height)


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

    assert live.watch([lambda *_: Text("one"), lambda *_: Text("two")])
    assert not live.watch(stopped())
