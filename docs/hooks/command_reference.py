"""The references of both command lines, from the click commands themselves."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from pipeline.cli.main import main as pipeline
from proxy.cli.main import main as sluice

if TYPE_CHECKING:
    from collections.abc import Iterator


def cell(text: str) -> str:
    """Return the text as it may stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def walk(command: click.Command, context: click.Context) -> Iterator[click.Context]:
    """Yield the context of the command and of every command below it."""
    yield context
    if isinstance(command, click.Group):
        for name in sorted(command.list_commands(context)):
            child = command.get_command(context, name)
            assert child is not None  # noqa: S101 - it was listed
            yield from walk(child, click.Context(child, context, info_name=name))


def option_row(option: click.Option, context: click.Context) -> str:
    """Return the row of an option: its names, what it does with default and environment variable."""
    written, help_text = option.get_help_record(context) or ("", "")
    help_text = re.sub(r"(?<=\w),(?=\w)", ", ", help_text)  # a phone breaks lines at spaces only
    return f"| `{cell(written)}` | {cell(help_text).replace('[', '(').replace(']', ')')} |"


def entry(context: click.Context) -> str:
    """Return a heading, the usage, the help text and the options of one command."""
    command = context.command
    lines = [
        f"## {context.command_path}\n",
        f"```text\n{context.command_path} {' '.join(command.collect_usage_pieces(context))}\n```\n",
        inspect.cleandoc(command.help or "").replace("\b\n", "") + "\n",
    ]
    options = [
        each for each in command.params if isinstance(each, click.Option) and not each.hidden
    ]
    if options:
        rows = (option_row(each, context) for each in options)
        lines.append("\n".join(["| option | what it does |", "|---|---|", *rows, ""]))
    return "\n".join(lines)


def command_reference() -> str:
    """Return the entries of `sluice` and all its commands."""
    return _entries(sluice, "sluice")


def pipeline_reference() -> str:
    """Return the entries of `sluice-pipeline` and all its commands."""
    return _entries(pipeline, "sluice-pipeline")


def _entries(program: click.Command, name: str) -> str:
    return "\n".join(entry(each) for each in walk(program, click.Context(program, info_name=name)))
