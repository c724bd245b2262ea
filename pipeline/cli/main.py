"""The command `sluice-pipeline`. Each subcommand is a module of this folder, imported when it is asked for.

Exit codes: 0 success; 1 the job failed; 2 invalid options or input.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

import click

from pipeline.errors import PipelineError

COMMANDS: Final[dict[str, str]] = {
    "ingest": "ingest",
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


class LazyGroup(click.Group):
    """A group that imports a subcommand when it is asked for. A PipelineError is one line and its exit code."""

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
        """Run the subcommand; print a PipelineError as one line."""
        try:
            return super().invoke(ctx)
        except PipelineError as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(error.exit_code)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
def main() -> None:
    """Turn Sluice's usage log and traces into reports, quotas and simulations, on Spark.

    Every path may be a URI that Spark reads: file:, hdfs:, s3a:.
    """
