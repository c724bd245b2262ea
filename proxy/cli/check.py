"""`sluice check`: every mistake in the settings, and the memory that they may need."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from policies.escaping import escaped
from proxy.cli import options
from proxy.cli.settings import INVALID, print_hints, print_problems, with_settings
from proxy.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.validation import Problem
    from proxy.cli.settings import GivenSettings
    from proxy.config import Config
    from proxy.preflight.broker_probe import BrokerReport

DAY_S = 86_400
OUTSIDE = (
    "no port here, because it is not in listen.nodes: the partitions that it leads do not work"
)


@click.command()
@with_settings
@click.option(
    "--connect",
    is_flag=True,
    help="Also connect to each bootstrap server, and to the address of the keys for tokens.",
)
@options.JSON
def check(given: GivenSettings, *, connect: bool, as_json: bool) -> None:
    """Check the settings and print the memory that they may need.

    Makes the same checks as `run`, except whether the ports are free. Exit code 1: a setting is
    invalid, or with --connect a bootstrap server or the address of the keys for tokens does not
    answer, or a broker has no port here.
    """
    from policies.validation import SettingsError  # noqa: PLC0415 - start-up of other commands
    from proxy.config.budget import budget_of  # noqa: PLC0415 - as above
    from proxy.config.hints import login_lines, unread_lines  # noqa: PLC0415 - as above

    try:
        effective = given.read(preflight=True)
        budget = budget_of(effective.config)
        if problems := tuple(budget.problems()):
            raise SettingsError(problems)  # noqa: TRY301 - shown as all others are
    except SettingsError as error:
        if as_json:
            _print_json(error.problems, ())
        else:
            print_problems(error)
        sys.exit(INVALID)
    if as_json:
        _print_json((), effective.hints)
        return
    print_hints(effective)
    click.echo(f"The settings are valid; policies: {len(effective.config.policies)}.")
    config = effective.config
    for line in (*budget.lines(), *login_lines(config), *unread_lines(config)):
        click.echo(line)
    if connect:
        _connect(effective.config)


def _print_json(problems: Sequence[Problem], hints: Sequence[str]) -> None:
    """Print the findings as one object: `origin` is FILE:LINE, a variable or an option."""
    import json  # noqa: PLC0415 - start-up of other commands

    keys = ("path", "origin", "found", "expected", "nearest")
    rows = [{key: getattr(each, key) for key in keys} | {"message": str(each)} for each in problems]
    click.echo(json.dumps({"valid": not rows, "problems": rows, "hints": list(hints)}, indent=1))


def _security(report: BrokerReport) -> Iterator[str]:
    """Yield the TLS, the certificate and the login of a connection to a broker, as far as it has them."""
    if report.tls:
        yield report.tls
    if (shown := report.certificate) is not None:
        days = (shown.ends_s - time.time()) / DAY_S
        names = f" for {', '.join(shown.names)}" if shown.names else ", not verified"
        yield escaped(f"certificate of {shown.subject}{names}; it ends in {days:.0f} days")
    if report.user:
        yield f"authenticated as {report.user}"


def _connect(config: Config) -> None:
    """Print what answers at each bootstrap server; exit with INVALID if one does not answer."""
    from proxy.preflight.broker_probe import probe_brokers  # noqa: PLC0415 - start-up of other commands

    reports = probe_brokers(config)
    addresses = config.listen.node_addresses()
    for report in reports:
        count = len(report.brokers)
        found = f"a Kafka broker; it names {count} broker{'s' * (count != 1)}" if count else ""
        found = found or f"a Kafka broker; {report.note}"
        click.echo(f"{report.server}: {report.problem or found}", err=bool(report.problem))
        for line in _security(report):
            click.echo(f"  {line}")
        for node_id, (host, port) in sorted(report.brokers.items()):
            here = OUTSIDE
            if node_id in addresses:
                name, at = addresses[node_id]
                here = (
                    f"{host_port(name, at)} here"
                    if config.listen.serves_by_sni
                    else f"port {at} here"
                )
            click.echo(f"  broker {node_id} at {host_port(host, port)}: {here}")
    outside = sorted({node for each in reports for node in each.brokers} - addresses.keys())
    if outside:
        ids = ", ".join(map(str, outside))
        click.echo(
            f"listen.nodes: widen it, so that each broker has a port; these have none: {ids}",
            err=True,
        )
    has_keys = _ask_for_keys(config)
    if outside or not has_keys or any(report.problem for report in reports):
        sys.exit(INVALID)


def _ask_for_keys(config: Config) -> bool:
    """Print what is at the address of the keys for clients' tokens; return whether there are some, if there is one."""
    check = config.listen.sasl.oauthbearer if config.listen.sasl is not None else None
    if check is None or "://" not in check.jwks:
        return True
    from proxy.preflight.token_keys import ask  # noqa: PLC0415 - only with OAUTHBEARER

    line, has_keys = ask(check)
    click.echo(escaped(line), err=not has_keys)
    return has_keys
