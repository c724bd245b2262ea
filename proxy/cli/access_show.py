"""`sluice access show`: all that a client may do, as a table.

A row has the operations that all names of its pattern have in common. Where a longer pattern says more or less, it has
a row of its own.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from policies.access.explain import IDEMPOTENT_WRITE, reason_of, shares_of
from policies.escaping import escaped
from proxy.cli import options, tables
from proxy.cli.access_rules import with_client, with_rules
from proxy.cli.access_verdict import WORDS
from wire.authorization import ACTS, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.requests import Peer
    from proxy.cli.access_rules import AccessRules

COLUMNS: Final = ("kind", "name", "may", "rules")
NOTHING: Final = "nothing"


class Row(NamedTuple):
    """What a client may do with the names of a pattern, or an act on the cluster."""

    kind: str
    name: str
    may: tuple[str, ...]
    rules: tuple[int, ...]


@click.command()
@with_rules
@with_client
@options.JSON
def show(rules: AccessRules, peer: Peer, *, as_json: bool) -> None:
    """Show all that a client may do."""
    rows = list(_rows(rules, peer))
    if as_json:
        click.echo(json.dumps([row._asdict() for row in rows], indent=1))
        return
    if not rows:
        click.echo(escaped(f"No rule is about {peer.user}: it may do nothing."))
        return
    texts = [
        (row.kind, row.name, ", ".join(row.may) or NOTHING, ", ".join(map(str, row.rules)))
        for row in rows
    ]
    cells = [tuple(map(escaped, each)) for each in texts]
    click.echo(tables.format_table(COLUMNS, cells, tables.terminal_width()))


def _rows(rules: AccessRules, peer: Peer) -> Iterator[Row]:
    about = rules.about(peer)
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        for share in shares_of(about, kind):
            yield Row(WORDS[kind], share.pattern, operations_of(share.mask), share.places)
    for act in ACTS:
        named = tuple(rule.place for rule in about if act in rule.grant.acts)
        reason = reason_of(about, ResourceType.CLUSTER, act, Operation.IDEMPOTENT_WRITE)
        if named or (act == IDEMPOTENT_WRITE and reason.is_allowed):
            places = named or tuple(each for each in (reason.place,) if each is not None)
            yield Row(WORDS[ResourceType.CLUSTER], act, ("yes",) * reason.is_allowed, places)


def operations_of(mask: int) -> tuple[str, ...]:
    """Return the operations of a mask as rules call them."""
    return tuple(each.name.lower().replace("_", "-") for each in Operation if mask & 1 << each)
