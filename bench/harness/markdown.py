"""Markdown of the results: tables, and the named sections of RESULTS.md.

Each benchmark owns one section, between two comments that name it. It replaces that section and leaves the others. A
new one comes to the end of the file, unless the text has a place for it: the two comments with nothing between them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Row = TypeVar("Row")
_SECTION = re.compile(r"<!-- (?P<name>[a-z]+) -->\n(?P<body>.*?)<!-- /(?P=name) -->\n", re.DOTALL)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def columns(rows: Iterable[Row], given: Sequence[tuple[str, Callable[[Row], str]]]) -> str:
    """Return a table of these rows; a column is its head and the function that returns a row's cell."""
    return table([head for head, _ in given], [[cell(row) for _, cell in given] for row in rows])


def facts_table(facts: Mapping[str, str]) -> str:
    """Return a table of two columns without heads."""
    return table(["", ""], [list(fact) for fact in facts.items()])


def facts_line(facts: Mapping[str, str]) -> str:
    """Return a line about the machine and the run, which ends a section."""
    return "; ".join(f"{what} {fact}" for what, fact in facts.items()) + "."


def one_line(text: str) -> str:
    """Return the text as one line that may stand in a table."""
    return " ".join(text.split()).replace("|", "/")


def keep_sections(old: str, new: str) -> str:
    """Return the new text with every section of the old one: in its place if the new text has one, else at the end."""
    for found in _SECTION.finditer(old):
        new = put_section(new, found["name"], found["body"])
    return new


def place(name: str) -> str:
    """Return the place of a section that another benchmark writes."""
    return f"<!-- {name} -->\n<!-- /{name} -->"


def put_section(text: str, name: str, section: str) -> str:
    """Return the text with the section of this name replaced, or added at the end."""
    written = f"<!-- {name} -->\n{section.strip()}\n<!-- /{name} -->\n"
    for found in _SECTION.finditer(text):
        if found["name"] == name:
            return text[: found.start()] + written + text[found.end() :]
    return f"{text}\n{written}" if text else written


def read_results(folder: Path) -> str:
    """Return the text of the folder's RESULTS.md; empty if there is none."""
    file = folder / "RESULTS.md"
    return file.read_text() if file.exists() else ""


def write_results(folder: Path, text: str) -> None:
    """Write the folder's RESULTS.md and print its path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "RESULTS.md"
    file.write_text(text)
    print(f"written: {file}")


def write_section(folder: Path, name: str, section: str) -> None:
    """Replace one section of the folder's RESULTS.md."""
    write_results(folder, put_section(read_results(folder), name, section))
