"""Shared by the benchmarks and the tests: processes, ports, CPU and memory of a process, figures, Markdown, SVG.

It imports nothing else of the project. `bench` and `tests` import it; the product does not.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
"""The checkout."""
FOLDER: Final = ROOT / "bench"
"""The folder of RESULTS.md, unless `--out` names another."""


class BenchError(Exception):
    """A measurement is impossible; the text names the cause."""
