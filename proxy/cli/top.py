"""`sluice top`: the live state of a running Sluice, from its admin server.

A table on the whole terminal, drawn again with each new state until Ctrl-C.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from proxy.cli import options, tables, views
from proxy.cli.admin_options import with_admin_client
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.text import Text

    from proxy.admin.client import AdminClient

    Frame = Callable[[int, int], Text]

_SPARE_LINES: Final = 3
"""Empty lines, and the line that counts hidden rows."""


@click.command()
@with_admin_client
@click.option("--once", is_flag=True, help="Print the state once as plain text.")
@options.JSON
def top(client: AdminClient, *, once: bool, as_json: bool) -> None:
    """Watch clients, limits, throttling and waiting requests.

    Ends with Ctrl-C. Without a terminal it prints the state once; so does --json.
    """
    if as_json:
        click.echo(json.dumps(client.get("/v1/state")))
    elif once or not is_terminal():
        state, width = client.get("/v1/state"), terminal_width()
        click.echo(views.status(state["now"], state["purgatory"], width))
        rows = [cells for cells, _ in views.principals(state)]
        click.echo(tables.format_table(views.PRINCIPALS, rows, width))
    elif watch(partial(state_picture, event) for event in client.events()):
        click.echo("Sluice has ended.", err=True)


def is_terminal() -> bool:
    """Return whether standard output is a terminal, so that a live table can be shown."""
    return sys.stdout.isatty()


def watch(frames: Iterable[Frame]) -> bool:
    """Show each frame, drawn for the width and height of the terminal; return False after Ctrl-C."""
    from rich.live import Live  # noqa: PLC0415 - only the live view needs rich

    with Live(screen=True, auto_refresh=False) as screen:
        try:
            for draw in frames:
                size = screen.console.size
                screen.update(draw(size.width, size.height), refresh=True)
        except KeyboardInterrupt:
            return False
    return True


def draw_table(
    head: str,
    names: Sequence[str],
    rows: Sequence[tuple[Sequence[str], bool]],
    width: int,
    height: int,
) -> Text:
    """Return a head and a table that fit the terminal. Flagged rows are red; rows that do not fit are counted."""
    from rich.text import Text  # noqa: PLC0415 - only the live view needs rich

    header, *bodies = tables.format_rows(names, [cells for cells, _ in rows], width)
    room = height - len(head.splitlines()) - len(header) - _SPARE_LINES
    shown = max(1, room // len(header))
    drawn = Text(head + "\n\n", no_wrap=True, overflow="crop")
    drawn.append("\n".join(header), style="bold")
    for (_, is_red), body in zip(rows[:shown], bodies, strict=False):
        drawn.append("\n" + "\n".join(body), style="red" if is_red else "")
    if len(rows) > shown:
        drawn.append(f"\nand {len(rows) - shown} more", style="italic")
    return drawn


def state_picture(event: dict[str, Any], width: int, height: int) -> Text:
    """Return the live table; throttled clients are red."""
    head = views.status(event["now"], event["purgatory"], width)
    return draw_table(head, views.PRINCIPALS, views.principals(event), width, height)
