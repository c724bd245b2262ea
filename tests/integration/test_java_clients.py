"""Kafka's own Java clients on three brokers, through Sluice: each record once, and no error."""

import re
import uuid
from collections import Counter
from pathlib import Path

import pytest

from tests.integration.conftest import ONLY_THROUGH_SLUICE, Way
from tests.support.kafka.java import Java
from tests.support.kafka.one_kafka import since
from tests.support.kafka.python_clients import COMPRESSIONS, Librdkafka
from tests.support.kafka.verifiable import (
    CONSUMER,
    PRODUCER,
    SHARE_CONSUMER,
    acked_values,
    config_file,
    consumed_values,
    events,
)

pytestmark = ONLY_THROUGH_SLUICE

PARTITIONS = 6


@pytest.mark.slow
def test_every_acks_and_compression(way_three: Way, java: Java, tmp_path: Path) -> None:
    """VerifiableProducer has every record acknowledged, with any
    acks and compression; VerifiableConsumer reads each once.
    """
    topic = way_three.topics.make(PARTITIONS)
    expected: list[str] = []
    for acks, compression in [
        *(("-1", name) for name in COMPRESSIONS),
        ("0", "none"),
        ("1", "lz4"),
    ]:
        prefix = str(len(expected))  # the tool wants a number
        config = {"compression.type": compression, "retries": "3"}
        said = java.run_tool(
            PRODUCER,
            *("--bootstrap-server", way_three.bootstrap, "--topic", topic, "--max-messages", "300"),
            *("--acks", acks, "--value-prefix", prefix),
            *("--command-config", config_file(tmp_path / "producer.properties", config)),
        )
        values = [f"{prefix}.{number}" for number in range(300)]
        assert sorted(acked_values(said)) == sorted(values), f"acks {acks}, {compression}"
        expected += values
    said = java.run_tool(
        CONSUMER,
        *("--bootstrap-server", way_three.bootstrap, "--topic", topic, "--verbose"),
        *("--group-id", f"g-{uuid.uuid4()}", "--max-messages", str(len(expected))),
    )
    assert Counter(consumed_values(said)) == Counter(expected)


@since(4, 0)
def test_a_kip_848_group_joins_reads_and_commits(way_three: Way, java: Java) -> None:
    """The Java client uses the new group protocol."""
    topic = way_three.topics.make(PARTITIONS)
    values = [b"%d" % number for number in range(600)]
    Librdkafka().write(way_three.bootstrap, topic, values, PARTITIONS, "all", "lz4")
    group = f"g-{uuid.uuid4()}"
    said = java.run_tool(
        CONSUMER,
        *("--bootstrap-server", way_three.bootstrap, "--topic", topic, "--verbose"),
        *("--group-protocol", "consumer", "--group-id", group, "--max-messages", str(len(values))),
    )
    assert sorted(consumed_values(said)) == sorted(value.decode() for value in values)
    described = java.run_tool(
        "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
        *("--bootstrap-server", way_three.bootstrap, "--describe", "--offsets", "--group", group),
    )
    lags = re.findall(rf"{topic}\s+\d+\s+\d+\s+\d+\s+(\d+)", described)
    assert lags == ["0"] * PARTITIONS, described


@since(4, 2)
@pytest.mark.slow
def test_a_share_group_acknowledges_every_record(way_three: Way, java: Java) -> None:
    """ShareFetch and ShareAcknowledge pass."""
    topic = way_three.topics.make(PARTITIONS)
    values = [b"%d" % number for number in range(600)]
    Librdkafka().write(way_three.bootstrap, topic, values, PARTITIONS, "all", "none")
    group = f"s-{uuid.uuid4()}"
    said = java.run_tool(
        SHARE_CONSUMER,
        *("--bootstrap-server", way_three.bootstrap, "--topic", topic, "--verbose"),
        *("--group-id", group, "--max-messages", str(len(values))),
        *("--acknowledgement-mode", "sync", "--offset-reset-strategy", "earliest"),
    )
    acknowledged = sum(
        event["count"] for event in events(said, "offsets_acknowledged") if event["success"]
    )
    assert acknowledged == len(values), said[-2000:]
    assert sorted(consumed_values(said)) == sorted(value.decode() for value in values)
    described = java.run_tool(
        "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
        *("--bootstrap-server", way_three.bootstrap, "--describe", "--group", group),
    )
    assert (
        len(re.findall(rf"^{group}\s+{topic}\s+\d+\s+\d+", described, re.MULTILINE)) == PARTITIONS
    ), described
