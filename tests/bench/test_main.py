"""The command."""

from pathlib import Path

import pytest

from bench.__main__ import _choose, main
from bench.build import maybe_compiler
from bench.harness import BenchError
from bench.variants import DIRECT, Variant

FOUND = [Variant(name, "", None) for name in (DIRECT, "a", "b")]


def test_named_variants_are_chosen_and_missing_ones_reported(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A variant that is not installed is left out with a message."""
    assert [one.name for one in _choose(FOUND, "b,direct,c")] == [DIRECT, "b"]
    assert "left out: c" in capsys.readouterr().out


def test_direct_alone_is_not_a_benchmark() -> None:
    """There must be something in between."""
    with pytest.raises(BenchError, match="no proxy"):
        _choose(FOUND, DIRECT)


def test_a_wrong_shape_ends_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Exit code 1, the reason on stderr, nothing written."""
    assert main(["--shapes", "nonsense", "--out", str(tmp_path)]) == 1
    assert "unknown shape nonsense" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(maybe_compiler() is None, reason="no C compiler")
def test_the_command_writes_both_files(tmp_path: Path) -> None:
    """From build to report, through the relay alone."""
    arguments = ["--variants", "direct,relay", "--shapes", "small-1", "--rounds", "1"]
    short = ["--seconds", "0.05", "--warm", "0.02", "--no-footprint", "--out", str(tmp_path)]
    assert main([*arguments, *short]) == 0
    assert "100 B, 1 connection" in (tmp_path / "RESULTS.md").read_text()
    assert (tmp_path / "results.svg").read_text().startswith("<svg")
