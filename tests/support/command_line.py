"""`sluice` as it is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.testing import CliRunner

from proxy.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result


def invoke(*arguments: str | Path, **environ: str) -> Result:
    """Run `sluice` with these arguments and environment variables, in this process."""
    return CliRunner().invoke(main, [str(each) for each in arguments], env=environ)


def written(folder: Path, text: str) -> Path:
    """Return a configuration file with this text."""
    file = folder / "s.yaml"
    file.write_text(text, "utf-8")
    return file
