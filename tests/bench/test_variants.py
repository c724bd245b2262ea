"""A variant and its version."""

from pathlib import Path

from bench.variants import DIRECT, NO_PROXY, first_line


def test_no_proxy_has_no_command() -> None:
    """The load goes to the broker itself."""
    assert NO_PROXY.name == DIRECT
    assert NO_PROXY.command is None


def test_a_version_carries_no_path(tmp_path: Path) -> None:
    """Reports are committed: the program's name is enough."""
    program = tmp_path / "thing"
    program.write_text("#!/bin/sh\necho $0 version 2\n")
    program.chmod(0o755)
    assert first_line([str(program)]) == "thing version 2"


def test_a_version_that_cannot_be_had_is_unknown(tmp_path: Path) -> None:
    """A missing or failing program does not end the benchmark."""
    assert first_line([str(tmp_path / "none")]) == "unknown"
    assert first_line(["false"]) == "unknown"
