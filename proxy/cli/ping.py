"""`sluice ping`: whether clients can use Sluice, from where the command runs.

A record is written to a topic and read back, as any client does it, by kafka-python's own clients. They dial the
addresses that the server advertises, so the ports that clients need are tried, not only that of the bootstrap. Every
wait ends at one deadline, and every failure is an UnreachableError.

Exit codes: 0 the record was read back and every broker answered, 1 it was not, 2 invalid options.
"""

from __future__ import annotations

import logging
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

import click

from policies.escaping import escaped
from proxy.admin.errors import UnreachableError
from proxy.cli import kafka_options, options
from proxy.cli.errors import FAILED, exits_on_failure
from proxy.cli.kafka_client import Connection, context_of, scram_name
from proxy.cli.kafka_options import KafkaOptions
from proxy.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.cli.kafka_client import Login
    from proxy.cli.kafka_options import Server


TIMEOUT_S = 60.0

CLIENT_ID: Final = "sluice-ping"
_CREATE_MS: Final = 10_000
_LEAST_S: Final = 0.1


def _with_kafka_options(command: click.decorators.FC) -> click.decorators.FC:
    return options.add_options(command, *kafka_options.OPTIONS)


@click.command()
@_with_kafka_options
@click.option(
    "--topic", metavar="NAME", required=True, help="The topic that the record is written to."
)
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
    from proxy.cli.ping import OutOfTimeError, RoundTrip  # noqa: PLC0415 - start-up of other commands

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


class OutOfTimeError(UnreachableError):
    """The time for everything together is over."""


class AdvertisedBroker(NamedTuple):
    """A broker as the server advertises it."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """Return HOST:PORT, with the brackets of an IPv6 address."""
        return host_port(self.host, self.port)


class EchoedRecord(NamedTuple):
    """The record that was read back, and the time from its send to its receipt."""

    partition: int
    offset: int
    seconds: float


class RoundTrip:
    """The attempts at one server. `timeout_s` is for everything together."""

    def __init__(self, server: Server, login: Login | None, timeout_s: float) -> None:
        self._server = server
        self._login = login
        self._until = time.monotonic() + timeout_s

    def brokers(self) -> list[AdvertisedBroker]:
        """Return the advertised brokers by id. Raises UnreachableError."""
        from kafka.protocol.metadata import MetadataRequest  # type: ignore[import-untyped] # noqa: PLC0415 - half a second

        with self._connect(self._server.address) as connection:
            answer = connection.ask(MetadataRequest(version=1, topics=[]))
        return sorted(
            AdvertisedBroker(each.node_id, each.host, each.port) for each in answer.brokers
        )

    def try_broker(self, broker: AdvertisedBroker) -> None:
        """Connect to the advertised address, authenticate and ask for metadata. Raises UnreachableError."""
        from kafka.protocol.metadata import MetadataRequest  # noqa: PLC0415 - half a second

        with self._connect(broker.address) as connection:
            connection.ask(MetadataRequest(version=1, topics=[]))

    def create(self, topic: str) -> bool:
        """Create the topic with one partition; return False if it exists. Raises UnreachableError."""
        from kafka.admin import KafkaAdminClient  # type: ignore[import-untyped] # noqa: PLC0415 - half a second
        from kafka.errors import TopicAlreadyExistsError  # type: ignore[import-untyped] # noqa: PLC0415 - as above

        with self._words(f"create {topic}"):
            client = KafkaAdminClient(**self.settings())
            try:
                new = {topic: {"num_partitions": 1}}
                client.create_topics(new, timeout_ms=_CREATE_MS, wait_for_metadata=True)
            except TopicAlreadyExistsError:
                return False
            finally:
                client.close()
        return True

    def write_and_read(self, topic: str) -> EchoedRecord:
        """Write a record with acks=all and read it back. Raises UnreachableError."""
        from kafka import KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped] # noqa: PLC0415 - half a second

        value = f"{CLIENT_ID} {uuid4()}".encode()
        settings = self.settings() | {"allow_auto_create_topics": False, "metrics_enabled": False}
        with self._words(f"write to {topic}"):
            producer = KafkaProducer(
                enable_idempotence=False, acks="all", max_block_ms=self._left_ms(), **settings
            )
            try:
                start = time.monotonic()
                written = producer.send(topic, value=value).get(self._left_s())
            finally:
                producer.close(timeout=_LEAST_S)
        with self._words(f"read from {topic}"):
            consumer = KafkaConsumer(enable_auto_commit=False, **settings)
            try:
                place = TopicPartition(topic, written.partition)
                consumer.assign([place])
                consumer.seek(place, written.offset)
                while True:
                    batch = consumer.poll(self._left_ms())
                    for record in batch.get(place, ()):
                        if record.value == value:
                            seconds = time.monotonic() - start
                            return EchoedRecord(written.partition, written.offset, seconds)
            finally:
                consumer.close(autocommit=False)

    def _left_s(self) -> float:
        """Return the seconds that are left. Raises OutOfTimeError."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise OutOfTimeError(f"{self._server.address} did not serve everything in time.")
        return max(left, _LEAST_S)

    def _left_ms(self) -> int:
        return round(self._left_s() * 1000)

    def _connect(self, address: str) -> Connection:
        return Connection(address, self._login, self._server.tls, self._left_s())

    def settings(self) -> dict[str, object]:
        """Return the settings that all of kafka-python's clients take."""
        logging.getLogger("kafka").addHandler(logging.NullHandler())  # the user gets sentences
        tls, login = self._server.tls, self._login
        found: dict[str, object] = {
            "bootstrap_servers": [self._server.address],
            "client_id": CLIENT_ID,
            "bootstrap_timeout_ms": self._left_ms(),
            "security_protocol": ("SASL_" if login else "") + ("SSL" if tls else "PLAINTEXT"),
        }
        if tls is not None:
            found["ssl_context"] = context_of(tls)
        if login is not None:
            found |= {
                "sasl_mechanism": login.mechanism,
                "sasl_plain_username": scram_name(login),
                "sasl_plain_password": login.password,
            }
        return found

    @contextmanager
    def _words(self, what: str) -> Iterator[None]:
        """Raise UnreachableError for every error of kafka-python."""
        from kafka.errors import KafkaError  # noqa: PLC0415 - half a second

        try:
            yield
        except (KafkaError, OSError) as error:
            words = f"Cannot {what} at {self._server.address}: {type(error).__name__}: {error}"
            raise UnreachableError(words) from error
