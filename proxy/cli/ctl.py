"""The commands `sluice ctl ...` and `sluice top`.

- They ask the admin server of a running Sluice (settings `admin.socket`, `admin.control`), and print what it says.
- Exit codes: 0 done, 1 refused or nobody answers, 2 the options cannot be used.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from proxy.cli.admin_options import asks
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.cli.admin_client import Client

LEVELS = ("debug", "info", "warning", "error")


@click.group()
def ctl() -> None:
    """See into a running Sluice, and steer it.

    Over its admin server: a Unix socket of its own, or an address with a token.
    """


_json = click.option("--json", "as_json", is_flag=True, help="The answer as it is.")
_user = click.option("--user", metavar="NAME", help="Of this user; <default> for all others.")
_client_id = click.option("--client-id", metavar="NAME", help="Of this client id; the same.")


@ctl.command()
@asks
@_json
def status(client: Client, *, as_json: bool) -> None:
    """Print how it is."""
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    said = client.get("/v1/state")
    if as_json:
        click.echo(json.dumps(said))
    else:
        click.echo(views.status(said["now"], said["purgatory"], terminal_width()))


@ctl.command()
@asks
@_json
@click.option("--most", type=click.IntRange(1, 1000), default=200, show_default=True)
def connections(client: Client, *, as_json: bool, most: int) -> None:
    """List connections: those that are muted or busy first."""
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    said = client.get(f"/v1/connections?most={most}")
    _print(said, "connections", views.CONNECTIONS, views.connection, as_json=as_json)
    if not as_json and said["total"] > len(said["connections"]):
        click.echo(f"{len(said['connections'])} of {said['total']}", err=True)


@ctl.command()
@asks
@click.argument("connection", type=click.IntRange(0))
def close(client: Client, *, connection: int) -> None:
    """End one client's connection; ids are in the list of connections."""
    client.ask("DELETE", f"/v1/connections/{connection}")
    click.echo(f"Connection {connection} was closed.")


@ctl.command()
@asks
@_json
def purgatory(client: Client, *, as_json: bool) -> None:
    """List what has waited longest, here or at a broker."""
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    _print(client.get("/v1/purgatory"), "oldest", views.WAITING, views.waiting, as_json=as_json)


@ctl.command()
@asks
@_json
@click.option("--most", type=click.IntRange(1, 500), default=20, show_default=True)
def decisions(client: Client, *, as_json: bool, most: int) -> None:
    """List who was throttled, held or refused lately, the newest first."""
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    said = client.get(f"/v1/decisions?most={most}")
    _print(said, "decisions", views.DECISIONS, views.decision, as_json=as_json)


@ctl.group()
def quotas() -> None:
    """List and change quotas; see also `sluice quotas`, which asks as a Kafka client."""


@quotas.command("list")
@asks
@_json
def list_quotas(client: Client, *, as_json: bool) -> None:
    """Print the quotas that hold, and where each comes from."""
    _print_quotas(client.get("/v1/quotas"), as_json=as_json)


@quotas.command("set")
@asks
@_json
@_user
@_client_id
@click.argument("quotas", metavar="QUOTA=VALUE...", nargs=-1, required=True)
def set_quotas(
    client: Client, *, as_json: bool, user: str | None, client_id: str | None, quotas: Sequence[str]
) -> None:
    """Set quotas of one entity: request_rate, producer_byte_rate, consumer_byte_rate."""
    limits: dict[str, float] = {}
    for text in quotas:
        key, equals, value = text.partition("=")
        try:
            limits[key] = int(value) if value.isdecimal() else float(value)
        except ValueError:
            words = "a number" if equals else "QUOTA=VALUE"
            raise click.BadParameter(f"found {text!r}, expected {words}") from None
    said = client.ask("PUT", f"/v1/quotas?{_whose(user, client_id)}", limits)
    _print_quotas(said, as_json=as_json)


@quotas.command("remove")
@asks
@_json
@_user
@_client_id
@click.argument("quota", required=False)
def remove_quotas(
    client: Client, *, as_json: bool, user: str | None, client_id: str | None, quota: str | None
) -> None:
    """Take live quotas of one entity back; all unless one is named."""
    more = {} if quota is None else {"quota": quota}
    said = client.ask("DELETE", f"/v1/quotas?{_whose(user, client_id, **more)}")
    _print_quotas(said, as_json=as_json)


