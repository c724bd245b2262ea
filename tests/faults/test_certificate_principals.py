"""Users from alternative names, before a real Sluice: a certificate that gives no user, or two, does not get in."""

import socket
import ssl
from functools import partial

import pytest
from cryptography import x509

from tests.support.kafka.load import await_that
from tests.support.messages.raw import api_versions_request, receive
from tests.support.processes.sluice_process import SluiceProcess
from tests.support.shell.certificates import Authority, Pair

API = x509.UniformResourceIdentifier("spiffe://prod/ns/pay/sa/api")
WEB = x509.UniformResourceIdentifier("spiffe://prod/ns/pay/sa/web")
RULE = r"RULE:^spiffe:\/\/prod\/ns\/([^\/]+)\/sa\/([^\/]+)$/$1.$2/"


@pytest.fixture
def authority(tmp_path) -> Authority:
    return Authority(tmp_path / "authority")


def answered(port: int, authority: Authority, own: Pair) -> bool:
    """Return whether a client with this certificate gets an answer."""
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    context.load_cert_chain(own.cert_file, own.key_file)
    plain = socket.create_connection(("127.0.0.1", port), 20)
    try:
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as client:
            client.sendall(api_versions_request(7))
            return receive(client, 8)[4:] == (7).to_bytes(4, "big")
    except (OSError, AssertionError, EOFError):
        return False


def told(sluice: SluiceProcess, *words: str) -> bool:
    return any(all(word in line for word in words) for line in sluice.said().splitlines())


def test_only_a_certificate_with_one_name_that_a_rule_maps_gets_in(start, broker, authority):
    """The log says what each other lacks."""
    own = authority.issue("127.0.0.1", file_name="own")
    tls = {
        "cert_file": str(own.cert_file),
        "key_file": str(own.key_file),
        "client_ca_file": str(authority.ca_file),
        "client_auth": "required",
        "principal": {"from": "uri_san", "rules": [RULE]},
    }
    sluice = start(broker.server, listen_settings={"tls": tls})
    assert answered(sluice.port, authority, authority.sign("both", API, x509.DNSName("a.test")))
    for name, names, why in (
        ("none", (), "has no URI as an alternative name"),
        ("dns", (x509.DNSName("spiffe.test"),), "has no URI as an alternative name"),
        ("two", (API, WEB), "gives 2 users, expected one"),
        (
            "other",
            (x509.UniformResourceIdentifier("spiffe://test/a"),),
            "no principal mapping rule",
        ),
    ):
        assert not answered(sluice.port, authority, authority.sign(name, *names))
        await_that(partial(told, sluice, f"CN={name}", why), f"{name} is told")
