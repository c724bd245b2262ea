"""An example file, shown whole in a page."""

from __future__ import annotations

from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[2] / "examples"


def example_file(name: str) -> str:
    """Return the file below `examples` as a code block. Raises LookupError when there is none of this name."""
    path = EXAMPLES / name
    if not path.is_file():
        raise LookupError(f"there is no example {name!r}")
    return f"```{path.suffix.removeprefix('.')}\n{path.read_text('utf-8')}```"