@ctl.command()
@asks
@click.option("-y", "--yes", is_flag=True, help="Do not ask first.")
def drain(client: Client, *, yes: bool) -> None:
    """Stop Sluice as SIGTERM does: what is in flight is answered first, then it ends.

    Asks first. Without a terminal, as in a script, it needs --yes.
    """
    if not yes:
        if not is_asked():
            raise click.UsageError("drain ends Sluice and needs a yes: give --yes.")
        now = client.get("/v1/state")["now"]
        clients = f"{now['connections']} client connection{'s' * (now['connections'] != 1)}"
        click.confirm(f"Sluice has {clients}. Drain and end it?", abort=True, err=True)
    client.ask("POST", "/v1/drain")
    click.echo("It drains.")


def is_asked() -> bool:
    """Whether a person can answer a question."""
    return sys.stdin.isatty()


@ctl.command()
@asks
def reload(client: Client) -> None:
    """Have it read its configuration again, as after SIGHUP."""
    changed = client.ask("POST", "/v1/reload")["changed"]
    click.echo(f"Changed: {', '.join(changed)}." if changed else "Nothing is different.")


@ctl.command("log-level")
@asks
@click.argument("level", type=click.Choice(LEVELS), required=False)
def log_level(client: Client, *, level: str | None) -> None:
    """Print or set the least that is worth a log line."""
    path = "/v1/log-level"
    said = client.get(path) if level is None else client.ask("PUT", path, {"level": level})
    click.echo(said["level"])


@ctl.command()
@asks
def tasks(client: Client) -> None:
    """Print where the tasks of its event loop wait."""
    said = client.get("/v1/debug/tasks")
    for group in said["groups"]:
        click.echo(f"{group['count']}  {', '.join(group['names'])}")
        for place in group["stack"]:
            click.echo(f"     {place}")
    click.echo(f"{said['listed']} of {said['total']} tasks", err=True)


@click.command()
@asks
@click.option("--once", is_flag=True, help="One look, as plain text.")
@click.option("--json", "as_json", is_flag=True, help="One look, as it is.")
def top(client: Client, *, once: bool, as_json: bool) -> None:
    """Watch a running Sluice: who asks how much, who is throttled, what waits.

    Ends with Ctrl-C.
    """
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    if as_json or once or not sys.stdout.isatty():
        said = client.get("/v1/state")
        if as_json:
            click.echo(json.dumps(said))
            return
        width = terminal_width()
        click.echo(views.status(said["now"], said["purgatory"], width))
        rows = [cells for cells, _ in views.principals(said)]
        click.echo(views.columns(views.PRINCIPALS, rows, width))
        return
    from rich.live import Live  # noqa: PLC0415 - as above

    with Live(screen=True, auto_refresh=False) as picture:
        try:
            for event in client.events():
                size = picture.console.size
                picture.update(views.live(event, size.width, size.height), refresh=True)
        except KeyboardInterrupt:
            return
    click.echo("It has ended.", err=True)


def _print(
    said: dict[str, Any],
    key: str,
    names: Sequence[str],
    cells: Callable[[dict[str, Any]], tuple[str, ...]],
    *,
    as_json: bool,
) -> None:
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    if as_json:
        click.echo(json.dumps(said))
    elif said[key]:
        click.echo(views.columns(names, list(map(cells, said[key])), terminal_width()))
    else:
        click.echo("There are none.", err=True)


def _print_quotas(said: dict[str, Any], *, as_json: bool) -> None:
    from proxy.cli import views  # noqa: PLC0415 - start-up of other commands

    _print(said, "quotas", views.QUOTAS, views.quota, as_json=as_json)


def _whose(user: str | None, client_id: str | None, **more: str) -> str:
    from urllib.parse import urlencode  # noqa: PLC0415 - start-up of other commands

    named = {"user": user, "client_id": client_id}
    whose = {kind: name for kind, name in named.items() if name is not None}
    if not whose:
        raise click.UsageError("Say whose quota: --user, --client-id, or both.")
    return urlencode(whose | more)
