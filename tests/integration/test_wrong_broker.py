"""Sluice restarts where SASL passes through: no Produce reaches a broker that does not lead its partition."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_sasl import LISTENER, MODULES, PLAIN
from tests.support.kafka.load import await_that
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import PRODUCER, config_file, events
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.quotas.quota_setup import quota_users

pytestmark = pytest.mark.slow

PARTITIONS = 6
RESTARTS = 4


def without_retries() -> dict[str, str]:
    """Return the settings of a Java producer that sends each record once."""
    user, password = next(iter(quota_users().items()))
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": PLAIN,
        "sasl.jaas.config": f'{MODULES[PLAIN]} required username="{user}" password="{password}";',
        "acks": "all",
        "retries": "0",
        "enable.idempotence": "false",
    }


def test_a_producer_without_retries_meets_only_leaders_after_a_restart(
    kafka_three: KafkaCluster, topics_three: Topics, java: Java, tmp_path: Path
) -> None:
    """It comes back to ports of brokers that Sluice does not know yet, and only the client can authenticate."""
    topic = topics_three.make(PARTITIONS)
    said = tmp_path / "producer.out"

    def acked() -> int:
        return said.read_text().count("producer_send_success")

    # One bootstrap broker only, so that a first connection to the port of another node leads to the wrong one.
    bootstrap = kafka_three.brokers[1].address_of(LISTENER)
    with SluiceProcess(bootstrap, tmp_path / "sluice") as sluice:
        producer = java.start_tool(
            PRODUCER,
            *("--bootstrap-server", sluice.bootstrap, "--topic", topic, "--throughput", "500"),
            *("--acks", "-1"),
            *("--command-config", config_file(tmp_path / "producer.properties", without_retries())),
            output=said,
        )
        try:
            await_that(acked, "the first record")
            for _ in range(RESTARTS):
                sluice.stop()
                sluice.start()
                enough = acked() + 1000
                await_that(lambda enough=enough: acked() >= enough, "records after a restart")
            producer.terminate()
            producer.wait(60)
        finally:
            producer.kill()
            producer.wait()
    lost = Counter(each["exception"] for each in events(said.read_text(), "producer_send_error"))
    assert not [each for each in lost if "NotLeader" in each], lost
    assert not lost["class org.apache.kafka.common.errors.UnknownTopicOrPartitionException"], lost
