"""A live table on the whole terminal, drawn again with each new state until Ctrl-C."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from proxy.cli import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from rich.text import Text

    Frame = Callable[[int, int], Text]

_SPARE_LINES: Final = 3
"""Empty lines, and the line that counts hidden rows."""


def is_terminal() -> bool:
    """Return whether standard output is a terminal, so that a live table can be shown."""
    return sys.stdout.isatty()


def watch(frames: Iterable[Frame]) -> bool:
    """Show each frame, drawn for the width and height of the terminal; return False after Ctrl-C."""
    from rich.live import Live  # noqa: PLC0415 - start-up of other commands

    with Live(screen=True, auto_refresh=False) as screen:
        try:
            for draw in frames:
                size = screen.console.size
                screen.update(draw(size.width, size.height), refresh=True)
        except KeyboardInterrupt:
            return False
    return True


def draw_table(
    head: str,
    names: Sequence[str],
    rows: Sequence[tuple[Sequence[str], bool]],
    width: int,
    height: int,
) -> Text:
    """Return a head and a table that fit the terminal. Flagged rows are red; rows that do not fit are counted."""
    from rich.text import Text  # noqa: PLC0415 - only the live view needs rich

    header, *bodies = tables.format_rows(names, [cells for cells, _ in rows], width)
    room = height - len(head.splitlines()) - len(header) - _SPARE_LINES
    shown = max(1, room // len(header))
    drawn = Text(head + "\n\n", no_wrap=True, overflow="crop")
    drawn.append("\n".join(header), style="bold")
    for (_, is_red), body in zip(rows[:shown], bodies, strict=False):
        drawn.append("\n" + "\n".join(body), style="red" if is_red else "")
    if len(rows) > shown:
        drawn.append(f"\nand {len(rows) - shown} more", style="italic")
    return drawn
