"""The publisher's TLS and SASL, with kafka-python's own code at the other end of the settings."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
from kafka.net.sasl import get_sasl_mechanism

from proxy.config.security import UpstreamSasl, UpstreamTls
from proxy.config.upstream import UpstreamSettings
from proxy.telemetry.publisher_security import security_settings
from tests.support.shell.certificates import Authority


def settings(tls: UpstreamTls | None = None, sasl: UpstreamSasl | None = None) -> dict[str, object]:
    upstream = UpstreamSettings(bootstrap_servers=("kafka:9093",), tls=tls, sasl=sasl)
    return security_settings(upstream, lambda: "a.b.c")


def password(directory: Path, text: str = "sesame\n") -> str:
    file = directory / "password"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return str(file)


def test_the_protocol_has_kafkas_name(tmp_path: Path):
    """It follows from the sections that are present."""
    tls = UpstreamTls(ca_file=str(Authority(tmp_path).ca_file))
    sasl = UpstreamSasl(mechanism="PLAIN", username="sluice", password_file=password(tmp_path))
    found = [
        settings(*each)["security_protocol"] for each in ((), (tls,), (None, sasl), (tls, sasl))
    ]
    assert found == ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]


@pytest.mark.parametrize(
    ("mechanism", "user", "sent"),
    [
        ("PLAIN", "a=b,c", b"a=b,c\0a=b,c\0sesame"),
        ("SCRAM-SHA-256", "a=b,c", b"n=a=3Db=2Cc,"),
        ("SCRAM-SHA-512", "sluice", b"n=sluice,"),
    ],
)
def test_a_password_of_the_file_logs_in(mechanism: str, user: str, sent: bytes, tmp_path: Path):
    """SCRAM escapes the user's name; the line break at the end of the file is no part of the password."""
    sasl = UpstreamSasl(mechanism=mechanism, username=user, password_file=password(tmp_path))  # type: ignore[arg-type] # a Literal
    found = settings(sasl=sasl)
    client = get_sasl_mechanism(mechanism)(**found)
    assert sent in client.auth_bytes()


def test_a_token_is_asked_for_when_it_is_needed():
    """kafka-python accepts the provider, which has no extensions."""
    sasl = UpstreamSasl(mechanism="OAUTHBEARER", token_file="a")  # noqa: S106 - a path
    found = settings(sasl=sasl)
    client = get_sasl_mechanism("OAUTHBEARER")(**found)
    assert client.auth_bytes() == b"n,,\x01auth=Bearer a.b.c\x01\x01"


@pytest.mark.parametrize(
    ("server_name", "verify", "is_accepted"),
    [(None, True, False), ("kafka.example", True, True), (None, False, True)],
)
def test_a_broker_has_the_name_of_the_settings(
    server_name: str | None,
    verify: bool,  # noqa: FBT001 - a case of the table
    is_accepted: bool,  # noqa: FBT001 - as above
    tmp_path: Path,
):
    """The handshake of the context itself decides: the broker's certificate is that of kafka.example."""
    authority = Authority(tmp_path)
    own = authority.issue("kafka.example")
    tls = UpstreamTls(ca_file=str(authority.ca_file), server_name=server_name, verify=verify)
    context = settings(tls)["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(own.cert_file, own.key_file)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        thread = threading.Thread(target=_shake, args=(server, theirs))
        thread.start()
        if is_accepted:
            context.wrap_socket(ours, server_hostname="10.0.0.1").close()
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                context.wrap_socket(ours, server_hostname="10.0.0.1")
        ours.close()
        thread.join()


def test_a_file_that_cannot_be_read_is_an_error_of_this_attempt(tmp_path: Path):
    """The publisher logs it and tries again; it does not connect without what the settings ask for."""
    with pytest.raises(OSError, match="No such file"):
        settings(UpstreamTls(ca_file=str(tmp_path / "absent.pem")))
    missing = UpstreamSasl(mechanism="PLAIN", username="a", password_file=str(tmp_path / "absent"))
    with pytest.raises(ValueError, match="absent"):
        settings(sasl=missing)


def _shake(context: ssl.SSLContext, connected: socket.socket) -> None:
    try:
        context.wrap_socket(connected, server_side=True).close()
    except OSError:
        connected.close()
