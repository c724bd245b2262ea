"""The output of quotas: columns for a pipe, JSON for a program, a table that fits its terminal."""

import json

import pytest

from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from policies.quota.sensors import BucketMetrics
from proxy.cli import tables
from proxy.cli.kafka_quotas import QuotaRow
from proxy.cli.quota_views import (
    QUOTA_COLUMNS,
    USAGE_COLUMNS,
    number,
    quota_cells,
    quotas_json,
    usage_cells,
    usage_json,
)

QUOTAS = [
    QuotaRow(QuotaEntity("alice", None), "request_rate", 20.0, "override"),
    QuotaRow(QuotaEntity(None, DEFAULT_NAME), "producer_byte_rate", 1048576.0, "file"),
    QuotaRow(QuotaEntity("bob", "x"), "request_percentage", 0.5, None),
]
ROWS = [
    BucketMetrics("alice", "", "request_rate", 20.0, 19.96, 12.4, 50, 3),
    BucketMetrics("", "report", "request_rate", 10.0, 0.0, None, None, 0),
]


@pytest.mark.parametrize(
    ("value", "text"),
    [(20.0, "20"), (0.5, "0.5"), (1048576.0, "1048576"), (12.34, "12.34"), (1e-9, "1e-09"),
     (0.0, "0"), (2.0**60, "1152921504606846976")],
)  # fmt: skip
def test_numbers_are_printed_as_they_are_typed(value: float, text: str) -> None:
    """They have no exponent and no `.0`; a very small number keeps its exponent."""
    assert number(value) == text


def test_quotas_are_printed_in_columns() -> None:
    """The head names the columns, figures are aligned to the right, and no line ends in a blank."""
    assert tables.format_table(QUOTA_COLUMNS, list(map(quota_cells, QUOTAS))) == (
        "user   client id  quota               per second  from\n"
        "alice  -          request_rate                20  live\n"
        "-      <default>  producer_byte_rate     1048576  config file\n"
        "bob    x          request_percentage         0.5  -"
    )


def test_usage_is_printed_with_the_share_of_the_limit() -> None:
    """A missing figure is a dash."""
    assert [usage_cells(row) for row in ROWS] == [
        ("alice", "-", "request_rate", "20", "20", "100%", "12", "50", "3"),
        ("-", "report", "request_rate", "10", "0", "0%", "-", "-", "-"),
    ]
    assert len(USAGE_COLUMNS) == len(usage_cells(ROWS[0]))


def test_json_has_every_field() -> None:
    """A missing part of an entity and a missing figure are null."""
    assert json.loads(quotas_json(QUOTAS))[1] == {
        "user": None,
        "client_id": DEFAULT_NAME,
        "quota": "producer_byte_rate",
        "per_second": 1048576.0,
        "origin": "file",
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


NASTY = "a\x1b[2J\u202eb\n"


@pytest.mark.parametrize("width", [40, 80, 160])
def test_long_names_are_cut_and_leave_the_figures_complete(width: int) -> None:
    """Names are cut in the middle; control characters are escaped."""
    long = "client-" + "x" * 241 + "7"
    usage = [
        BucketMetrics(NASTY, long, "producer_byte_rate", 1048576.0, 1048000.5, 12.4, 50, 3),
        *ROWS,
    ]
    quotas = [QuotaRow(QuotaEntity(NASTY, long), "producer_byte_rate", 1048576.0, "file"), *QUOTAS]
    for text, figures in (
        (
            tables.format_table(USAGE_COLUMNS, list(map(usage_cells, usage)), width),
            ["1048576", "1048000.5"],
        ),
        (
            tables.format_table(QUOTA_COLUMNS, list(map(quota_cells, quotas)), width),
            ["1048576", "config file"],
        ),
    ):
        assert max(map(len, text.splitlines())) <= width
        assert all(figure in text for figure in figures)
        assert "…" in text
        assert long not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
    piped = tables.format_table(QUOTA_COLUMNS, list(map(quota_cells, quotas)))
    assert long in piped
    assert len(piped.splitlines()) == len(quotas) + 1
