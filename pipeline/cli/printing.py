"""How commands print: what a client chose reaches neither a terminal nor a spreadsheet as it is.

Rules:
- Clients choose names, and with them parts of reasons, paths and errors. Every line passes `tell`, every cell of a
  table `visible`: one line stays one line, and a terminal gets no control sequence.
- A cell of CSV that a spreadsheet would compute begins with an apostrophe (OWASP, "CSV injection"). Text is quoted,
  because not every spreadsheet separates cells by a comma. Figures are left alone.
- `--raw` opts out of both, but for errors. JSON and quota files have exact names: they have escapes of their own.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from policies.escaping import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

RAW: Final = "sluice-pipeline.raw"
"""Where the context of a command keeps the option."""
FORMULA: Final = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""What a formula begins with, also in full width. Before it may be a tab or a line end: those are escaped."""


def keep_raw(context: click.Context, _option: click.Parameter, is_raw: bool) -> None:  # noqa: FBT001 - click's call
    """Keep the option `--raw` of a command."""
    context.meta[RAW] = is_raw


def visible(text: object) -> str:
    """Return text of which a client chose a part, for a line or a cell."""
    return str(text) if _is_raw() else escaped(str(text))


def tell(*lines: str, err: bool = False) -> None:
    """Print lines to standard output, or to standard error."""
    for line in lines:
        click.echo(visible(line), err=err)


def console_of(width: int) -> Console:
    """Return a console for tables of names, which are no markup; `width`: that of a pipe, in columns."""
    from rich.console import Console  # noqa: PLC0415 - --help need not wait for it

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = width
    return console


def print_csv(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as CSV under the names of their columns; what is null is empty."""
    print_line = sys.stdout.write
    print_line(",".join(map(_cell, names)) + "\n")
    for row in rows:
        print_line(",".join(_cell(row[name]) for name in names) + "\n")
    sys.stdout.flush()  # here, where a full disk or a closed pipe is handled


def _cell(value: object) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    text = visible(value).replace('"', '""')
    return f'"{text}"' if _is_raw() or not text.startswith(FORMULA) else f'"\'{text}"'


def _is_raw() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(RAW))
