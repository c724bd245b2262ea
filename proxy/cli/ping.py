"""`sluice ping`: whether clients can use Sluice, from where the command runs.

Exit codes: 0 the record was read back and every broker answered, 1 it was not, 2 invalid options.
"""

from __future__ import annotations

import sys

import click

from proxy.admin.errors import UnreachableError
from proxy.cli import kafka_options, options
from proxy.cli.errors import FAILED, exits_on_failure
from proxy.cli.kafka_options import KafkaOptions
from proxy.telemetry.escaping import escaped

TIMEOUT_S = 60.0


def _with_kafka_options(command: click.decorators.FC) -> click.decorators.FC:
    return options.add_options(command, *kafka_options.OPTIONS)


@click.command()
@_with_kafka_options
@click.option("--topic", required=True, help="The topic that the record is written to.")
@click.option("--create", is_flag=True, help="Create the topic with one partition if it is absent.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=1, max=3600),
    default=TIMEOUT_S,
    show_default=True,
    help="Seconds for everything together.",
)
def ping(*, topic: str, create: bool, timeout_s: float, **kafka: object) -> None:
    """Connect to every broker through Sluice, write a record and read it back.

    It does what any client does: it connects to the addresses that Sluice advertises. Exit code 1: a broker cannot be
    reached, or the record did not arrive.
    """
    from proxy.cli.round_trip import OutOfTimeError, RoundTrip  # noqa: PLC0415 - start-up of other commands

    given = KafkaOptions(**kafka)  # type: ignore[arg-type] # click has checked them
    server, login = kafka_options.server_of(given, None), kafka_options.login_of(given)
    trip = RoundTrip(server, login, timeout_s)
    unreachable = 0
    with exits_on_failure():
        for broker in trip.brokers():
            name = escaped(f"broker {broker.node_id} at {broker.address}")
            try:
                trip.try_broker(broker)
            except OutOfTimeError:
                raise
            except UnreachableError as error:
                unreachable += 1
                click.echo(f"{name}: {escaped(str(error))}", err=True)
            else:
                click.echo(f"{name}: reachable")
        if create and trip.create(topic):
            click.echo(f"{topic}: created")
        found = trip.write_and_read(topic)
    click.echo(
        f"{topic}: a record was written to partition {found.partition} at offset {found.offset} and read back "
        f"after {found.seconds * 1000:.0f} ms"
    )
    if unreachable:
        sys.exit(FAILED)
