"""`sluice access`: explains, tests and shows the rules of the policy `access`, and makes rules from others' ACLs.

Exit codes: 0 done and allowed; 1 refused, a failed case, settings or files that cannot be used; 2 invalid options.
"""

from __future__ import annotations

import click

from proxy.cli.access_cases import run_cases
from proxy.cli.access_explain import explain
from proxy.cli.access_import import import_acls
from proxy.cli.access_show import show
from proxy.cli.access_suggest import suggest


@click.group()
def access() -> None:
    """Explain, test and make the rules of the policy access.

    They read the configuration and ask no running Sluice.
    """


for each in (explain, run_cases, show, import_acls, suggest):
    access.add_command(each)
