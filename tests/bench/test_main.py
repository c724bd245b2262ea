"""The command."""

from pathlib import Path

import pytest

from bench.__main__ import main
from bench.build import maybe_compiler


@pytest.mark.skipif(maybe_compiler() is None, reason="no C compiler")
def test_the_command_writes_its_file(tmp_path: Path) -> None:
    """From build to report, through the relay alone."""
    arguments = ["--variants", "direct,relay", "--shapes", "small-1", "--rounds", "1"]
    short = ["--seconds", "0.05", "--warm", "0.02", "--no-footprint", "--out", str(tmp_path)]
    assert main([*arguments, *short]) == 0
    assert "100 B, 1 connection" in (tmp_path / "RESULTS.md").read_text()
    assert (tmp_path / "results.svg").read_text().startswith("<svg")
