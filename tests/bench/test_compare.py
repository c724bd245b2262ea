"""The comparison of two revisions: the worktree of the base, the table, and one short run."""

import subprocess
from pathlib import Path

import pytest

from bench.compare import AGAIN, BASE, NOW, checkout, compare_table
from bench.figures import Sample, Samples
from bench.shapes import Shape

SHAPE = Shape("small-1", "100 B, 1 connection", 1)
MAKEFILE = ".venv/.stamp-run:\n\tmkdir -p .venv/bin && cp sluice .venv/bin/sluice && touch $@\n"


def git(repository: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
    return subprocess.run(
        ["git", "-C", str(repository), *identity, *arguments],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose Makefile installs the file `sluice`; its only commit is tagged `old`."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "sluice").write_text("the old one")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "Old")
    git(folder, "tag", "old")
    return folder


def test_a_revision_gets_a_worktree_with_its_own_environment(repository: Path) -> None:
    """Its own Makefile builds it, changes since then are not in it, and it is removed afterwards."""
    (repository / "sluice").write_text("the new one")
    with checkout("old", repository) as folder:
        assert (folder / ".venv" / "bin" / "sluice").read_text() == "the old one"
        assert str(folder) in git(repository, "worktree", "list")
    assert not folder.exists()
    assert str(folder) not in git(repository, "worktree", "list")


def test_ratios_are_taken_inside_each_round_and_cpu_is_the_first_quartile() -> None:
    """A round that is slow for all does not change a ratio; a shape without runs has dashes."""
    cpu = {NOW: (10.0, 40.0, 11.0, 12.0), BASE: (20.0, 80.0, 22.0, 24.0), AGAIN: (20, 80, 22, 24)}
    samples = Samples(
        Sample("small-1", name, nth, 1, 1.0, 1, us, 1.0, 1.0)
        for name, figures in cpu.items()
        for nth, us in enumerate(figures)
    )
    lines = compare_table(samples, [SHAPE, Shape("other", "other", 1)]).splitlines()
    assert lines[2:] == [
        "| 100 B, 1 connection | 10.00 | 20.00 | 0.50 | 1.00 |",
        "| other | - | - | - | - |",
    ]
