"""TLS on both sides before a real Kafka: what a client writes is what it reads."""

from pathlib import Path
from random import Random

from kafka import KafkaConsumer, KafkaProducer

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import SSL
from tests.support.kafka.security_setups import Files
from tests.support.kafka.topics import Topics
from tests.support.processes.sluice_process import SluiceProcess

RECORDS = 200


def test_kafka_python_writes_and_reads_through_tls_on_both_sides(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
):
    """Records of up to 200 KB arrive as they were sent; Sluice verifies the broker and the client Sluice."""
    own = security_files.server
    sluice = SluiceProcess(kafka_secure.bootstrap_of(SSL), tmp_path)
    sluice.upstream_settings = {"tls": {"ca_file": str(security_files.ca)}}
    sluice.settings["listen"] = {
        "address": sluice.address,
        "port": sluice.port,
        "nodes": "0-7",
        "tls": {"cert_file": str(own.cert_file), "key_file": str(own.key_file)},
    }
    random = Random(1)
    values = [random.randbytes(random.choice((10, 5000, 200_000))) for _ in range(RECORDS)]
    client = {
        "bootstrap_servers": sluice.bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": str(security_files.ca),
    }
    topic = Topics(kafka_secure.bootstrap, 1).make()
    with sluice:
        producer = KafkaProducer(**client)
        sent = [producer.send(topic, value) for value in values]
        producer.flush(60)
        assert all(each.succeeded() for each in sent)
        producer.close()
        consumer = KafkaConsumer(
            topic, **client, auto_offset_reset="earliest", consumer_timeout_ms=10_000
        )
        read = [next(consumer).value for _ in values]
        consumer.close()
    assert sorted(read) == sorted(values)
