"""The page of all modules, from the first sentence of each docstring."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("wire", "policies", "proxy", "pipeline")


def first_sentence(path: Path) -> str:
    """Return the first sentence of the file's docstring on one line; empty without one."""
    words = " ".join(
        (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split("\n\n")[0].split()
    )
    return re.split(r"(?<=[.?!]) (?=[A-Z`])", words)[0]


def module_list() -> str:
    """Return a heading, a sentence and a table for each package of the rooms."""
    parts = []
    for room in ROOMS:
        for package in sorted((ROOT / room).rglob("__init__.py")):
            folder = package.parent
            parts.append(
                f"## {'.'.join(folder.relative_to(ROOT).parts)}\n\n{first_sentence(package)}\n"
            )
            modules = [path for path in sorted(folder.glob("*.py")) if path != package]
            if modules:
                rows = (
                    f"| `{path.stem}` | {first_sentence(path).replace('|', '&#124;')} |"
                    for path in modules
                )
                parts.append("\n".join(["| module | what it is |", "|---|---|", *rows, ""]))
    return "\n".join(parts)
