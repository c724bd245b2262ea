"""`sluice` as it is typed."""

from pathlib import Path

from click.testing import CliRunner, Result

from proxy.cli.main import main


def invoke(*arguments: str | Path, **environ: str) -> Result:
    """Run `sluice` with these arguments and environment variables, in this process."""
    return CliRunner().invoke(main, [str(each) for each in arguments], env=environ)


def written(folder: Path, text: str) -> Path:
    """Return a configuration file with this text."""
    file = folder / "s.yaml"
    file.write_text(text, "utf-8")
    return file
