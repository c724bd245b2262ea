"""Kerberos through Sluice: a Java client authenticates to a real Kafka by GSSAPI, which passes unchanged.

A client asks its realm for a ticket to the host that it dials. That is Sluice's, so the brokers have its principal.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import GSSAPI
from tests.support.kafka.kerberos import CLIENT, SERVICE, Kerberos, kerberos_is_missing
from tests.support.kafka.three_libraries import by_java
from tests.support.kafka.topics import Topics
from tests.support.kafka.verifiable import config_file
from tests.support.plugins.witness import install
from tests.support.processes.sluice_process import SluiceProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(kerberos_is_missing()), reason=kerberos_is_missing()),
]

TOKENS: Final = "org.apache.kafka.tools.DelegationTokenCommand"


def test_a_java_client_authenticates_by_kerberos_through_sluice(
    kafka_secure: KafkaCluster, kerberos: Kerberos, java: Java, tmp_path: Path
) -> None:
    """It writes and reads records; Sluice sees an unknown user, and the broker sees the client's principal."""
    variables, seen = install(tmp_path)
    topic = Topics(kafka_secure.bootstrap, 1).make()
    client = {
        "client.id": "by-kerberos",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": GSSAPI,
        "sasl.kerberos.service.name": SERVICE.partition("/")[0],
        "sasl.jaas.config": kerberos.login(CLIENT),
    }
    properties = config_file(tmp_path / "client.properties", client)
    with_kerberos = replace(java, options=kerberos.java_options)
    upstream = kafka_secure.bootstrap_of(GSSAPI)
    with SluiceProcess(upstream, tmp_path, advertise="localhost", variables=variables) as sluice:
        words = ("--bootstrap-server", sluice.bootstrap, "--command-config", properties)
        with ThreadPoolExecutor(2) as pool:
            moved = pool.submit(by_java, with_kerberos, sluice.bootstrap, topic, properties)
            made = pool.submit(
                with_kerberos.run_tool, TOKENS, *words, "--create", "--max-life-time-period", "-1"
            )
            moved.result()
            told = made.result()
    assert f"User:{CLIENT}" in told
    asked = [each for each in seen.of_client("by-kerberos") if each.api in {"Produce", "Fetch"}]
    assert {each.principal for each in asked} == {("UNKNOWN", "unknown")}
