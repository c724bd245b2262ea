"""`sluice access suggest`: rules that would have allowed what clients did, made from the usage log.

The policy observes (`mode: observe`), and the family `access` of the usage log has each right that its rules do not
give. What is printed stands beside the rules that there are. It is a proposal: read it before it is used.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from policies.escaping import escaped
from proxy.cli.access_rules import with_rules
from proxy.cli.errors import FAILED

if TYPE_CHECKING:
    from proxy.cli.access_rules import AccessRules


@click.command()
@with_rules
@click.option(
    "--usage-log",
    "directory",
    metavar="FOLDER",
    type=click.Path(path_type=Path),
    help="Folder of the usage log.  [default: that of the configuration]",
)
@click.option("--exact", is_flag=True, help="Join no names to patterns.")
def suggest(rules: AccessRules, *, directory: Path | None, exact: bool) -> None:
    """Make rules of what clients were seen to need.

    It reads the family `access` of the usage log. Standard error has what needs care: acts on the
    cluster, names that became a pattern, what no rule says, and lost rows.
    """
    from proxy.cli.rights_seen import FAMILY, read_rights  # noqa: PLC0415 - start-up of other commands
    from proxy.cli.rules_text import rules_text  # noqa: PLC0415 - as above
    from proxy.cli.suggested_rules import suggest_rules  # noqa: PLC0415 - as above

    folder = directory or (Path(rules.usage_log) if rules.usage_log else None)
    if folder is None:
        raise click.UsageError("expected a usage log: usage_log.directory, or --usage-log.")
    try:
        seen = read_rights(folder, rules.name)
        found = suggest_rules(seen.rights, rules, merges=not exact)
    except (OSError, ValueError) as error:
        click.echo(escaped(str(error)), err=True)
        sys.exit(FAILED)
    if not seen.files:
        words = f"the families of its usage log need {FAMILY}, and mode: observe"
        click.echo(escaped(f"{folder} has no rows of the family {FAMILY}: {words}."), err=True)
        sys.exit(FAILED)
    for note in filter(None, found.notes):
        click.echo(escaped(note), err=True)
    if seen.missing_rows:
        click.echo(f"{seen.missing_rows} rows were lost: rights may be missing.", err=True)
    if not found.rules:
        click.echo("The rules give all that was seen.")
        return
    click.echo(rules_text(found.rules, f"{len(seen.rights)} rights that were seen, for review."))
