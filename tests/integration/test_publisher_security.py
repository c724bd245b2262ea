"""The publisher of the usage log before a real Kafka that demands TLS and SASL: it uses Sluice's own credentials."""

from functools import partial
from pathlib import Path

import msgspec
import pytest

from proxy.config.upstream import UpstreamSettings
from proxy.telemetry.publisher_security import security_settings
from proxy.telemetry.topic_publisher import OwnAddresses, TopicPublisher
from proxy.upstream_credentials import TokenFetch
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import MTLS, SASL_PLAINTEXT, SASL_SSL
from tests.support.kafka.kafka_sasl import OAUTH, PLAIN, SCRAM_256, SCRAM_512
from tests.support.kafka.security_setups import NONE, Files, SetUp
from tests.support.kafka.topics import Topics

pytestmark = pytest.mark.slow
CLOSE_S = 30.0


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        (SASL_SSL, PLAIN),
        (SASL_SSL, SCRAM_512),
        (SASL_SSL, OAUTH),
        (SASL_PLAINTEXT, SCRAM_256),
        (MTLS, ""),
    ],
)
def test_rows_arrive_at_brokers_that_demand_authentication(
    listener: str,
    mechanism: str,
    kafka_secure: KafkaCluster,
    security_files: Files,
    tmp_path: Path,
) -> None:
    """The settings are those of `upstream`, as the proxy itself reads them."""
    setup = SetUp("plain", NONE, listener, mechanism)
    upstream = msgspec.convert(
        {
            "bootstrap_servers": kafka_secure.bootstrap_of(listener).split(","),
            **setup.upstream_settings(security_files._replace(directory=tmp_path)),
        },
        UpstreamSettings,
    )
    topics = Topics(kafka_secure.bootstrap, 1)
    topic = topics.make()
    publisher = TopicPublisher(
        upstream.addresses(),
        topic,
        OwnAddresses(),
        security=partial(security_settings, upstream, TokenFetch(upstream.sasl)),
    )
    publisher.start()
    publisher.publish([(b"key", b"row %d" % number) for number in range(3)])
    assert publisher.close(CLOSE_S)
    assert publisher.lost == 0
    assert [read.value for read in topics.contents(topic)] == [b"row 0", b"row 1", b"row 2"]
