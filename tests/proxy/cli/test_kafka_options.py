"""The options of a connection over Kafka; their effect is tested in test_kafka_client and test_quotas."""

from io import StringIO
from pathlib import Path

import click
import pytest

from proxy.cli.kafka_client import Login
from proxy.cli.kafka_options import KafkaOptions, Server, login_of, server_of
from proxy.config.security import UpstreamTls
from tests.support.shell.certificates import Authority


def test_without_options_the_default_port_of_this_machine_is_asked_in_plain_text():
    """Nothing says that the listener has TLS."""
    assert server_of(KafkaOptions(), None) == Server("127.0.0.1:19092", None)


@pytest.mark.parametrize(
    ("given", "tls"),
    [
        (KafkaOptions(tls=True), UpstreamTls()),
        (KafkaOptions(ca_file="ca.pem"), UpstreamTls(ca_file="ca.pem")),
        (
            KafkaOptions(cert_file="c.pem", key_file="k.pem"),
            UpstreamTls(cert_file="c.pem", key_file="k.pem"),
        ),
    ],
)
def test_each_tls_option_asks_for_tls(given: KafkaOptions, tls: UpstreamTls):
    """A file without --tls says the same."""
    assert server_of(given._replace(bootstrap="kafka:9093"), None) == Server("kafka:9093", tls)


@pytest.mark.parametrize("given", [KafkaOptions(cert_file="c"), KafkaOptions(key_file="k")])
def test_a_certificate_and_its_key_need_each_other(given: KafkaOptions):
    """One file is not enough to show a certificate."""
    with pytest.raises(click.UsageError, match="--cert-file and --key-file need each other"):
        server_of(given, None)


def test_a_configuration_tells_the_address_and_the_certificate_of_its_listener(tmp_path: Path):
    """Its own certificate is trusted, and its advertised host is the name; --ca-file replaces the former."""
    pair = Authority(tmp_path).issue("kafka.example")
    file = tmp_path / "sluice.yaml"
    file.write_text(
        "upstream: {bootstrap_servers: ['kafka:9092']}\n"
        "listen:\n  address: 0.0.0.0\n  port: 20000\n  advertised_host: kafka.example\n"
        f"  tls: {{cert_file: '{pair.cert_file}', key_file: '{pair.key_file}'}}\n",
        encoding="utf-8",
    )
    address, tls = server_of(KafkaOptions(), file)
    assert address == "127.0.0.1:20000"
    assert tls == UpstreamTls(ca_file=str(pair.cert_file), server_name="kafka.example")
    _, tls = server_of(KafkaOptions(ca_file="ca.pem"), file)
    assert tls == UpstreamTls(ca_file="ca.pem", server_name="kafka.example")


def test_a_password_is_read_from_its_file_and_needs_a_login():
    """The line break at its end is no part of it."""
    secret = StringIO("sesame\r\n")
    given = KafkaOptions(login="root", password_file=secret, sasl_mechanism="PLAIN")
    assert login_of(given) == Login("root", "sesame", "PLAIN")
    assert login_of(KafkaOptions()) is None
    with pytest.raises(click.UsageError, match="--password-file needs --login"):
        login_of(KafkaOptions(password_file=secret))
