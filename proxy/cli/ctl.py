"""`sluice ctl`: shows the state of a running Sluice and controls it, over its admin server.

Exit codes: 0 done, 1 refused or unreachable, 2 invalid options.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from proxy.cli import options, tables
from proxy.cli.admin_options import with_admin_client
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.admin.client import AdminClient

LEVELS = ("debug", "info", "warning", "error")


@click.group()
def ctl() -> None:
    """Show the state of a running Sluice, and control it.

    Asks its admin server, by default over the Unix socket of this user's Sluice on this machine.
    """


@ctl.command()
@with_admin_client
@options.JSON
def status(client: AdminClient, *, as_json: bool) -> None:
    """Print the state in a few lines."""
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    said = client.get("/v1/state")
    if as_json:
        click.echo(json.dumps(said))
    else:
        click.echo(views.status(said["now"], said["purgatory"], terminal_width()))


@ctl.command()
@with_admin_client
@options.JSON
@options.limit(1000, default=200)
def connections(client: AdminClient, *, as_json: bool, limit: int) -> None:
    """List connections, muted and busy ones first."""
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    said = client.get(f"/v1/connections?limit={limit}")
    _print(said, "connections", views.CONNECTIONS, views.connection, as_json=as_json)
    if not as_json and said["total"] > len(said["connections"]):
        click.echo(f"{len(said['connections'])} of {said['total']}", err=True)


@ctl.command()
@with_admin_client
@click.argument("connection", type=click.IntRange(0))
def close(client: AdminClient, *, connection: int) -> None:
    """Close the client connection with this id."""
    client.ask("DELETE", f"/v1/connections/{connection}")
    click.echo(f"Connection {connection} was closed.")


@ctl.command()
@with_admin_client
@options.JSON
def purgatory(client: AdminClient, *, as_json: bool) -> None:
    """List the requests that have waited longest.

    They wait in Sluice or at a broker.
    """
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    said = client.get("/v1/state")["purgatory"]
    _print(said, "oldest", views.WAITING, views.waiting, as_json=as_json)


@ctl.command()
@with_admin_client
@options.JSON
@options.limit(500, default=20)
def decisions(client: AdminClient, *, as_json: bool, limit: int) -> None:
    """List recent decisions, the newest first.

    A decision is listed if a request was throttled, held or refused.
    """
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    said = client.get(f"/v1/decisions?limit={limit}")
    _print(said, "decisions", views.DECISIONS, views.decision, as_json=as_json)


@ctl.command()
@with_admin_client
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def drain(client: AdminClient, *, yes: bool) -> None:
    """Stop Sluice as SIGTERM does.

    Requests in flight are answered first. Asks for confirmation. Without a terminal, as in a script, it needs --yes.
    """
    if not yes:
        if not can_confirm():
            raise click.UsageError("drain stops Sluice: without a terminal it needs --yes.")
        now = client.get("/v1/state")["now"]
        clients = f"{now['connections']} client connection{'s' * (now['connections'] != 1)}"
        click.confirm(f"Sluice has {clients}. Drain and stop it?", abort=True, err=True)
    client.ask("POST", "/v1/drain")
    click.echo("Sluice drains.")


def can_confirm() -> bool:
    """Return whether standard input is a terminal."""
    return sys.stdin.isatty()


@ctl.command()
@with_admin_client
def reload(client: AdminClient) -> None:
    """Make Sluice read its configuration again, as SIGHUP does."""
    changed = client.ask("POST", "/v1/reload")["changed"]
    click.echo(f"Changed: {', '.join(changed)}." if changed else "Nothing changed.")


@ctl.command()
@with_admin_client
@click.argument("name")
@click.option(
    "--set", "change", metavar="JSON", help="Change it, by a JSON object or '-' (standard input)."
)
def policy(client: AdminClient, *, name: str, change: str | None) -> None:
    """Print what the policy entry NAME shows to operators, or change it until Sluice stops."""
    path = f"/v1/policies/{quote(name, safe='')}"
    if change is None:
        said = client.get(path)
    else:
        text = sys.stdin.read() if change == "-" else change
        try:
            asked = json.loads(text)
        except (ValueError, RecursionError) as mistake:
            raise click.BadParameter(f"not JSON: {mistake}", param_hint="--set") from mistake
        said = client.ask("PUT", path, asked)
    click.echo(json.dumps(said["state"], indent=2))


@ctl.command("log-level")
@with_admin_client
@click.argument("level", type=click.Choice(LEVELS), required=False)
def log_level(client: AdminClient, *, level: str | None) -> None:
    """Print the log level, or set it until the next start."""
    path = "/v1/log-level"
    said = client.get(path) if level is None else client.ask("PUT", path, {"level": level})
    click.echo(said["level"])


def _print(
    said: dict[str, Any],
    key: str,
    names: Sequence[str],
    cells: Callable[[dict[str, Any]], tuple[str, ...]],
    *,
    as_json: bool,
) -> None:
    if as_json:
        click.echo(json.dumps(said))
    elif said[key]:
        click.echo(tables.format_table(names, list(map(cells, said[key])), terminal_width()))
    else:
        click.echo("None.", err=True)
