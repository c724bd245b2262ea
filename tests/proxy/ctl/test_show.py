"""Plain columns, and the live picture."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from proxy.ctl import show
from tests.support.made_up_states import made_up


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.25, "0.2"),
        (5.0, "5"),
        (99.94, "99.9"),
        (123.456, "123"),
        (-1.5, "-1.5"),
    ],
)
def test_a_figure_is_short(value, text):
    """What is not there is a dash."""
    assert show.figure(value) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (5 << 20, "5 MiB"), (3 << 30, "3.0 GiB")],
)
def test_a_size_has_its_unit(size_bytes, text):
    """Powers of two."""
    assert show.size(size_bytes) == text


def test_columns_are_as_wide_as_they_must_be():
    """Figures to the right."""
    text = show.columns(("user", "ms"), [("alice", "5"), ("b", "1000")])
    assert text.splitlines() == ["user     ms", "alice     5", "b      1000"]


def test_names_cannot_play_with_the_terminal():
    """A client id is the client's choice."""
    assert show.name("a\x1b[2J\n") == "a?[2J?"
    assert show.name("") == show.name(None) == "-"


@pytest.mark.parametrize("connections", [0, 5000])
def test_every_kind_of_row_has_its_cells(connections):
    """As many as there are columns."""
    state = made_up(connections)
    for names, cells, rows in (
        (show.PRINCIPALS, show.principal, state["principals"]),
        (show.CONNECTIONS, show.connection, state["connections"]),
        (show.WAITING, show.waiting, state["purgatory"]["oldest"]),
        (show.DECISIONS, show.decision, state["decisions"]),
    ):
        table = [cells(row) for row in rows]
        assert {len(each) for each in table} <= {len(names)}
        assert len(show.columns(names, table).splitlines()) == len(rows) + 1


def test_the_status_says_what_matters():
    """And leaves out what did not happen."""
    state = made_up(5000)
    said = show.status(state["now"], state["purgatory"])
    assert "5000 connections" in said
    assert "the last reload succeeded" in said
    assert "dropped: 50 spans" in said
    oldest = state["purgatory"]["oldest"][0]
    assert f"longest {oldest['age_ms']} ms: {oldest['api']} of {oldest['user']}/" in said
    quiet = made_up(0)
    said = show.status(quiet["now"], quiet["purgatory"])
    assert "not read: nobody" in said
    assert "longest" not in said
    assert "reload" not in said
    assert "draining" not in said
    assert "draining" in show.status({**quiet["now"], "draining": True}, quiet["purgatory"])


@pytest.mark.parametrize("connections", [0, 3, 5000])
def test_the_live_picture_fits_its_terminal(connections):
    """And says how many it leaves out."""
    console = Console(width=140, height=30, record=True, file=io.StringIO())
    console.print(show.live(made_up(connections), console.height))
    lines = console.export_text().splitlines()
    assert len(lines) <= console.height
    assert ("more" in lines[-1]) == (connections == 5000)
