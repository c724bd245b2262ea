"""Records are read as they were written, with every acks and compression, with Sluice and without."""

import pytest

from tests.integration.conftest import Way
from tests.support.kafka.python_clients import ACKS, CLIENTS, COMPRESSIONS

COUNT = 200
PARTITIONS = 3


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("acks", ACKS)
@pytest.mark.parametrize("name", CLIENTS)
def test_records_are_read_as_they_were_written(
    name: str, acks: str, compression: str, way_one: Way
) -> None:
    """Every record arrives once, in its partition, in order, byte for byte."""
    client = CLIENTS[name]
    topic = way_one.topics.make(PARTITIONS)
    values = [b"%d|" % number + b"payload " * 20 for number in range(COUNT)]
    client.write(way_one.bootstrap, topic, values, PARTITIONS, acks, compression)
    found = client.read(way_one.bootstrap, topic, PARTITIONS, COUNT)
    for partition in range(PARTITIONS):
        records = [record for record in found if record.partition == partition]
        assert [record.value for record in records] == values[partition::PARTITIONS]
        assert [record.offset for record in records] == list(range(len(records)))


@pytest.mark.parametrize("name", CLIENTS)
def test_large_records_pass(name: str, way_one: Way) -> None:
    """Records near the clients' largest (1 MB) pass whole both ways."""
    client = CLIENTS[name]
    topic = way_one.topics.make()
    values = [bytes([number]) * 900_000 for number in range(8)]
    client.write(way_one.bootstrap, topic, values, 1, "all", "none")
    assert [
        record.value for record in client.read(way_one.bootstrap, topic, 1, len(values))
    ] == values


def test_one_client_reads_the_other_clients_records(way_one: Way) -> None:
    """A record does not depend on the client library."""
    topic = way_one.topics.make()
    values = [b"%d" % number for number in range(50)]
    CLIENTS["kafka-python"].write(way_one.bootstrap, topic, values, 1, "all", "zstd")
    found = CLIENTS["librdkafka"].read(way_one.bootstrap, topic, 1, len(values))
    assert [record.value for record in found] == values
    assert way_one.topics.contents(topic) == found
