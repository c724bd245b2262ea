"""Quotas over the Kafka protocol, from Sluice and from a plain broker."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from policies.quota.sensors import BucketMetrics
from proxy.admin.errors import RefusedError
from proxy.cli.kafka_client import Connection
from proxy.cli.kafka_quotas import KafkaQuotas, QuotaRow
from tests.support.faults.stub_broker import StubBroker
from tests.support.messages import frames as f
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.quota_messages import DESCRIBE
from tests.support.quotas.quota_book import QuotaServer
from wire.client_quotas import DescribedEntity, describe_reply, read_describe
from wire.header import body_at

EVERYONE = QuotaEntity()
ALICE, BOB = QuotaEntity("alice"), QuotaEntity("bob", "report")
RATE, BYTES = "request_rate", "producer_byte_rate"


@contextmanager
def at(server: StubBroker) -> Iterator[KafkaQuotas]:
    with server, Connection(server.server, None, timeout_s=60) as connection:
        yield KafkaQuotas(connection)


def test_quotas_are_listed_with_their_origins() -> None:
    """They are sorted by user, defaults first, client ids of all users last."""
    server = QuotaServer()
    book = server.book.quotas
    book.set(QuotaEntity(None, "report"), RATE, 1.0)
    book.set(QuotaEntity(None, DEFAULT_NAME), RATE, 1.5)
    book.set(BOB, RATE, 2.0)
    book.set(QuotaEntity("bob", DEFAULT_NAME), RATE, 2.5)
    book.set(QuotaEntity(DEFAULT_NAME), BYTES, 3.0)
    book.set(ALICE, RATE, 4.0)
    book.set_override(ALICE, RATE, 5.0)
    book.set(ALICE, BYTES, 6.0)
    with at(server) as remote:
        assert remote.quotas(EVERYONE) == [
            QuotaRow(QuotaEntity(DEFAULT_NAME), BYTES, 3.0, "file"),
            QuotaRow(ALICE, BYTES, 6.0, "file"),
            QuotaRow(ALICE, RATE, 5.0, "override"),
            QuotaRow(QuotaEntity("bob", DEFAULT_NAME), RATE, 2.5, "file"),
            QuotaRow(BOB, RATE, 2.0, "file"),
            QuotaRow(QuotaEntity(None, DEFAULT_NAME), RATE, 1.5, "file"),
            QuotaRow(QuotaEntity(None, "report"), RATE, 1.0, "file"),
        ]
        assert [each.entity for each in remote.quotas(QuotaEntity(DEFAULT_NAME))] == [
            QuotaEntity(DEFAULT_NAME)
        ]
        assert [each.value for each in remote.quotas(QuotaEntity("bob"))] == [2.5, 2.0]
        assert remote.quotas(QuotaEntity("bob"), exactly=True) == []
        assert remote.quotas(QuotaEntity("unknown")) == []


def test_several_changes_are_sent_in_one_request() -> None:
    """A dry run sends them and changes nothing."""
    server = QuotaServer()
    with at(server) as remote:
        remote.alter({BOB: {RATE: 2.5, BYTES: 100.0}})
        remote.alter({BOB: {RATE: None, BYTES: 200.0}}, dry_run=True)
        assert server.book.quotas.overrides == {BOB: {RATE: 2.5, BYTES: 100.0}}
        remote.alter({BOB: {RATE: None, BYTES: 200.0}})
        assert server.book.quotas.overrides == {BOB: {BYTES: 200.0}}
        remote.alter({QuotaEntity(DEFAULT_NAME, DEFAULT_NAME): {RATE: 1.0}})
        assert QuotaEntity(DEFAULT_NAME, DEFAULT_NAME) in server.book.quotas.overrides


def test_a_refusal_has_the_servers_message() -> None:
    """This holds for an alteration and for a description."""
    with at(QuotaServer(admins=["operator"])) as remote:
        with pytest.raises(RefusedError, match="root may not alter quotas") as caught:
            remote.alter({ALICE: {RATE: 1.0}})
        assert caught.value.code == 31
    with at(QuotaServer()) as remote, pytest.raises(RefusedError, match="Quota request_rate must"):
        remote.alter({ALICE: {RATE: 0.0}})


def test_usage_has_every_figure_of_every_bucket() -> None:
    """Whole numbers are integers; the busiest bucket comes first."""
    server = QuotaServer()
    server.book.rows = rows = [
        BucketMetrics("alice", "", RATE, 10.0, 12.5, 3.5, 7, 2),
        BucketMetrics("alice", "", BYTES, 1000.0, 10.0, None, None, 0),
        BucketMetrics("", "report", RATE, 10.0, 1.0, None, None, 0),
    ]
    with at(server) as remote:
        assert remote.usage(EVERYONE) == (rows, None)
        assert remote.usage(QuotaEntity(None, "report")) == ([rows[2]], None)


class Broker(StubBroker):
    """A broker with Kafka's entity types only, and a quota by ip."""

    def __init__(self, code: int = 35) -> None:
        super().__init__(self._serve)
        self._code = code

    def _serve(self, request: bytes) -> bytes:
        _, version, ident = struct.unpack_from(">hhi", request, 4)
        api = api_of(DESCRIBE, version)
        asked = read_describe(api, request[body_at(request, 0, len(request), 2) :])
        if any(each.entity_type.startswith("sluice") for each in asked.components):
            body = describe_reply(api, None, self._code, "Custom entity type not supported")
        else:
            quota = DescribedEntity(
                (("user", None), ("client-id", "c")), [("request_percentage", 5.0)]
            )
            by_ip = DescribedEntity((("ip", "1.2.3.4"),), [("connection_creation_rate", 5.0)])
            body = describe_reply(api, [by_ip, quota])
        return f.reply(ident, body, tagged=True)


def test_a_brokers_quotas_are_listed_without_origin() -> None:
    """A broker reports neither an origin nor usage; any error but UNSUPPORTED_VERSION is reported as an error."""
    with at(Broker()) as remote:
        assert remote.quotas(EVERYONE) == [
            QuotaRow(QuotaEntity(DEFAULT_NAME, "c"), "request_percentage", 5.0, None)
        ]
        with pytest.raises(RefusedError, match="is the policy quota in its chain"):
            remote.usage(EVERYONE)

    with at(Broker(31)) as remote:
        for ask in (remote.quotas, remote.usage):
            with pytest.raises(RefusedError, match="Custom entity type"):
                ask(EVERYONE)
