"""The mkdocs hook: fills the markers of a page with text that is generated from its source.

A marker is a comment on a line of its own: `<!-- generated: NAME -->` or `<!-- generated: NAME: ARGUMENT -->`.
It is invisible where the page is read as a file. A marker that cannot be filled fails the build.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click
from bench_results import result_tables
from rights_tables import acts_table, rights_table
from settings_reference import settings_reference

from proxy.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable

INLINE_CODE = re.compile(r"(?<=<code>)[^<\n]+(?=</code>)")
WORD = re.compile(r"\S+")
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
HEAD = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
CELL = re.compile(r"<td\b([^>]*)>")
TAG = re.compile(r"<[^>]+>")
MARKER = re.compile(r"^<!-- generated: (\w+)(?:: (.+?))? -->$", re.MULTILINE)
ROOT = Path(__file__).resolve().parents[2]


def shown_file(name: str) -> str:
    """Return a file of the top folder as a page of one of the three folders: its links lead to the pages."""
    return (ROOT / name).read_text("utf-8").replace("](docs/", "](../")


SOURCES: dict[str, Callable[[str], str]] = {
    "acts": lambda _: acts_table(),
    "file": shown_file,
    "results": result_tables,
    "rights": lambda _: rights_table(),
    "settings": lambda _: settings_reference(),
}


def on_startup(**_: object) -> None:
    """Load the commands of `sluice` that are imported when they are asked for: mkdocs-click lists loaded ones."""
    context = click.Context(main)
    for name in main.list_commands(context):
        if command := main.get_command(context, name):
            main.add_command(command, name)


def on_page_markdown(markdown: str, **_: object) -> str:
    """Return the page's text with every marker filled.

    Raises KeyError for an unknown NAME, and LookupError for an ARGUMENT that the source does not have.
    """
    return MARKER.sub(lambda found: SOURCES[found[1]](found[2] or ""), markdown)


def on_page_content(html: str, **_: object) -> str:
    """Return the page for narrow screens, too.

    Each word of inline code is marked as a key, which a browser must not break. Each cell of a table carries its
    column's heading, which the style sheet shows where a row is a card.
    """
    html = INLINE_CODE.sub(
        lambda found: WORD.sub(r'<span class="key">\g<0></span>', found[0]), html
    )
    return TABLE.sub(lambda found: _label_cells(found[0]), html)


def _label_cells(table: str) -> str:
    heads = [TAG.sub("", head) for head in HEAD.findall(table)]
    labels = itertools.cycle(heads)
    return CELL.sub(lambda found: f'<td data-label="{next(labels)}"{found[1]}>', table)
