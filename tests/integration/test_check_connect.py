"""`sluice check --connect` before a real Kafka with TLS and SASL: it reports what Sluice's own connections get."""

from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from proxy.cli.main import main
from proxy.config.upstream import UpstreamSettings
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import MTLS, SASL_SSL, SSL
from tests.support.kafka.kafka_sasl import OAUTH, SCRAM_512
from tests.support.kafka.security_setups import NONE, Files, SetUp


def checked(setup: SetUp, cluster: KafkaCluster, files: Files, directory: Path) -> tuple[int, str]:
    """Return the exit code and the output of the command with these settings."""
    upstream = {
        "bootstrap_servers": cluster.bootstrap_of(setup.upstream).split(","),
        **setup.upstream_settings(files._replace(directory=directory)),
    }
    msgspec.convert(upstream, UpstreamSettings)
    file = directory / "sluice.yaml"
    file.write_text(yaml.safe_dump({"upstream": upstream}), "utf-8")
    result = CliRunner().invoke(main, ["check", "--connect", "--config", str(file)])
    return result.exit_code, result.output + (result.stderr if result.stderr_bytes else "")


@pytest.mark.parametrize(
    ("listener", "mechanism", "words"),
    [
        (SASL_SSL, SCRAM_512, "authenticated as sluice by SCRAM-SHA-512"),
        (SASL_SSL, OAUTH, "authenticated as the user of the token by OAUTHBEARER"),
        (SASL_SSL, "", "it requires SASL (PLAIN, SCRAM"),
        (SSL, "", "it names 1 broker"),
        (MTLS, "", "it names 1 broker"),
    ],
)
def test_a_secured_broker_is_described(
    listener: str,
    mechanism: str,
    words: str,
    kafka_secure: KafkaCluster,
    security_files: Files,
    tmp_path: Path,
) -> None:
    """TLS version, the certificate's subject and its end, and the login or the mechanisms on offer."""
    setup = SetUp("plain", NONE, listener, mechanism)
    code, output = checked(setup, kafka_secure, security_files, tmp_path)
    assert code == 0, output
    assert words in output
    assert "TLSv1.3, TLS_" in output
    assert "certificate of CN=broker," in output
    assert "it ends in " in output


def test_a_wrong_password_is_reported_and_not_shown(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """The command fails, as the proxy's connections would."""
    setup = SetUp("plain", NONE, SASL_SSL, SCRAM_512)
    settings = setup.upstream_settings(security_files._replace(directory=tmp_path))
    assert settings
    wrong = tmp_path / "wrong"
    wrong.mkdir()
    code, output = checked(Wrong(*setup), kafka_secure, security_files, wrong)
    assert code != 0
    assert "it does not let Sluice in" in output
    assert "not-the-password" not in output


def test_a_broker_that_demands_a_client_certificate_is_named_as_that(
    kafka_secure: KafkaCluster, security_files: Files, tmp_path: Path
) -> None:
    """Kafka's alert is Java's: a bad certificate, where Sluice has shown none."""
    setup = WithoutCertificate("plain", NONE, MTLS, "")
    code, output = checked(setup, kafka_secure, security_files, tmp_path)
    assert code != 0
    assert "demand" in output
    assert "a client certificate (upstream.tls.cert_file)" in " ".join(output.split())


class WithoutCertificate(SetUp):
    """A set-up without a certificate of Sluice."""

    def upstream_settings(self, files: Files) -> dict[str, object]:
        """Return the settings."""
        return {"tls": {"ca_file": str(files.ca)}}


class Wrong(SetUp):
    """A set-up whose password is wrong."""

    def upstream_settings(self, files: Files) -> dict[str, object]:
        """Return the settings, after the password's file was replaced."""
        found = super().upstream_settings(files)
        (files.directory / "password").write_text("not-the-password\n")
        return found
