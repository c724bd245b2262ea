"""The command `sluice-pipeline`. Each subcommand is a module of this folder, imported when it is asked for.

Exit codes: 0 success; 1 the job failed; 2 invalid options or input; 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import click

from pipeline.errors import PipelineError
from policies.escaping import escaped

COMMANDS: Final[dict[str, str]] = {
    "ingest": "ingest",
    "maintain": "maintain",
    "migrate": "migrate",
    "usage": "usage",
    "traces": "traces",
    "stream": "stream",
    "report": "report",
    "all": "all_jobs",
    "package": "package",
    "recommend": "recommend",
    "whatif": "whatif",
}
"""The subcommands by name, each with its module in `pipeline.cli`."""
INTERRUPTED: Final = 128 + signal.SIGINT
UNWRITABLE: Final = frozenset({errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})
"""The numbers of the errors with which a disk or a terminal takes no more output."""


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is asked for. An error that a user can mend is one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are used."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand, or None if there is none of this name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"pipeline.cli.{COMMANDS[cmd_name]}"), COMMANDS[cmd_name])
        assert isinstance(command, click.Command)  # noqa: S101 - each module names its command so
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the subcommand; a PipelineError, an interrupt and the end of Python's memory are one line each."""
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            click.echo(escaped(f"error: {error}"), err=True)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error.message = escaped(error.message)  # type: ignore[misc] # it may be an argument as it is
            raise
        except MemoryError:
            click.echo("error: Python has no more memory", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a second one ends it at once
            click.echo("interrupted", err=True)
            sys.exit(INTERRUPTED)

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


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def main() -> None:
    """Turn Sluice's usage log and traces into reports, quotas and simulations, on Spark.

    Every path may be a URI that Spark reads: file:, hdfs:, s3a:.
    """
