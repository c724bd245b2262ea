"""The usage table: units, and columns that fit the terminal."""

import pytest
from rich.console import Console

from pipeline.cli import usage_table
from pipeline.cli.usage_table import (
    bytes_text,
    count_text,
    duration_text,
    print_usage,
    share_text,
)

ROW = {
    "user": "[red]alice",
    "requests": 1_234_567,
    "request_bytes": 2_500_000,
    "response_bytes": 999,
    "throttled_share": 0.25,
    "delay_s": 90.0,
    "upstream_p50_ms": 0.85,
    "upstream_p99_ms": 1200.0,
    "upstream_time_share": 0.4,
    "throttle_time_share": 0.6,
    "expired": 0,
    "exempt": 3,
}


def test_every_figure_has_its_unit() -> None:
    """Three digits, and all of a small count."""
    assert [count_text(n) for n in (0, 12_345, 1_234_567, 5e13)] == [
        "0",
        "12,345",
        "1.23 M",
        "50 T",
    ]
    assert [bytes_text(n) for n in (0, 999, 1500, 2.5e18)] == ["0 B", "999 B", "1.5 kB", "2,500 PB"]
    durations = [duration_text(ms) for ms in (0.85, 1.25, 90_000, 8.64e9)]
    assert durations == ["850 µs", "1.25 ms", "1.5 min", "100 d"]
    assert [share_text(share) for share in (0, 0.0001, 0.5)] == ["0.0 %", "<0.1 %", "50.0 %"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_table_fits_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    """The last columns are left out, and named; names that look like markup stay as they are."""

    def terminal(_: int) -> Console:
        return Console(width=width, force_terminal=True, color_system=None, markup=False)

    monkeypatch.setattr(usage_table, "console_of", terminal)
    print_usage([ROW], ["user"], has_more=True)
    told = capsys.readouterr().out
    lines = told.splitlines()

    assert max(map(len, lines)) <= width
    assert "[red]alice" in told
    assert "1.23 M" in told
    assert "--top N shows" in told
    assert ("throttle 60%, upstream 40%" in told) == (width > 80)
    assert ("Left out" in told) == (width < 200)
    assert "expired" not in told.replace("Left out", "")


def test_no_rows_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty table would look like an error."""
    print_usage([], ["user"], has_more=False)

    assert capsys.readouterr().out == "no rows in this time\n"
