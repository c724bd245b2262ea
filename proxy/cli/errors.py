"""The two errors of a request to a running Sluice, over Kafka or its admin server, and the exit code after them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from proxy.telemetry.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FAILED = 1
"""The exit code."""


class UnreachableError(Exception):
    """There was no answer, or none of the expected protocol. The message names the address and the reason."""


class RefusedError(Exception):
    """The server answered and refused. `code` is Kafka's error code, or the HTTP status.

    `problems` lists what is wrong, one by one; that of a setting begins with its key path.
    """

    def __init__(self, code: int, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.problems = tuple(problems)


@contextmanager
def exits_on_failure() -> Iterator[None]:
    """Print either error to standard error and end the program with exit code 1."""
    try:
        yield
    except UnreachableError as error:
        click.echo(escaped(str(error)), err=True)
        sys.exit(FAILED)
    except RefusedError as error:
        click.echo(f"Refused: {escaped(str(error))}" + ":" * bool(error.problems), err=True)
        for problem in error.problems:
            click.echo(f"  {escaped(problem)}", err=True)
        sys.exit(FAILED)
