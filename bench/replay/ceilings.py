"""The ceilings: how many calls and instructions a request may take. The tests hold them; `make bench-replay` sets them.

They are a little above what was measured, because a count of instructions depends on the addresses of objects, too.
"""

import json
import math
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("ceilings.json")
CALLS: Final = "calls"
INSTRUCTIONS: Final = "instructions"
UNOPTIMISED: Final = "instructions unoptimised"
"""The compiled build that `make test` makes, which takes less time to compile."""
ROOM: Final = {CALLS: 1.02, INSTRUCTIONS: 1.05, UNOPTIMISED: 1.05}
MADE_WITH: Final = "made with"
HERE: Final = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {platform.machine()}"

Ceilings = dict[str, dict[str, int]]
"""By case and kind."""


def load() -> tuple[str, Ceilings]:
    """Return what the ceilings were made with, and the ceilings."""
    found = json.loads(FILE.read_text())
    return found.pop(MADE_WITH), found


def save(measured: Mapping[str, Mapping[str, int]]) -> None:
    """Write the ceilings that follow from what was measured, by kind and case: one line for each case."""
    names = next(iter(measured.values()))
    lines = [f"  {json.dumps(MADE_WITH)}: {json.dumps(HERE)}"]
    for name in names:
        row = {kind: ceiling(kind, found[name]) for kind, found in measured.items()}
        lines.append(f"  {json.dumps(name)}: {json.dumps(row)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def ceiling(kind: str, measured: int) -> int:
    """Return the ceiling for a measured count."""
    return math.ceil(measured * ROOM[kind])


def exceeded(kind: str, measured: Mapping[str, int]) -> list[str]:
    """Return in words which cases take more than they may; a case without a ceiling is one of them."""
    _, ceilings = load()
    found = []
    for name, count in measured.items():
        most = ceilings.get(name, {}).get(kind, 0)
        if count > most:
            found.append(f"{name}: {count:,} {kind}, the ceiling is {most:,}")
    return found
