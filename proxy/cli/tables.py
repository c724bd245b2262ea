"""Tables of text, for a pipe and for a terminal of any width.

Rules:
- A pipe gets one line per row, for `cut` and `grep`. Its cells are whole, but for names of more than MAX_NAME_CELLS:
  no client makes every line as long as the name that it chose. JSON has whole names.
- A terminal gets lines that fit. Names are cut in the middle first, down to MIN_NAME_CELLS. If that is not enough, a
  row takes several lines, and so does the header. A figure is cut only if it alone is wider than the terminal.
- A width is counted in cells of the terminal: a wide character takes two, a combining mark none.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MIN_NAME_CELLS: Final = 12
"""A name is cut to fewer cells only if its line has no room for anything else."""
MAX_NAME_CELLS: Final = 255
"""In a pipe. The longest topic and the longest user that tools make are shorter."""
DEFAULT_WIDTH: Final = 80
"""Cells, for a terminal that does not report its width."""
GAP: Final = 2
ELLIPSIS: Final = "…"
CUT: Final = frozenset({"user", "client id", "client", "waits for", "detail"})
"""Columns of texts whose length clients chose: names, and texts that contain names."""
LEFT: Final = CUT | {
    *(
        "quota",
        "from",
        "node",
        "muted",
        "api",
        "kind",
        "time",
        "what",
        "policy",
        "what it does",
        "name",
        "may",
        "rules",
    ),
}
"""Columns of text. All others are figures, which are aligned to the right."""


def terminal_width() -> int | None:
    """Return the width of the terminal on standard output, in cells; None for a pipe or a file."""
    if not sys.stdout.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or DEFAULT_WIDTH
    except OSError:
        return DEFAULT_WIDTH


def format_table(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
) -> str:
    """Return a table under the names of its columns, for a terminal of `width` cells or for a pipe (None)."""
    return "\n".join(line for record in format_rows(names, rows, width) for line in record)


def format_rows(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
) -> list[list[str]]:
    """Return the lines of the header, then those of each row; all have the same number of lines."""
    table = [names, *(_bounded(names, row) for row in rows)]
    natural = [max(cells(row[place]) for row in table) for place in range(len(names))]
    folds = _folds(names, natural, width)
    return [
        [_line(names, row, fold, indent=GAP if number else 0) for number, fold in enumerate(folds)]
        for row in table
    ]


def _bounded(names: Sequence[str], row: Sequence[str]) -> list[str]:
    """Return the cells of a row, texts of clients cut to MAX_NAME_CELLS."""
    return [
        shorten(cell, MAX_NAME_CELLS) if name in CUT else cell
        for name, cell in zip(names, row, strict=True)
    ]


def cells(text: str) -> int:
    """Return how many cells of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def shorten(text: str, width: int) -> str:
    """Return `text`, with an ellipsis in its middle if it is wider than `width` cells."""
    if cells(text) <= width:
        return text
    if width <= 1:
        return ELLIPSIS[:width]
    tail = (width - 1) // 2
    head = width - 1 - tail
    return _first(text, head) + ELLIPSIS + _last(text, tail)


def wrap(text: str, width: int | None) -> str:
    """Return lines of prose, each folded at spaces to fit `width` cells (None: as they are)."""
    if width is None:
        return text
    import textwrap  # noqa: PLC0415 - start-up of other commands

    return "\n".join(
        folded
        for line in text.splitlines()
        for folded in textwrap.wrap(line, max(width, 2 * GAP), subsequent_indent=" " * GAP) or [""]
    )


def _folds(
    names: Sequence[str], natural: Sequence[int], width: int | None
) -> list[list[tuple[int, int]]]:
    """Return for each line of a row its columns: their places and widths."""
    if width is None:
        return [list(enumerate(natural))]
    least = [
        min(wide, width - GAP, max(MIN_NAME_CELLS, len(name)) if name in CUT else wide)
        for name, wide in zip(names, natural, strict=True)
    ]
    folds: list[list[int]] = [[]]
    for place in range(len(names)):
        if folds[-1] and _needed(least, [*folds[-1], place], len(folds) > 1) > width:
            folds.append([])
        folds[-1].append(place)
    return [
        list(_shared(fold, natural, least, width - _needed(least, fold, number > 0)))
        for number, fold in enumerate(folds)
    ]


def _needed(least: Sequence[int], fold: Sequence[int], is_indented: bool) -> int:  # noqa: FBT001 - two calls
    return sum(least[place] for place in fold) + GAP * (len(fold) - 1 + is_indented)


def _shared(
    fold: Sequence[int], natural: Sequence[int], least: Sequence[int], spare: int
) -> Iterator[tuple[int, int]]:
    """Yield each column with its width: spare cells go to the narrowest of the cut columns."""
    widths = {place: least[place] for place in fold}
    while spare > 0:
        short = [place for place in fold if widths[place] < natural[place]]
        if not short:
            break
        widths[min(short, key=lambda place: widths[place])] += 1
        spare -= 1
    yield from widths.items()


def _line(
    names: Sequence[str],
    row: Sequence[str],
    fold: Sequence[tuple[int, int]],
    indent: int,
) -> str:
    shown = []
    for place, width in fold:
        cell = shorten(row[place], width)
        space = " " * (width - cells(cell))
        shown.append(cell + space if names[place] in LEFT else space + cell)
    return " " * indent + (" " * GAP).join(shown).rstrip()


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def _first(text: str, width: int) -> str:
    used = 0
    for place, character in enumerate(text):
        used += _cells_of(character)
        if used > width:
            return text[:place]
    return text


def _last(text: str, width: int) -> str:
    return _first(text[::-1], width)[::-1]
