"""The command `sluice`.

- Modules of commands, and expensive ones (Trio, the demo, YAML output), are imported when they are needed: a proxy that
  runs keeps no other command in memory.
- Exit codes: 0 success; 1 a failed check, a refusal, or a port that is taken; 2 invalid settings or options.
  No port is bound and no broker is dialled before all settings are valid.
- Results go to standard output, errors and hints to standard error.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from proxy.cli.settings import INVALID, UNUSABLE, GivenSettings, print_problems, with_settings
from proxy.shell import hangup
from proxy.shell.core_dumps import forbid_core_dumps

DEMO_SECONDS = 40.0
"""A minute, with the start of the cluster."""
DEMO_PAGE = Path("reports/demo.html")


COMMANDS: Final = {
    "access": "access",
    "check": "check",
    "ctl": "ctl",
    "diff": "diff",
    "new-policy": "new_policy",
    "ping": "ping",
    "policies": "policy_list",
    "quotas": "quotas",
    "top": "top",
    "users": "edit_users",
}
"""The commands that are not in this module, by name, each with its module of `proxy.cli`."""
UNWRITABLE: Final = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})
"""The numbers of the errors with which a disk or a terminal takes no more output."""


class CommandGroup(click.Group):
    """The commands of this module and, imported when they are asked for, those of COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names in alphabetical order."""
        return sorted([*super().list_commands(ctx), *COMMANDS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"proxy.cli.{COMMANDS[cmd_name]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)  # noqa: S101 - each module names its command so
        return command

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - as the base class has it
        """Run the command. Standard output that cannot be written is one line and exit code 1, not a traceback."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            if error.errno not in UNWRITABLE or error.filename is not None:
                raise
            with suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # flushed at exit
                click.echo(f"error: standard output cannot be written: {error.strerror}", err=True)
            sys.exit(1)


def _print_version(context: click.Context, _option: click.Parameter, value: object) -> None:
    if value:
        click.echo(_version())
        context.exit()


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version.",
)
@click.pass_context
def main(context: click.Context) -> None:
    """Sluice: stands between Kafka clients and brokers and applies policies to each request."""
    if context.invoked_subcommand != "run":
        hangup.obey()
    forbid_core_dumps()


@main.command()
@with_settings
@click.option("--dev", is_flag=True, help="Reload when the source of a plug-in changes.")
def run(given: GivenSettings, *, dev: bool) -> None:
    """Run the proxy until SIGTERM.

    SIGTERM drains: requests in flight are answered first. A second signal stops at once.
    """
    from proxy.telemetry import stderr  # noqa: PLC0415 - only a proxy needs it

    stderr.install()
    gc.disable()  # until `app.run` has collected once: a tenth of the start
    from proxy.config.volume import ConfigVolume, SourceWatch  # noqa: PLC0415 - see the module

    volume = SourceWatch(given.file) if dev else ConfigVolume(given.file)
    effective = given.read_or_exit(UNUSABLE, preflight=True, keep_policies=True)
    from policies.validation import SettingsError  # noqa: PLC0415 - see the module
    from proxy import app  # noqa: PLC0415 - see the module

    try:
        code = app.run(effective.config, lambda: given.read(keep_policies=True).config, volume)
    except SettingsError as error:  # found only when a policy is made: in a file of its own, say
        print_problems(error)
        code = UNUSABLE
    sys.exit(code)


@main.command()
@with_settings
@click.option("--schema", is_flag=True, help="Print the JSON Schema of the file instead.")
def config(given: GivenSettings, *, schema: bool) -> None:
    """Print the effective settings and their origins."""
    if schema:
        _print_schema()
        return
    effective = given.read_or_exit(INVALID)
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
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEMO_PAGE,
    show_default=True,
    help="File for the page of the run.",
)
@click.option(
    "--usage-log",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for usage log and traces. Clients with quotas then take the place of the noisy one.",
)
@click.option(
    "--quotas",
    "quotas_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="With --usage-log: a quota file for these clients.",
)
def demo(
    seconds: float,
    *,
    page: Path,
    usage_log: Path | None,
    quotas_file: Path | None,
) -> None:
    """Run real clients through Sluice.

    Starts an embedded cluster, Sluice in front of it and clients; ends with a verdict and a page of the run.
    """
    from proxy.demo import run as run_demo  # noqa: PLC0415 - see the module

    if quotas_file is not None and usage_log is None:
        raise click.UsageError(
            "--quotas needs --usage-log: without it the demo sets its quota itself"
        )
    code = run_demo(seconds, page=page, usage_log=usage_log, quotas_file=quotas_file)
    sys.exit(code)


@main.command()
def version() -> None:
    """Print the version, that of Python, and whether Sluice is compiled."""
    click.echo(_version())


def _version() -> str:
    from importlib.metadata import version as version_of  # noqa: PLC0415 - see the module

    from proxy.cli.builds import running  # noqa: PLC0415 - see the module

    python = ".".join(map(str, sys.version_info[:3]))
    return f"sluice {version_of('kafka-sluice')} (Python {python}, {running()})"


def _print_schema() -> None:
    import json  # noqa: PLC0415 - see the module

    from policies.discovery import available  # noqa: PLC0415 - see the module
    from proxy.config.json_schema import json_schema  # noqa: PLC0415 - see the module

    click.echo(json.dumps(json_schema(available()), indent=2))
