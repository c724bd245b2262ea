"""How quotas look: columns that can be cut, JSON that can be read, a table that fits its terminal."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from policies.quota.entity import ANY, QuotaEntity
from policies.quota.sensors import Usage
from proxy.quotas.remote import Quota
from proxy.quotas.show import (
    QUOTA_COLUMNS,
    USAGE_COLUMNS,
    lines,
    number,
    quota_cells,
    quotas_json,
    usage_cells,
    usage_json,
    usage_table,
)

QUOTAS = [
    Quota(QuotaEntity("alice", None), "request_rate", 20.0, "override"),
    Quota(QuotaEntity(None, ANY), "producer_byte_rate", 1048576.0, "file"),
    Quota(QuotaEntity("bob", "x"), "request_percentage", 0.5, None),
]
ROWS = [
    Usage("alice", "", "request_rate", 20.0, 19.96, 12.4, 50, 3),
    Usage("", "report", "request_rate", 10.0, 0.0, None, None, 0),
]


@pytest.mark.parametrize(
    ("value", "text"),
    [(20.0, "20"), (0.5, "0.5"), (1048576.0, "1048576"), (12.34, "12.34"), (1e-9, "1e-09"),
     (0.0, "0"), (2.0**60, "1152921504606846976")],
)  # fmt: skip
def test_numbers_as_they_are_typed(value: float, text: str) -> None:
    """No exponent, no `.0`; what is too small for that keeps its exponent."""
    assert number(value) == text


def test_a_list_of_quotas() -> None:
    """Under their names, figures to the right, nothing behind the last column."""
    assert lines(QUOTA_COLUMNS, list(map(quota_cells, QUOTAS))) == (
        "user   client id  quota               per second  from\n"
        "alice  -          request_rate                20  live\n"
        "-      <default>  producer_byte_rate     1048576  config file\n"
        "bob    x          request_percentage         0.5  -"
    )


def test_a_list_of_usage() -> None:
    """How much of the limit, and dashes for what there is not."""
    assert [usage_cells(row) for row in ROWS] == [
        ("alice", "-", "request_rate", "20", "20", "100%", "12", "50", "3"),
        ("-", "report", "request_rate", "10", "0", "0%", "-", "-", "-"),
    ]
    assert len(USAGE_COLUMNS) == len(usage_cells(ROWS[0]))


def test_json_says_it_in_full() -> None:
    """Null where an entity has no such part, or there is no such figure."""
    assert json.loads(quotas_json(QUOTAS))[1] == {
        "user": None,
        "client_id": ANY,
        "quota": "producer_byte_rate",
        "value": 1048576.0,
        "from": "file",
    }
    assert json.loads(usage_json(ROWS))[1] == {
        "user": None,
        "client_id": "report",
        "quota": "request_rate",
        "limit": 10.0,
        "rate": 0.0,
        "throttle_avg_ms": None,
        "throttle_max_ms": None,
        "waiting": 0,
    }


def test_a_table_that_fits() -> None:
    """What has no room is counted; names are shown as they are, never read as markup."""
    rows = [Usage("[red]x[/red]", "", "request_rate", 1.0, 2.0, None, None, 0), *ROWS]
    console = Console(file=io.StringIO(), width=120, force_terminal=False)
    console.print(usage_table(rows, "12:00:00", 2))
    shown = console.file.getvalue()
    assert "12:00:00" in shown
    assert "[red]x[/red]" in shown
    assert "alice" in shown
    assert "report" not in shown
    assert "and 1 more" in shown
