"""A real Kafka whose certificate has expired: no client gets through, and the operator is told why."""

import subprocess
from pathlib import Path
from typing import Final

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import EXPIRED
from tests.support.kafka.load import await_that
from tests.support.kafka.sasl_talk import Talk
from tests.support.kafka.security_setups import Files
from tests.support.processes.sluice_process import COMMAND, SluiceProcess

WHY: Final = "certificate verify failed: certificate has expired"


def sluice(
    cluster: KafkaCluster, files: Files, directory: Path, *, verify: bool = True
) -> SluiceProcess:
    tls = {"ca_file": str(files.ca), "verify": verify}
    return SluiceProcess(cluster.bootstrap_of(EXPIRED), directory, upstream_settings={"tls": tls})


def test_a_broker_with_an_expired_certificate_gets_no_request(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """The client is disconnected; the log and `sluice check --connect` have the words of OpenSSL."""
    with sluice(kafka_secure, security_files, tmp_path) as running, Talk(running.port) as talk:
        assert not talk.metadata()
        await_that(lambda: "reason=broker_tls" in running.said(), "the end of the session")
        assert WHY in running.said()
        told = subprocess.run(
            [COMMAND, "check", "--connect", "--config", running.file],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert told.returncode == 1
    assert WHY in told.stderr


def test_without_verification_an_expired_certificate_is_used(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """`verify: false` asks for that: the certificate was refused for its dates alone."""
    running = sluice(kafka_secure, security_files, tmp_path, verify=False)
    with running, Talk(running.port) as talk:
        assert talk.metadata()
