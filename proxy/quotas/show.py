"""How quotas and their use are shown: plain columns, JSON, or a live table.

- Plain output has one line a quota and no colour, so that it can be cut and searched.
- JSON says the same in full: names as they are, null where an entity has no such part.
- A figure that is not there is a dash; the default is called `<default>`, as in the config file.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from policies.quota.sensors import Usage
    from proxy.quotas.remote import Quota

QUOTA_COLUMNS: Final = ("user", "client id", "quota", "per second", "from")
USAGE_COLUMNS: Final = (
    "user", "client id", "quota", "limit/s", "used/s", "used", "throttled ms avg", "max", "waiting",
)  # fmt: skip
ORIGINS: Final = {"file": "config file", "override": "live", None: "-"}
_RIGHT: Final = frozenset({"per second", *USAGE_COLUMNS[3:]})


def quota_cells(quota: Quota) -> tuple[str, ...]:
    """One quota, by `QUOTA_COLUMNS`."""
    entity, key, value, origin = quota
    named = (entity.user or "-", entity.client_id or "-")
    return (*named, key, number(value), ORIGINS.get(origin, str(origin)))


def usage_cells(row: Usage) -> tuple[str, ...]:
    """One bucket's figures, by `USAGE_COLUMNS`."""
    return (
        row.user or "-",
        row.client_id or "-",
        row.key,
        number(row.limit),
        number(round(row.rate, 1)),
        f"{row.rate / row.limit:.0%}",
        "-" if row.throttle_avg_ms is None else f"{row.throttle_avg_ms:.0f}",
        "-" if row.throttle_max_ms is None else str(row.throttle_max_ms),
        str(row.waiting) if row.waiting else "-",
    )


def number(value: float) -> str:
    """As it would be typed: no exponent, no `.0`."""
    text = f"{value:.6f}".rstrip("0").rstrip(".")
    return text if float(text) or not value else repr(value)


def lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text under their names, each as wide as it must be."""
    table = [columns, *rows]
    widths = [max(len(row[place]) for row in table) for place in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if name in _RIGHT else cell.ljust(width)
            for cell, width, name in zip(row, widths, columns, strict=True)
        ).rstrip()
        for row in table
    )


def quotas_json(quotas: Sequence[Quota]) -> str:
    """A JSON list of quotas."""
    return json.dumps(
        [
            {
                "user": each.entity.user,
                "client_id": each.entity.client_id,
                "quota": each.key,
                "value": each.value,
                "from": each.origin,
            }
            for each in quotas
        ],
        indent=1,
    )


def usage_json(rows: Sequence[Usage]) -> str:
    """A JSON list of buckets."""
    return json.dumps(
        [
            {
                "user": each.user or None,
                "client_id": each.client_id or None,
                "quota": each.key,
                **{name: getattr(each, name) for name in each._fields[3:]},
            }
            for each in rows
        ],
        indent=1,
    )


def usage_table(rows: Sequence[Usage], title: str, most: int) -> Table:
    """A live view's picture: at most so many rows."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - only the live view needs rich
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", expand=False)
    for name in USAGE_COLUMNS:
        table.add_column(name, justify="right" if name in _RIGHT else "left", no_wrap=True)
    for row in rows[:most]:
        style = "red" if row.waiting or row.rate > row.limit else ""
        table.add_row(*map(Text, usage_cells(row)), style=style)
    if len(rows) > most:
        table.caption = f"and {len(rows) - most} more"
    return table
