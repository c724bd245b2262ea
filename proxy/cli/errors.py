"""How a command ends after a request to a running Sluice failed, over Kafka or its admin server."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from policies.escaping import escaped
from proxy.admin.errors import RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

FAILED = 1
"""The exit code."""


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
