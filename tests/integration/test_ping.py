"""`sluice ping` before a real Kafka: what the test of a release does in a cluster of Kubernetes."""

from pathlib import Path

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.security_setups import ALICE, Files
from tests.support.kafka.topics import Topics
from tests.support.processes.command_line import invoke
from tests.support.processes.sluice_process import SluiceProcess


def test_a_new_topic_is_created_written_to_and_read(
    sluice_three: SluiceProcess, topics_three: Topics
) -> None:
    """Every broker is reached at its port of Sluice; the second time the topic is used as it is."""
    arguments = ("ping", "--bootstrap", sluice_three.bootstrap, "--topic", "ping", "--create")
    first, second = invoke(*arguments), invoke(*arguments)

    assert (first.exit_code, second.exit_code) == (0, 0), first.output + second.output
    for node in (1, 2, 3):
        reachable = f"broker {node} at 127.0.0.1:{sluice_three.node_port(node)}: reachable\n"
        assert reachable in first.stdout
    assert "ping: created\n" in first.stdout
    assert "created" not in second.stdout
    found = topics_three.contents("ping")
    assert [record.value.startswith(b"sluice-ping ") for record in found] == [True, True]


def test_an_absent_topic_is_not_created_by_accident(sluice_three: SluiceProcess) -> None:
    """The error names the topic, and the exit code is 1."""
    result = invoke(
        *("ping", "--bootstrap", sluice_three.bootstrap, "--topic", "absent", "--timeout", "5")
    )

    assert result.exit_code == 1
    assert result.stderr.startswith(f"Cannot write to absent at {sluice_three.bootstrap}: ")


def test_a_client_with_tls_and_a_login_is_served(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """It trusts the listener's certificate alone, as in a release with a certificate of cert-manager."""
    certificate = security_files.server
    listen = {
        "tls": {"cert_file": str(certificate.cert_file), "key_file": str(certificate.key_file)},
        "sasl": {"users_file": str(security_files.users)},
    }
    password = tmp_path / "password"
    password.write_text(f"{ALICE[1]}\n")
    with SluiceProcess(kafka_secure.bootstrap, tmp_path, listen_settings=listen) as sluice:
        result = invoke(
            *("ping", "--bootstrap", sluice.bootstrap, "--topic", "ping", "--create"),
            *("--ca-file", certificate.cert_file),
            *("--login", ALICE[0], "--password-file", password),
        )

    assert result.exit_code == 0, result.output
    assert ": reachable\n" in result.stdout
    assert "a record was written to partition 0" in result.stdout
