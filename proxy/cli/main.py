"""The command `sluice`.

- Expensive modules (Trio, the demo, YAML output) are imported by the command that needs them.
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

from proxy.cli.ctl import ctl
from proxy.cli.quotas import quotas
from proxy.cli.top import top
from proxy.telemetry import stderr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policies.validation import Problem, SettingsError
    from proxy.config.sources import Effective

    Command = TypeVar("Command", bound=Callable[..., object])

INVALID = 1
UNUSABLE = 2
OUTSIDE = "no port here, for listen.nodes does not name it; clients are sent to the bootstrap port"
DEMO_SECONDS = 40.0  # a minute with setting the stage
DEMO_PAGE = Path("reports/demo.html")


def _print_version(context: click.Context, _option: click.Parameter, value: object) -> None:
    if value:
        click.echo(_version())
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
def main() -> None:
    """Sluice: stands between Kafka clients and brokers and applies policies to each request."""


for command in (quotas, ctl, top):
    main.add_command(command)


def _sources(command: Command) -> Command:
    """The options that say where the settings come from."""
    options = (
        click.option(
            "-c",
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
            help="Broker ids that get a port of their own, after the bootstrap port.  [default: 0-31]",
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
    stderr.install()  # already done where the command came by `proxy.__main__`
    flags = _flags(upstream, listen, nodes)
    effective = _load(file, flags, UNUSABLE, look=True, keep_policies=True)
    from policies.validation import SettingsError  # noqa: PLC0415 - see the module
    from proxy import app  # noqa: PLC0415 - see the module: only what the command needs
    from proxy.config.sources import load  # noqa: PLC0415 - see the module

    try:
        code = app.run(
            effective.config, lambda: load(file, os.environ, flags, keep_policies=True).config
        )
    except SettingsError as error:  # found only when a policy is made: a file of its own, say
        _complain(error)
        code = UNUSABLE
    sys.exit(code)


@main.command()
@_sources
@click.option("--connect", is_flag=True, help="Also ask each bootstrap server once.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for editors and CI.")
def check(
    file: Path | None,
    upstream: str | None,
    listen: str | None,
    nodes: str | None,
    *,
    connect: bool,
    as_json: bool,
) -> None:
    """Name every mistake in the settings, and what memory they may need.

    What passes is what `run` takes, but for ports that are taken. Exit code 0: there is no mistake; 1: there is
    one, or a broker does not answer.
    """
    from policies.validation import SettingsError  # noqa: PLC0415 - see the module
    from proxy.config.sizing import budget_of  # noqa: PLC0415 - see the module

    try:
        effective = _read(file, _flags(upstream, listen, nodes), look=True)
        budget = budget_of(effective.config)
        if problems := tuple(budget.problems()):
            raise SettingsError(problems)  # noqa: TRY301 - shown as all others are
    except SettingsError as error:
        if as_json:
            _print_findings(error.problems, ())
        else:
            _complain(error)
        sys.exit(INVALID)
    if as_json:
        _print_findings((), effective.hints)
        return
    _hint(effective)
    count = len(effective.config.policies)
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
    help="How long the clients run.",
)
@click.option("--plain", is_flag=True, help="Print lines instead of live tables.")
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEMO_PAGE,
    show_default=True,
    help="File for the page of the run.",
)
def demo(seconds: float, *, plain: bool, page: Path) -> None:
    """Run real clients through Sluice.

    Starts an embedded cluster, Sluice in front of it and clients; ends with a verdict and a page of the run.
    """
    from proxy.demo import run as run_demo  # noqa: PLC0415 - see the module

    sys.exit(run_demo(seconds, plain=plain, page=page))


@main.command()
def version() -> None:
    """Print the version."""
    click.echo(_version())


def _version() -> str:
    from importlib.metadata import version as version_of  # noqa: PLC0415 - see the module

    python = ".".join(map(str, sys.version_info[:3]))
    return f"sluice {version_of('kafka-sluice')} (Python {python})"


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


def _load(
    file: Path | None,
    flags: Mapping[str, tuple[str, str]],
    code: int,
    *,
    look: bool = False,
    keep_policies: bool = False,
) -> Effective:
    """The settings; or every problem on standard error, and the end with `code`."""
    from policies.validation import SettingsError  # noqa: PLC0415 - see the module

    try:
        effective = _read(file, flags, look=look, keep_policies=keep_policies)
    except SettingsError as error:
        _complain(error)
        sys.exit(code)
    _hint(effective)
    return effective


def _read(
    file: Path | None,
    flags: Mapping[str, tuple[str, str]],
    *,
    look: bool = False,
    keep_policies: bool = False,
) -> Effective:
    """The settings. `look`: also at the files, folders and variables that a start needs. Raises SettingsError."""
    from proxy.config.sources import load  # noqa: PLC0415 - see the module

    if not look:
        return load(file, os.environ, flags, keep_policies=keep_policies)
    from proxy import preflight  # noqa: PLC0415 - see the module

    return load(
        file,
        os.environ,
        flags,
        lambda config: preflight.problems(config, os.environ),
        keep_policies=keep_policies,
    )


def _hint(effective: Effective) -> None:
    for hint in effective.hints:
        click.echo(f"hint: {hint}", err=True)


def _print_findings(problems: Sequence[Problem], hints: Sequence[str]) -> None:
    """Print the findings of `check` as JSON: `origin` is FILE:LINE, a variable or a flag."""
    import json  # noqa: PLC0415 - see the module

    rows = [
        {
            "path": each.path,
            "origin": each.origin,
            "found": each.found,
            "expected": each.expected,
            "nearest": each.nearest,
            "message": str(each),
        }
        for each in problems
    ]
    click.echo(json.dumps({"valid": not rows, "problems": rows, "hints": list(hints)}, indent=1))


def _complain(error: SettingsError) -> None:
    count = len(error.problems)
    click.echo(f"{count} problem{'s' if count > 1 else ''} in the settings:", err=True)
    for problem in error.problems:
        click.echo(f"  {problem}", err=True)


def _connect(effective: Effective) -> None:
    from proxy import app  # noqa: PLC0415 - see the module

    reports = app.probe_brokers(effective.config)
    ports = effective.config.listen.node_ports()
    for report in reports:
        count = len(report.brokers)
        found = f"a Kafka broker; it names {count} broker{'s' * (count != 1)}" if count else ""
        found = found or f"a Kafka broker; {report.note}"
        click.echo(f"{report.server}: {report.problem or found}", err=bool(report.problem))
        for node_id, (host, port) in sorted(report.brokers.items()):
            here = f"port {ports[node_id]} here" if node_id in ports else OUTSIDE
            click.echo(f"  broker {node_id} at {host}:{port}: {here}")
    if any(report.problem for report in reports):
        sys.exit(INVALID)


def _print_schema() -> None:
    import json  # noqa: PLC0415 - see the module

    from policies.registry import available  # noqa: PLC0415 - see the module
    from proxy.config.schema import json_schema  # noqa: PLC0415 - see the module

    click.echo(json.dumps(json_schema(available()), indent=2))
