"""`sluice new-policy`: writes an installable package with a policy, tests that pass, and a configuration.

Exit codes: 0 done, 1 the files cannot be written, 2 invalid name.
"""

from __future__ import annotations

import keyword
import re
import shutil
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Final

import click

from proxy.cli.errors import FAILED

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_FILES: Final = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "sluice.yaml": "sluice.yaml",
    "policy.py": "$name.py",
    "test_policy.py": "test_$name.py",
}
"""Template to file."""


@click.command("new-policy")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path(),
    help="Folder in which the package's folder NAME is made.  [default: the current one]",
)
def new_policy(name: str, *, directory: Path) -> None:
    """Write an installable package with the policy NAME.

    The package has a policy to start from, tests that pass, and a configuration that uses it.
    """
    _check_name(name)
    folder = directory / name
    if folder.exists() or folder.is_symlink():
        raise click.BadParameter(f"{folder} exists already", param_hint="NAME")
    try:
        _write(name, folder)
    except OSError as error:
        click.echo(f"error: {folder} cannot be written: {error.strerror}", err=True)
        sys.exit(FAILED)
    click.echo(f"Wrote {folder}. Next:")
    click.echo(f"  cd {folder}\n  pip install --editable .\n  python -m pytest")
    click.echo("  sluice check --config sluice.yaml")


def _check_name(name: str) -> None:
    from policies.discovery import entry_points_by_name  # noqa: PLC0415 - start-up of other commands

    reason = ""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or keyword.issoftkeyword(name):
        reason = "is no module name, expected up to 64 lowercase letters, digits and _"
    elif (point := entry_points_by_name().get(name)) is not None:
        owner = f" by {point.dist.name}" if point.dist is not None else ""
        reason = f"is a policy that is installed{owner}"
    elif find_spec(name) is not None:
        reason = "is a Python module that is installed: the policy would hide it"
    if reason:
        raise click.BadParameter(f"{name!r} {reason}", param_hint="NAME")


def _write(name: str, folder: Path) -> None:
    """Write the files to a folder beside, and move it: an error leaves nothing."""
    words = {
        "name": name,
        "class_name": "".join(part.capitalize() for part in name.split("_")),
        "distribution": f"sluice-{name.strip('_').replace('_', '-')}",
    }
    source = files("proxy.cli") / "policy_template"
    texts = {
        Template(file).substitute(words): Template(
            (source / f"{template}.tmpl").read_text("utf-8")
        ).substitute(words)
        for template, file in _FILES.items()
    }
    making = folder.with_name(f".{name}.new")
    making.mkdir()
    try:
        for file, text in texts.items():
            (making / file).write_text(text, "utf-8")
        making.rename(folder)
    except OSError:
        shutil.rmtree(making, ignore_errors=True)
        raise
