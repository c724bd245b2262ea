"""Reading the configuration's file."""

from pathlib import Path

from proxy.config.file import read_file


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    """A missing file and a folder are reported, not raised."""
    for place in (tmp_path / "none.yaml", tmp_path):
        _, _, (problem,) = read_file(place)
        assert problem.origin == str(place)
        assert problem.found.startswith("the file cannot be read: ")


def test_a_file_that_is_too_large_is_not_read_to_its_end(tmp_path: Path) -> None:
    """A file of that size is not a configuration."""
    file = tmp_path / "s.yaml"
    with file.open("wb") as opened:
        opened.truncate(1 << 34)
    _, _, (problem,) = read_file(file)
    assert "expected at most 16777216 bytes" in str(problem)
