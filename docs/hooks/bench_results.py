"""Tables of bench/RESULTS.md: measured figures are written there and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "RESULTS.md"
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def sections(text: str) -> list[tuple[str, str]]:
    """Return each heading as `PARENT > HEADING` with the text below it, up to the next heading."""
    parts = HEADING.split(text)
    above: list[str] = []
    found = []
    for marks, heading, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        above = [*above[: len(marks) - 1], heading]
        found.append((" > ".join(above), body))
    return found


def result_tables(heading: str) -> str:
    """Return the tables below this heading, up to the next heading, with a line that names their source.

    A heading that stands there twice is written with the one above it: `PARENT > HEADING`.
    Raises LookupError if there is not one such heading with a table.
    """
    text = RESULTS.read_text("utf-8") + "\n"
    bodies = [body for path, body in sections(text) if f" > {path}".endswith(f" > {heading}")]
    if len(bodies) != 1:
        raise LookupError(f"bench/RESULTS.md has {len(bodies)} headings {heading!r}, expected one")
    tables = TABLE.findall(bodies[0])
    if not tables:
        raise LookupError(f"bench/RESULTS.md has no table below {heading!r}")
    return "\n".join([*tables, f"*From `bench/RESULTS.md`, “{heading}”.*\n"])
