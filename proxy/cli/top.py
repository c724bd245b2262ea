"""`sluice top`: the live state of a running Sluice, from its admin server."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import click

from proxy.cli import live, options, tables
from proxy.cli.admin_options import with_admin_client
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from proxy.admin.client import AdminClient


@click.command()
@with_admin_client
@click.option("--once", is_flag=True, help="Print the state once as plain text.")
@options.JSON
def top(client: AdminClient, *, once: bool, as_json: bool) -> None:
    """Watch clients, limits, throttling and waiting requests.

    Ends with Ctrl-C. Without a terminal it prints the state once; so does --json.
    """
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    if as_json:
        click.echo(json.dumps(client.get("/v1/state")))
    elif once or not live.is_terminal():
        state, width = client.get("/v1/state"), terminal_width()
        click.echo(views.status(state["now"], state["purgatory"], width))
        rows = [cells for cells, _ in views.principals(state)]
        click.echo(tables.format_table(views.PRINCIPALS, rows, width))
    elif live.watch(partial(views.state_picture, event) for event in client.events()):
        click.echo("Sluice has ended.", err=True)
