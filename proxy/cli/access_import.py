"""`sluice access import`: rules that give the rights of Kafka's ACLs.

The ACLs are those of a file (the output of `kafka-acls --list`), or of a cluster. What rules cannot say is named on
standard error, and then nothing is printed, unless --partial is given.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, TextIO

import click

from policies.escaping import escaped
from proxy.cli import options
from proxy.cli.errors import FAILED, exits_on_failure
from proxy.cli.kafka_options import OPTIONS, KafkaOptions, login_of, server_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.cli.acl_rules import Unsaid
    from proxy.cli.kafka_acls import Acl

MORE: Final = "; WITHOUT IT THE RULES GIVE MORE"


def _with_server(command: Callable[..., None]) -> Callable[..., None]:
    def given(**others: object) -> None:
        kafka = KafkaOptions(**{name: others.pop(name) for name in KafkaOptions._fields})  # type: ignore[arg-type] # click has checked them
        command(kafka=kafka, **others)

    given.__doc__ = command.__doc__
    return options.add_options(given, *OPTIONS)


@click.command("import")
@click.option(
    "--from-acls",
    "listing",
    metavar="FILE",
    type=click.File(encoding="utf-8"),
    help="The output of `kafka-acls --list`; - for standard input.",
)
@click.option("--partial", is_flag=True, help="Print rules although some ACLs cannot be said.")
@_with_server
def import_acls(kafka: KafkaOptions, *, listing: TextIO | None, partial: bool) -> None:
    """Make rules of Kafka's ACLs.

    They are those of a file, or of the cluster at --bootstrap. Exit code 1: some ACLs cannot be said
    exactly; each is named. With --partial rules are printed all the same: they give less than the
    ACLs, unless the line says otherwise.
    """
    from proxy.cli.acl_rules import translate  # noqa: PLC0415 - start-up of other commands
    from proxy.cli.rules_text import rules_text  # noqa: PLC0415 - as above

    if listing is not None and kafka.bootstrap is not None:
        raise click.UsageError("--from-acls and --bootstrap exclude each other.")
    acls = _asked(kafka) if listing is None else _read(listing)
    if not acls:
        click.echo("There are no ACLs.", err=True)
        sys.exit(FAILED)
    rules, unsaid = translate(acls)
    _tell(unsaid)
    if unsaid and not partial:
        sys.exit(FAILED)
    if not rules:
        click.echo("No rule is left.", err=True)
        sys.exit(FAILED)
    click.echo(rules_text(rules, f"The rights of {len(acls)} ACLs of Kafka."))


def _read(listing: TextIO) -> Sequence[Acl]:
    from proxy.cli.kafka_acls import MAX_LISTING_BYTES, parse_listing  # noqa: PLC0415 - others' start-up

    try:
        text = listing.read(MAX_LISTING_BYTES + 1)
        if len(text) > MAX_LISTING_BYTES:
            raise ValueError(f"found more than {MAX_LISTING_BYTES} characters")  # noqa: TRY301 - shown below
        return tuple(parse_listing(text))
    except ValueError as error:  # a UnicodeDecodeError, too
        click.echo(escaped(f"{listing.name}: {error}"), err=True)
        sys.exit(FAILED)


def _asked(kafka: KafkaOptions) -> Sequence[Acl]:
    from proxy.cli.kafka_acls import described  # noqa: PLC0415 - others' start-up
    from proxy.cli.kafka_client import Connection  # noqa: PLC0415 - as above

    server, login = server_of(kafka, None), login_of(kafka)
    with exits_on_failure(), Connection(server.address, login, server.tls) as connection:
        return described(connection)


def _tell(unsaid: Sequence[Unsaid]) -> None:
    for each in unsaid:
        more = MORE if each.gives_more else ""
        click.echo(escaped(f"cannot be said: {each.acl}: {each.why}{more}"), err=True)
