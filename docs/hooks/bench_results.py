"""Tables of bench/RESULTS.md: measured figures are written there and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[2] / "bench" / "RESULTS.md"
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def result_tables(heading: str) -> str:
    """Return the tables below this heading, up to the next heading, with a line that names their source.

    Tables that describe the machine or the run stay in RESULTS.md. Raises LookupError if there is no such
    heading, or no table below it.
    """
    text = RESULTS.read_text("utf-8") + "\n"
    sections = HEADING.split(text)
    bodies = dict(zip(sections[1::2], sections[2::2], strict=True))
    if heading not in bodies:
        raise LookupError(f"bench/RESULTS.md has no heading {heading!r}")
    tables = [each for each in TABLE.findall(bodies[heading]) if "| date |" not in each]
    if not tables:
        raise LookupError(f"bench/RESULTS.md has no table below {heading!r}")
    return "\n".join([*tables, f"*From `bench/RESULTS.md`, section “{heading}”.*\n"])
