"""`sluice policies`: the policies that a configuration may use, and the settings of one.

Exit codes: 0 done, 1 a policy cannot be imported, 2 invalid options.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

import click

from policies.escaping import escaped
from proxy.cli import options, tables
from proxy.cli.errors import FAILED
from proxy.cli.tables import terminal_width

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from pathlib import Path

    from policies.setting_docs import SettingDoc

_INDENTS: Final = ("    ", "    ")
COLUMNS: Final = ("policy", "from", "what it does")


@click.command()
@click.argument("use", required=False)
@options.config("The YAML file whose policies_path is searched, too.")
@options.JSON
def policies(use: str | None, *, file: Path | None, as_json: bool) -> None:
    """List the installed policies, or the settings of one.

    USE is the name of an installed policy or a file of policies_path, or the MODULE:CLASS of any.
    """
    from policies.discovery import PolicyFinder, entry_points_by_name  # noqa: PLC0415 - others' start-up
    from policies.setting_docs import first_sentence, setting_docs  # noqa: PLC0415 - as above
    from policies.validation import Problem  # noqa: PLC0415 - as above
    from proxy.shell import files  # noqa: PLC0415 - as above

    finder = PolicyFinder(_directories(file), files)
    for problem in finder.problems:
        click.echo(f"error: {escaped(str(problem))}", err=True)
    points = entry_points_by_name()
    if use is None:
        rows = []
        for name in sorted({*points, *finder.files}):
            found = finder.find(name, "")
            about = (
                f"error: {found}"
                if isinstance(found, Problem)
                else first_sentence(found.kind.__doc__)
            )
            origins = [*finder.files.get(name, ())]
            if name in points:
                origins.insert(0, _origin(points[name]))
            rows.append((name, ", ".join(origins), about))
        if as_json:
            click.echo(
                json.dumps(
                    [dict(zip(("policy", "from", "about"), row, strict=True)) for row in rows],
                    indent=1,
                )
            )
        else:
            click.echo(
                tables.format_table(
                    COLUMNS, [tuple(map(escaped, row)) for row in rows], terminal_width()
                )
            )
        sys.exit(FAILED if finder.problems else 0)
    chosen = finder.find(use, "")
    if isinstance(chosen, Problem):
        if not chosen.expected:
            click.echo(f"error: {escaped(str(chosen))}", err=True)
            sys.exit(FAILED)
        hint = f"; did you mean {chosen.nearest}?" if chosen.nearest else ""
        raise click.BadParameter(f"no policy {use!r} is installed{hint}", param_hint="USE")
    kind = chosen.kind
    settings = setting_docs(kind.Config)
    if as_json:
        click.echo(json.dumps([each._asdict() for each in settings], indent=1))
    else:
        click.echo(f"{first_sentence(kind.__doc__) or kind.__name__}.\n")
        click.echo("\n".join(map(_setting_text, settings)) or "It has no settings.")


def _directories(file: Path | None) -> tuple[str, ...]:
    """Return the `policies_path` of a file; the other settings may have mistakes."""
    if file is None:
        return ()
    from policies.validation import try_convert  # noqa: PLC0415 - others' start-up
    from proxy.config.small_files import read_file  # noqa: PLC0415 - as above

    data, _, problems = read_file(file)
    found, _ = try_convert(
        tuple[str, ...], data.get("policies_path", []) if isinstance(data, dict) else []
    )
    if problems or found is None:
        raise click.BadParameter(
            f"{file} has no policies_path that can be read", param_hint="--config"
        )
    return found


def _origin(point: EntryPoint) -> str:
    package = point.dist
    return "-" if package is None else f"{package.name} {package.version}"


def _setting_text(setting: SettingDoc) -> str:
    body = f"\n{click.wrap_text(setting.meaning, 100, *_INDENTS)}" if setting.meaning else ""
    return escaped(f"{setting.name}: {setting.expected}; default: {setting.default}") + body
