"""The table of a chart's values in its README, from values.yaml: each key, its default, and the comment before it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import yaml

from helm.values_schema import comments

if TYPE_CHECKING:
    from pathlib import Path

BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"


def readme(chart: Path) -> str:
    """Return the text of the chart's README.md with its table up to date. Raises ValueError without a place for it."""
    before, begin, rest = (chart / "README.md").read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{chart.name}/README.md: no {BEGIN.strip()} or {END.strip()}")
    return f"{before}{BEGIN}\n{table(chart)}\n{END}{after}"


def table(chart: Path) -> str:
    """Return the table: a row for each top-level key, in the order of values.yaml."""
    text = (chart / "values.yaml").read_text("utf-8")
    described = comments(text)
    rows = ["| value | default | what it is |", "|---|---|---|"]
    for key, value in yaml.safe_load(text).items():
        words = " ".join(described[key].split()).replace("|", "\\|")
        rows.append(f"| `{key}` | {_default(value)} | {words} |")
    return "\n".join(rows) + "\n"


def _default(value: object) -> str:
    if isinstance(value, dict) and value:
        return "see values.yaml"
    return f"`{json.dumps(value)}`" if value not in ("", None) else ""
