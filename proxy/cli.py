"""The command `sluice`.

- What is expensive to import (Trio, the demo, YAML output) is imported by the command that needs it.
- Exit codes: 0 all is well, 1 the answer is no (or the port is taken), 2 the settings or options
  cannot be used. Nothing is bound or dialled before all settings hold.
- Answers go to standard output, complaints to standard error.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from proxy.ctl.command import ctl, top
from proxy.quotas.command import quotas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.settings import SettingsError
    from proxy.config.sources import Effective

    Command = TypeVar("Command", bound=Callable[..., object])

INVALID = 1
UNUSABLE = 2
DEMO_SECONDS = 40.0  # a minute with setting the stage
DEMO_PAGE = Path("reports/demo.html")


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def main() -> None:
    """Sluice: stands between Kafka clients and brokers and applies policies to each request."""


for command in (quotas, ctl, top):
    main.add_command(command)


def _sources(command: Command) -> Command:
    """The options that say where the settings come from."""
    options = (
        click.option(
            "--config",
            "file",
            type=click.Path(path_type=Path),
            envvar="SLUICE_CONFIG",
            show_envvar=True,
            metavar="FILE",
            help="The YAML file. Everything in it has an environment variable, too.",
        ),
        click.option(
            "--upstream", metavar="HOST:PORT[,HOST:PORT]", help="Brokers of the real cluster."
        ),
        click.option(
            "--listen",
            metavar="ADDRESS:PORT",
            help="The bootstrap port clients connect to.  [default: 127.0.0.1:19092]",
        ),
        click.option(
            "--nodes",
            metavar="IDS",
            help="Broker ids that get a port of their own behind it.  [default: 0-31]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@_sources
def run(file: Path | None, upstream: str | None, listen: str | None, nodes: str | None) -> None:
    """Run the proxy until SIGTERM.

    What is in flight is answered first; a second signal ends it at once.
    """
    flags = _flags(upstream, listen, nodes)
    effective = _load(file, flags, UNUSABLE)
    from policies.settings import SettingsError  # noqa: PLC0415 - see the module
    from proxy import app  # noqa: PLC0415 - see the module: only what the command needs
    from proxy.config.sources import load  # noqa: PLC0415 - see the module

    try:
        code = app.run(effective.config, lambda: load(file, os.environ, flags).config)
    except SettingsError as error:  # found only when a policy is made: a file of its own, say
        _complain(error)
        code = UNUSABLE
    sys.exit(code)


@main.command()
@_sources
@click.option("--connect", is_flag=True, help="Also dial each bootstrap server once.")
def check(
    file: Path | None, upstream: str | None, listen: str | None, nodes: str | None, *, connect: bool
) -> None:
    """Name every mistake in the settings, and what memory they may need.

    Exit code 0: there is none; 1: there is one, or a broker does not answer.
    """
    effective = _load(file, _flags(upstream, listen, nodes), INVALID)
    count = len(effective.config.policies)
    from proxy.config.sizing import budget_of  # noqa: PLC0415 - see the module

    budget = budget_of(effective.config)
    if problems := tuple(budget.problems()):
        from policies.settings import SettingsError  # noqa: PLC0415 - see the module

        _complain(SettingsError(problems))
        sys.exit(INVALID)
    click.echo(f"The settings are valid; policies: {count}.")
    for line in budget.lines():
        click.echo(line)
    if connect:
        _connect(effective)


@main.command()
@_sources
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file instead.")
def config(
    file: Path | None, upstream: str | None, listen: str | None, nodes: str | None, *, schema: bool
) -> None:
    """Print the effective settings and their origins."""
    if schema:
        _print_schema()
        return
    effective = _load(file, _flags(upstream, listen, nodes), INVALID)
    from proxy.config.text import render  # noqa: PLC0415 - see the module

    click.echo(render(effective), nl=False)


@main.command()
@click.option(
    "--seconds",
    type=click.FloatRange(min=1, max=86_400),
    default=DEMO_SECONDS,
    show_default=True,
    help="How long the clients work.",
)
@click.option("--plain", is_flag=True, help="Lines instead of a live table.")
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEMO_PAGE,
    show_default=True,
    help="Where the page of the run is written.",
)
def demo(seconds: float, *, plain: bool, page: Path) -> None:
    """Play real clients through Sluice.

    Starts an embedded cluster, Sluice before it and clients, and ends with a verdict and a page of the run.
    """
    from proxy.demo import run as play  # noqa: PLC0415 - see the module

    sys.exit(play(seconds, plain=plain, page=page))


@main.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as version_of  # noqa: PLC0415 - see the module

    python = ".".join(map(str, sys.version_info[:3]))
    click.echo(f"sluice {version_of('kafka-sluice')} (Python {python})")


def _flags(
    upstream: str | None, listen: str | None, nodes: str | None
) -> Mapping[str, tuple[str, str]]:
    """Key path to (text, flag) of the flags that were given; `--listen` may leave out either half."""
    flags: dict[str, tuple[str, str]] = {}
    if upstream is not None:
        flags["upstream.bootstrap_servers"] = (upstream, "--upstream")
    if listen is not None:
        address, colon, port = listen.rpartition(":")
        if not colon or not port:
            words = "ADDRESS:PORT, or :PORT (an IPv6 address in brackets)"
            raise click.BadParameter(f"found {listen!r}, expected {words}", param_hint="--listen")
        if address:
            bare = address.removeprefix("[").removesuffix("]")
            flags["listen.address"] = (bare, "--listen")
        flags["listen.port"] = (port, "--listen")
    if nodes is not None:
        flags["listen.nodes"] = (nodes, "--nodes")
    return flags


def _load(file: Path | None, flags: Mapping[str, tuple[str, str]], code: int) -> Effective:
    """The settings; or every problem on standard error, and the end with `code`."""
    from policies.settings import SettingsError  # noqa: PLC0415 - see the module
    from proxy.config.sources import load  # noqa: PLC0415 - see the module

    try:
        effective = load(file, os.environ, flags)
    except SettingsError as error:
        _complain(error)
        sys.exit(code)
    for hint in effective.hints:
        click.echo(f"hint: {hint}", err=True)
    return effective


def _complain(error: SettingsError) -> None:
    count = len(error.problems)
    click.echo(f"{count} problem{'s' if count > 1 else ''} in the settings:", err=True)
    for problem in error.problems:
        click.echo(f"  {problem}", err=True)


def _connect(effective: Effective) -> None:
    from proxy import app  # noqa: PLC0415 - see the module

    answers = app.try_brokers(effective.config)
    for server, reason in answers:
        click.echo(f"{server}: {reason or 'reached'}", err=reason is not None)
    if any(reason is not None for _, reason in answers):
        sys.exit(INVALID)


def _print_schema() -> None:
    import json  # noqa: PLC0415 - see the module

    from policies.registry import available  # noqa: PLC0415 - see the module
    from proxy.config.schema import json_schema  # noqa: PLC0415 - see the module

    click.echo(json.dumps(json_schema(available()), indent=2))
