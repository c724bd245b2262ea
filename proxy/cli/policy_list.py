"""`sluice policies`: the policies that a configuration may use, and the settings of one.

Exit codes: 0 done, 1 a policy cannot be imported, 2 invalid options.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final

import click

from proxy.cli import options, tables
from proxy.cli.errors import FAILED
from proxy.cli.tables import terminal_width
from proxy.telemetry.escaping import escaped

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from policies.setting_docs import SettingDoc

_INDENTS: Final = ("    ", "    ")
COLUMNS: Final = ("policy", "from", "what it does")


@click.command()
@click.argument("use", required=False)
@options.JSON
def policies(use: str | None, *, as_json: bool) -> None:
    """List the installed policies, or the settings of one.

    USE is the name of an installed policy, or the MODULE:CLASS of any.
    """
    from policies.discovery import entry_points_by_name, maybe_point, try_load  # noqa: PLC0415 - others' start-up
    from policies.setting_docs import first_sentence, setting_docs  # noqa: PLC0415 - as above
    from policies.type_names import nearest  # noqa: PLC0415 - as above

    points = entry_points_by_name()
    if use is None:
        rows = []
        for name, point in sorted(points.items()):
            kind = try_load(point)
            about = f"error: {kind}" if isinstance(kind, str) else first_sentence(kind.__doc__)
            rows.append((name, _origin(point), about))
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
        return
    found = maybe_point(use, points)
    if found is None:
        close = nearest(use, points)
        hint = f"; did you mean {close}?" if close else ""
        raise click.BadParameter(f"no policy {use!r} is installed{hint}", param_hint="USE")
    kind = try_load(found)
    if isinstance(kind, str):
        click.echo(f"error: {escaped(kind)}", err=True)
        sys.exit(FAILED)
    settings = setting_docs(kind.Config)
    if as_json:
        click.echo(json.dumps([each._asdict() for each in settings], indent=1))
    else:
        click.echo(f"{first_sentence(kind.__doc__)}.\n")
        click.echo("\n".join(map(_setting_text, settings)) or "It has no settings.")


def _origin(point: EntryPoint) -> str:
    package = point.dist
    return "-" if package is None else f"{package.name} {package.version}"


def _setting_text(setting: SettingDoc) -> str:
    body = f"\n{click.wrap_text(setting.meaning, 100, *_INDENTS)}" if setting.meaning else ""
    return escaped(f"{setting.name}: {setting.expected}; default: {setting.default}") + body
