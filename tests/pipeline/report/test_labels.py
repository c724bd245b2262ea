"""Names that clients chose, and figures with their units, as a page shows them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.facts import ClientName
from pipeline.report.labels import (
    NO_NAME,
    client_names,
    count,
    duration,
    figure,
    labels_of,
    percent,
    period,
    shortened,
    spoken,
    time_format,
    width,
    without_isolates,
)

MINUTE_MS = 60_000


@given(st.lists(st.text(max_size=60)), st.integers(12, 40))
def test_labels_differ_and_fit(names: list[str], columns: int) -> None:
    """Any two names have different labels, none is wider than its space, and all characters are printable."""
    labels = labels_of(names, columns)

    assert labels.keys() == set(names)
    assert len(set(labels.values())) == len(labels)
    assert all(width(each) <= columns and each.isprintable() and each for each in labels.values())


def test_a_long_name_keeps_both_ends() -> None:
    """Its middle is left out, because names often differ at the end."""
    assert shortened("orders-service-eu-west-1-replica-17", 16) == "orders-ser…ca-17"
    assert shortened("orders", 16) == "orders"
    assert labels_of(["a" * 50 + "x" * 20, "a" * 51 + "x" * 20], 12) == {
        "a" * 50 + "x" * 20: "aaaaaaaa…xxx",
        "a" * 51 + "x" * 20: "aaaaa…xx (2)",
    }
    assert labels_of([""], 12) == {"": NO_NAME}


def test_characters_that_turn_or_hide_text_are_escaped() -> None:
    """A direction mark, a zero byte and a line end are shown as escapes; a name of the other direction is isolated."""
    name = "gnp\u202eexe\x00\n\U000e0001"
    assert labels_of([name], 40) == {name: r"gnp\u202eexe\x00\n\U000e0001"}
    assert (spoken("alice"), spoken("\u05d0\u05d1")) == ("alice", "\u2068\u05d0\u05d1\u2069")
    assert without_isolates(spoken("\u05d0")) == "\u05d0"


@pytest.mark.parametrize(
    ("clients", "names"),
    [
        ([("demo", "a"), ("demo", "b")], ["a", "b"]),
        ([("a", "app"), ("b", "app")], ["a", "b"]),
        ([("a", "x"), ("b", "y"), ("c", "")], ["a / x", "b / y", "c"]),
        ([("a", "x")], ["a / x"]),
    ],
)
def test_a_client_is_named_by_what_tells_it_apart(
    clients: list[tuple[str, str]], names: list[str]
) -> None:
    """A user that all have, or a client id, is left out."""
    every = [ClientName(*each) for each in clients]

    assert list(client_names(every).values()) == names


def test_figures_are_short_and_have_units() -> None:
    """Three digits, and the unit that suits the size."""
    assert [count(n) for n in (0, 12, 12_345, 5_200_000, 3_210_000_000)] == [
        "0", "12", "12,345", "5.2 million", "3.21 billion",
    ]  # fmt: skip
    assert [figure(n) for n in (0, 0.5, 1.234, 12.34, 123.4, 1234, 123_456)] == [
        "0", "0.5", "1.23", "12.3", "123", "1,230", "123,000",
    ]  # fmt: skip
    assert [duration(n) for n in (0.25, 12, 1500, 180_000, 9_000_000)] == [
        "250 µs", "12 ms", "1.5 s", "3 min", "2.5 h",
    ]  # fmt: skip
    assert [percent(n) for n in (0.0004, 0.021, 0.38, 0.997)] == [
        "under 0.1 %", "2.1 %", "38 %", "over 99 %",
    ]  # fmt: skip


@given(st.floats(0, 1))
def test_a_share_is_never_rounded_to_nothing_or_to_all(share: float) -> None:
    """0 % and 100 % mean exactly that."""
    text = percent(share)

    assert (text == "0 %") is (share == 0)
    assert (text == "100 %") is (share == 1)
    assert text.endswith(" %")


def test_a_period_is_told_in_utc() -> None:
    """Seconds are told of a short one, the second date of one that ends on another day."""
    start_ms = 1_763_683_200_000
    assert period(start_ms, start_ms + 90_000) == "21 Nov 2025, 00:00:00 to 00:01:30 UTC"
    assert (
        period(start_ms, start_ms + 1440 * MINUTE_MS)
        == "21 Nov 2025, 00:00 to 22 Nov 2025, 00:00 UTC"
    )
    assert [time_format(0, n * MINUTE_MS) for n in (1, 60, 10_000)] == [
        "%H:%M:%S",
        "%H:%M",
        "%d %b",
    ]
