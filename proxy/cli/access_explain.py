"""`sluice access explain`: whether a client may do something, by which rule, and what it sees if not."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from policies.access.tokens import TOKEN_APIS
from policies.escaping import escaped
from proxy.cli import options
from proxy.cli.access_rules import SOURCES, with_client, with_rules
from proxy.cli.access_verdict import WORDS, Named, find_api
from proxy.cli.errors import FAILED
from wire.authorization import Scope
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.requests import Peer
    from proxy.cli.access_rules import AccessRules
    from proxy.cli.access_verdict import Judged, Verdict

_INDENT = " " * 9


@click.command()
@with_rules
@with_client
@click.option("--api", metavar="NAME", required=True, help="Kafka's name of the request: Produce.")
@click.option("--version", type=int, help="Its version.  [default: the newest that is offered]")
@click.option("--topic", "topics", metavar="NAME", multiple=True, help="A topic that it names.")
@click.option("--group", "groups", metavar="NAME", multiple=True, help="A group that it names.")
@click.option(
    "--transaction", "transactions", metavar="ID", multiple=True, help="A transactional id."
)
@click.option("--pattern", is_flag=True, help="It selects topics by a regular expression.")
@click.option("--creates", is_flag=True, help="Its topics do not exist, and it would create them.")
@options.JSON
def explain(
    rules: AccessRules,
    peer: Peer,
    *,
    api: str,
    version: int | None,
    as_json: bool,
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    transactions: tuple[str, ...],
    pattern: bool,
    creates: bool,
) -> None:
    """Explain which rule decides about a request.

    Each right that it needs has a line, and what the client sees if it is refused. Exit code 1: the
    request is refused, or a part of it.
    """
    named = Named(topics, groups, transactions, pattern, creates)
    try:
        verdict = rules.verdict(peer, find_api(api, version), named)
    except ValueError as error:
        raise click.UsageError(escaped(str(error))) from None
    if as_json:
        _print_json(rules, verdict)
    else:
        for line in _lines(rules, verdict):
            click.echo(escaped(line))
    for hint in _hints(rules, peer, verdict, named):
        click.echo(escaped(f"hint: {hint}"), err=True)
    if not verdict.is_allowed:
        sys.exit(FAILED)


def _lines(rules: AccessRules, verdict: Verdict) -> Iterator[str]:
    if not verdict.rights:
        yield f"allowed  {verdict.api.name} needs no right; its reply has what the client may see"
    for each in verdict.rights:
        word = "allowed" if each.reason.is_allowed else "refused"
        yield f"{word}  {each.words}: {rules.words(each.reason)}"
        if not each.reason.is_allowed:
            yield f"{_INDENT}the client sees {_seen(each)}"


def _seen(judged: Judged) -> str:

    check = judged.check
    seen = f"{check.code.name} ({int(check.code)})"
    if check.scope == Scope.REQUEST:
        return f"{seen}, for the whole request"
    if check.scope == Scope.ALL_OR_NOTHING:
        code = ErrorCode.OPERATION_NOT_ATTEMPTED
        return f"{seen}, and {code.name} ({int(code)}) for each other {WORDS[check.kind]}"
    return seen


def _hints(rules: AccessRules, peer: Peer, verdict: Verdict, named: Named) -> Iterator[str]:
    """Yield what would be decided otherwise if the user were proved, and that nothing is enforced."""
    if rules.observes:
        yield "mode is observe: refusals are only counted"
    if not verdict.rights and verdict.api.key in TOKEN_APIS:
        yield "tokens of other users need the act tokens"
    if peer.proof or peer.principal_source not in SOURCES.values():
        return
    for proof in ("tls", "sasl", "token"):
        proved = replace(peer, proof=proof, principal_source=SOURCES[proof])
        other = rules.verdict(proved, verdict.api, named)
        if other.is_allowed != verdict.is_allowed:
            word = "allowed" if other.is_allowed else "refused"
            yield f"with --proof {proof} it is {word}"


def _print_json(rules: AccessRules, verdict: Verdict) -> None:

    rights = [
        {
            "operation": each.check.operation.name,
            "kind": WORDS[each.check.kind],
            "name": each.name,
            "allowed": each.reason.is_allowed,
            "rule": each.reason.place,
            "who": each.reason.who,
            "pattern": each.reason.pattern,
            "why": rules.words(each.reason),
            **({} if each.reason.is_allowed else {"error": each.check.code.name}),
        }
        for each in verdict.rights
    ]
    found = {"allowed": verdict.is_allowed, "api": verdict.api.name, "version": verdict.api.version}
    click.echo(json.dumps(found | {"rights": rights}, indent=1))
