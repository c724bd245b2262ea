"""`sluice access test`: cases of what clients may and may not do, for CI.

    - {user: svc-billing, api: Produce, topic: billing.new, expect: allowed}
    - {user: svc-billing, api: EndTxn, transaction: orders-1, expect: refused, rule: none}
    - {user: enricher, proof: tls, api: Fetch, topic: orders, expect: allowed, rule: 0}

Rules:
- A case is allowed if nothing of its request is refused. `rule` is the place of the rule that decides, from 0.
- All cases are run, and every failed one is named with its line.
- A rule that decides no case is named in a hint: nothing would fail if it were wrong.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import click
import msgspec

from policies.escaping import escaped
from policies.validation import Problem, SettingsError, try_convert, with_origin
from proxy.cli.access_rules import Who, with_rules
from proxy.cli.access_verdict import Named, find_api
from proxy.cli.errors import FAILED
from proxy.cli.settings import print_problems
from proxy.config.small_files import read_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from proxy.cli.access_rules import AccessRules
    from proxy.cli.access_verdict import Verdict


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A client, its request, and what is expected."""

    user: str
    api: str
    expect: Literal["allowed", "refused"]
    rule: Annotated[int, msgspec.Meta(ge=0)] | Literal["none"] | None = None
    """The rule that decides, from 0; `none`: no rule fits. Without it any may."""
    client_id: str = ""
    proof: str = ""
    token_groups: tuple[str, ...] = ()
    version: int | None = None
    topic: str = ""
    group: str = ""
    transaction: str = ""
    pattern: bool = False
    creates: bool = False

    def __str__(self) -> str:
        """Return the client and the request in a few words."""
        parts = (
            f"{self.user} by {self.proof}" if self.proof else self.user,
            self.api if self.version is None else f"{self.api} v{self.version}",
            f"topic {self.topic}" if self.topic else "",
            f"group {self.group}" if self.group else "",
            f"transaction {self.transaction}" if self.transaction else "",
        )
        return " ".join(filter(None, parts))


class Found(NamedTuple):
    """What came of a case: why it failed (empty: it passed), and the rules that decided."""

    failure: str
    places: frozenset[int] = frozenset()


@click.command("test")
@with_rules
@click.argument("file_of_cases", metavar="FILE", type=click.Path(path_type=Path))
def run_cases(rules: AccessRules, file_of_cases: Path) -> None:
    """Test the rules by the cases in FILE.

    It is a YAML list of clients, requests and expectations. Exit code 1: a case failed, or the file
    cannot be used. Each such case is named with its line.
    """
    try:
        cases, origins = read_cases(file_of_cases)
    except SettingsError as error:
        print_problems(error, "cases")
        sys.exit(FAILED)
    failed = 0
    decided: set[int] = set()
    for place, case in enumerate(cases):
        found = judge(rules, case)
        decided |= found.places
        if found.failure:
            failed += 1
            where = origins.get(f"[{place}]", str(file_of_cases))
            click.echo(escaped(f"{where}: {case}: {found.failure}"))
    untested = [place for place in range(len(rules.grants)) if place not in decided]
    if untested:
        labels = ", ".join(map(rules.label, untested))
        click.echo(escaped(f"hint: no case is decided by {labels}"), err=True)
    click.echo(f"{len(cases)} cases, {failed} failed.")
    if failed:
        sys.exit(FAILED)


def read_cases(file: Path) -> tuple[Sequence[Case], Mapping[str, str]]:
    """Return the cases of a file, and `FILE:LINE` by key path. Raises SettingsError with every problem."""
    data, origins, problems = read_file(file)
    cases: tuple[Case, ...] | None = None
    if not problems:
        cases, problems = try_convert(tuple[Case, ...], data)
    if not problems and not cases:
        problems = [Problem("", "no case", "a list of cases", origin=str(file))]
    if problems or cases is None:
        raise SettingsError(with_origin(each, origins) for each in problems)
    return cases, origins


def judge(rules: AccessRules, case: Case) -> Found:
    """Return what came of a case."""
    try:
        peer = Who(case.user, case.client_id, case.proof, case.token_groups).peer()
        topics, groups, transactions = (
            (name,) if name else () for name in (case.topic, case.group, case.transaction)
        )
        named = Named(topics, groups, transactions, case.pattern, case.creates)
        verdict = rules.verdict(peer, find_api(case.api, case.version), named)
    except ValueError as error:
        return Found(str(error))
    places = frozenset(
        each.reason.place for each in verdict.rights if each.reason.place is not None
    )
    return Found(_failure(rules, case, verdict), places)


def _failure(rules: AccessRules, case: Case, verdict: Verdict) -> str:
    found = "allowed" if verdict.is_allowed else "refused"
    decisive = verdict.decisive
    why = "it needs no right"
    place: int | None = None
    if decisive is not None:
        why = f"{decisive.words}: {rules.words(decisive.reason)}"
        place = decisive.reason.place
    if found != case.expect:
        return f"expected {case.expect}, found {found}: {why}"
    if case.rule is None or case.rule == ("none" if place is None else place):
        return ""
    expected = "no rule" if case.rule == "none" else f"rules[{case.rule}]"
    return f"expected {expected} to decide, found {why}"
