"""The output of `sluice ctl` and `sluice top`: plain columns, and the live display."""

import io

import pytest
from rich.console import Console

from proxy.cli import tables, views
from proxy.cli.top import state_picture
from tests.support.pages.made_up_states import made_up


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
def test_figures_are_printed_short(value, text):
    """A missing figure is a dash."""
    assert views.format_number(value) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1 KiB"), (5 << 20, "5 MiB"), (3 << 30, "3.0 GiB")],
)
def test_a_size_has_its_unit(size_bytes, text):
    """Units are powers of two."""
    assert views.format_size(size_bytes) == text


def test_control_characters_in_names_are_escaped():
    """A client chooses its client id, which must not control the terminal."""
    assert views.format_name("a\x1b[2J\n\u202e") == "a\\x1b[2J\\n\\u202e"
    assert views.format_name("") == views.format_name(None) == "-"


def test_the_status_leaves_out_events_that_did_not_happen():
    """Without a waiting request, a reload or a drain it does not mention them."""
    state = made_up(5000)
    said = views.status(state["now"], state["purgatory"])
    assert "5000 connections" in said
    assert "the last reload succeeded" in said
    assert "dropped: 50 spans" in said
    oldest = state["purgatory"]["oldest"][0]
    assert f"longest {oldest['age_ms']} ms: {oldest['api']} of {oldest['user']}/" in said
    quiet = made_up(0)
    said = views.status(quiet["now"], quiet["purgatory"])
    assert "not read: none" in said
    assert "longest" not in said
    assert "reload" not in said
    assert "draining" not in said
    assert "draining" in views.status({**quiet["now"], "draining": True}, quiet["purgatory"])


@pytest.mark.parametrize("width", [40, 80, 160])
def test_every_table_and_the_status_fit_their_terminal(width):
    """One client id has 249 characters."""
    state = made_up(5000)
    long = "app-" + "x" * 244 + "7"
    state["principals"][0]["client_id"] = long
    state["connections"][0]["client_id"] = long
    state["purgatory"]["oldest"][0].update(user=long, client_id=long, waits_for=long)
    text = tables.format_table(
        views.PRINCIPALS, [line for line, _ in views.principals(state)], width
    )
    assert max(map(len, text.splitlines())) <= width
    for figure in ("requests_per_s", "throttled"):
        assert all(views.format_number(row[figure]) in text for row in state["principals"])
    for names, cells, rows in (
        (views.CONNECTIONS, views.connection, state["connections"]),
        (views.WAITING, views.waiting, state["purgatory"]["oldest"]),
        (views.DECISIONS, views.decision, state["decisions"]),
    ):
        text = tables.format_table(names, list(map(cells, rows)), width)
        assert max(map(len, text.splitlines())) <= width
    text = views.status(state["now"], state["purgatory"], width)
    assert max(map(len, text.splitlines())) <= width
    assert f"{state['purgatory']['oldest'][0]['age_ms']} ms" in " ".join(text.split())


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("connections", [0, 3, 5000])
def test_the_live_display_fits_its_terminal(connections, width):
    """It prints the number of rows that are left out."""
    console = Console(width=width, height=40, record=True, file=io.StringIO())
    console.print(state_picture(made_up(connections), width, console.height))
    lines = console.export_text().splitlines()
    assert len(lines) <= console.height
    assert max(map(len, lines)) <= width
    assert ("more" in lines[-1]) == (connections == 5000)


def test_the_limit_that_binds_is_shown_with_its_unit():
    """The unit is requests, or bytes from or to the client; waiting requests are printed apart from the use."""
    bucket = {"limit": 50.0, "used_percent": 100.0, "wait_ms": 1234, "waiting": 3}
    assert views.limit({**bucket, "quota": "request_rate"}) == ("50/s", "100 %", "1234 ms, 3 held")
    calm = {**bucket, "limit": 1 << 20, "used_percent": 12.4, "wait_ms": 0, "waiting": 0}
    assert views.limit({**calm, "quota": "producer_byte_rate"}) == ("1 MiB/s in", "12 %", "-")
    assert views.limit({**calm, "quota": "consumer_byte_rate"})[0] == "1 MiB/s out"
    assert views.limit(None) == ("-", "-", "-")


def test_clients_of_one_bucket_follow_a_line_with_its_sums():
    """The bucket's use is printed once, and each client's own use beside its name."""
    state = made_up(400)
    lines = views.principals(state)
    assert {len(cells) for cells, _ in lines} == {len(views.PRINCIPALS)}
    place = next(n for n, (cells, _) in enumerate(lines) if cells[1] == "user=fraud")
    head, throttled = lines[place]
    assert (head[0], head[4:7]) == ("25 clients", ("8 MiB/s in", "100 %", "1840 ms, 4 held"))
    assert throttled
    members = [cells for cells, _ in lines[place + 1 : place + 26]]
    assert {(cells[0], cells[4]) for cells in members} == {("fraud", views.SHARED)}
    assert int(head[2]) == sum(int(cells[2]) for cells in members)
    assert len(lines) == len(state["principals"]) + 2
