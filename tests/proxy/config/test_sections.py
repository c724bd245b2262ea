"""The sections of the configuration: the values of each setting, and which of them need each other."""

import pytest

from policies.validation import try_convert
from proxy.config import Config
from proxy.config.sections import ListenSettings
from proxy.config.security import ListenTls
from proxy.config.telemetry import (
    MAX_ADMIN_CONNECTIONS,
    AdminSettings,
    MetricsSettings,
    TracesSettings,
    UsageLogSettings,
)

SERVERS = {"bootstrap_servers": ["kafka-1:9092"]}


def problems_of(**sections: object) -> list[str]:
    value, problems = try_convert(Config, {"upstream": SERVERS, **sections})
    assert (value is None) == bool(problems)
    return [str(each) for each in problems]


def test_ports_follow_the_order_of_the_nodes() -> None:
    """A node's port is the bootstrap port + 1 + the node's index in the list."""
    listen = ListenSettings(port=9092, nodes="0-2,10-11")
    assert listen.node_ports() == {0: 9093, 1: 9094, 2: 9095, 10: 9096, 11: 9097}


def test_one_port_serves_all_nodes_if_sni_selects_the_broker() -> None:
    """Clients connect to a host for each node, and only the bootstrap port is bound."""
    tls = ListenTls(cert_file="c", key_file="k", sni_pattern="Broker-$(node).a.com")
    listen = ListenSettings(port=65535, nodes="0-1", advertised_host="a.com", tls=tls)
    assert listen.serves_by_sni
    assert listen.node_ports() == {}
    assert list(listen.client_ports()) == [65535]
    assert listen.node_addresses() == {0: ("broker-0.a.com", 65535), 1: ("broker-1.a.com", 65535)}
    assert listen.advertised_hosts() == {"a.com", "broker-0.a.com", "broker-1.a.com"}
    assert list(listen.mistakes()) == []


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("10.0.0.1", "'10.0.0.1', an address"),
        ("fd00::1", "'fd00::1', an address"),
        ("Broker-1.a.com", "'Broker-1.a.com', the host of node 1"),
    ],
)
def test_the_bootstrap_has_a_name_of_its_own_if_sni_selects_the_broker(
    host: str, found: str
) -> None:
    """A TLS client sends no address as a name, and a node's name would select the node."""
    tls = {"cert_file": "c", "key_file": "k", "sni_pattern": "broker-$(node).a.com"}
    (text,) = problems_of(listen={"advertised_host": host, "nodes": "0-1", "tls": tls})
    assert text.startswith(f"listen.advertised_host: found {found}, expected a host ")
    assert (
        problems_of(listen={"advertised_host": "broker-2.a.com", "nodes": "0-1", "tls": tls}) == []
    )


def test_without_sni_every_node_has_a_port_at_the_advertised_host() -> None:
    """TLS changes nothing about the ports."""
    for tls in (None, ListenTls(cert_file="c", key_file="k")):
        listen = ListenSettings(port=9092, nodes="3-4", advertised_host="a.com", tls=tls)
        assert not listen.serves_by_sni
        assert listen.node_addresses() == {3: ("a.com", 9093), 4: ("a.com", 9094)}
        assert list(listen.client_ports()) == [9092, 9093, 9094]


def test_every_nodes_port_must_be_valid() -> None:
    """The last node's port is at most 65535."""
    assert problems_of(listen={"port": 65533, "nodes": "0-1"}) == []
    (text,) = problems_of(listen={"port": 65534, "nodes": "0-1"})
    assert text.startswith("listen.port: found 65534 (the last node would have 65536), expected 1")


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])  # noqa: S104 - the point of the test
def test_a_listener_on_all_addresses_needs_an_advertised_host(address: str) -> None:
    """Clients cannot dial the address that means "all addresses"."""
    for listen in ({"address": address}, {"advertised_host": address}):
        (text,) = problems_of(listen=listen)
        assert text.startswith("listen.advertised_host: found ")
    assert problems_of(listen={"address": address, "advertised_host": "sluice.internal"}) == []


def test_what_is_allowed_at_a_bound() -> None:
    """-1 means no bound, only a produce may have an earlier deadline, and a user is a name without a prefix."""
    assert problems_of(memory={"queued_max_requests": -1, "queued_max_request_bytes": -1}) == []
    early = {"produce_grace_ms": -60_000, "fetch_grace_ms": 0, "max_wait_ms": 1}
    assert problems_of(purgatory=early) == []
    assert problems_of(identity={"user": "billing app"}) == []


def test_the_header_of_load_balancers_is_a_setting_of_the_listener() -> None:
    """Its networks are in `from`; none at all is a mistake, and so is one that is no network."""
    proxy_protocol: dict[str, list[str]] = {"from": ["10.0.0.0/8", "fd00::1"]}
    data = {"upstream": SERVERS, "listen": {"proxy_protocol": proxy_protocol}}
    config, problems = try_convert(Config, data)
    assert problems == []
    assert config is not None
    assert config.listen.proxy_protocol is not None
    assert config.listen.proxy_protocol.networks == ("10.0.0.0/8", "fd00::1")
    assert config.listen.proxy_protocol.__struct_encode_fields__ == ("from",)
    for wrong in ([], ["10.0.0.1/8"], ["balancer"]):
        (text,) = problems_of(listen={"proxy_protocol": {"from": wrong}})
        assert text.startswith("listen.proxy_protocol.from")


TOKENS = {"jwks": "https://idp/keys", "issuer": "https://idp", "audience": ["kafka"]}
UNSIGNED = {"accept_unsigned_tokens": True}
SERVER_FILES = {"cert_file": "tls.crt", "key_file": "tls.key"}


@pytest.mark.parametrize(
    ("section", "settings"),
    [
        ("upstream.tls", {}),
        ("upstream.tls", {"cert_file": "c", "key_file": "k", "server_name": None}),
        ("upstream.sasl", {"mechanism": "PLAIN", "username": "u"}),
        ("upstream.sasl", {"mechanism": "OAUTHBEARER", "token_file": "t"}),
        (
            "upstream.sasl",
            {"mechanism": "OAUTHBEARER", "token_endpoint_url": "https://a/b", "client_id": "c"},
        ),
        ("listen.tls", SERVER_FILES),
        ("listen.tls", {**SERVER_FILES, "client_auth": "requested", "client_ca_file": "ca"}),
        ("listen.sasl", {"users_file": "users", "mechanisms": ["PLAIN", "SCRAM-SHA-512"]}),
        ("listen.sasl", {"mechanisms": ["OAUTHBEARER"], "oauthbearer": TOKENS}),
        ("listen.sasl", {"mechanisms": ["OAUTHBEARER"], "oauthbearer": UNSIGNED}),
    ],
)
def test_a_section_is_off_or_has_what_it_needs(section: str, settings: dict[str, object]) -> None:
    """These are enough; a section that is null is off."""
    top, inner = section.split(".")
    servers = SERVERS if top == "upstream" else {}
    assert problems_of(**{top: {**servers, inner: settings}}) == []


SASL = {"mechanism": "PLAIN", "username": "u"}
CERTIFICATE = {"cert_file": "c", "key_file": "k"}


@pytest.mark.parametrize(
    ("upstream", "has", "forwarded"),
    [
        ({}, False, None),
        ({"tls": {}}, False, None),
        ({"tls": CERTIFICATE}, True, set()),
        ({"sasl": SASL}, True, set()),
        ({"sasl": {**SASL, "forward_credential_apis": ["DescribeAcls"]}}, True, {29}),
        ({"tls": {**CERTIFICATE, "forward_credential_apis": ["AlterConfigs"]}}, True, {33}),
    ],
)
def test_credentials_of_sluice_and_the_apis_that_may_use_them(
    upstream: dict[str, object],
    has: bool,  # noqa: FBT001 - a parameter
    forwarded: set[int] | None,
) -> None:
    """A login or a certificate; the section that has the credentials names the APIs."""
    config, problems = try_convert(Config, {"upstream": {**SERVERS, **upstream}})
    assert problems == []
    assert config is not None
    assert config.upstream.has_credentials is has
    assert config.upstream.forwarded_credential_apis() == forwarded


def test_no_api_of_brokers_passes_unread_by_the_credentials_of_sluice() -> None:
    """A client could speak as a broker. Without such credentials the broker judges the client itself."""
    assert problems_of(pass_unknown_apis=["Envelope", 1234]) == []
    (found,) = problems_of(upstream={**SERVERS, "sasl": SASL}, pass_unknown_apis=[1234, "Envelope"])
    assert found == (
        "pass_unknown_apis[1]: found 'Envelope', which only brokers use (Envelope), expected no such API, because "
        "Sluice brings its own credentials"
    )


def test_no_api_passes_unread_beside_access() -> None:
    """Nobody would judge it. Where `access` only observes nothing is refused, this neither."""
    rules = {"rules": [{"who": ["bob"], "topics": {"t": ["read"]}}]}
    entry = {"use": "access", "config": rules}
    (found,) = problems_of(policies=[entry], pass_unknown_apis=[1234])
    assert found == (
        "pass_unknown_apis[0]: found 1234, expected no such API beside the policy access, which refuses what it does "
        "not know"
    )
    assert problems_of(policies=[entry | {"mode": "observe"}], pass_unknown_apis=[1234]) == []
    assert problems_of(policies=[entry]) == []


def test_by_default_nothing_is_exported_or_written() -> None:
    """No port is opened and no disk is filled. The admin socket is in a private folder of the user."""
    admin, traces, usage_log = AdminSettings(), TracesSettings(), UsageLogSettings()
    assert (admin.listen, admin.socket, admin.control) == ("", "auto", "")
    assert not admin.is_served
    assert (traces.file, traces.sample_every_requests) == ("", 0)
    assert (usage_log.directory, usage_log.topic) == ("", "")
    assert not MetricsSettings().otlp


@pytest.mark.parametrize(
    "admin",
    [
        {"listen": "0.0.0.0:9644", "socket": "/" + "a" * 106},
        {"listen": "[::]:9644", "control": "[::1]:9645", "token_file": "t"},
        {
            "trace_url": "https://traces/{trace_id}",
            "token_file": "t",
            "allowed_hosts": ["sluice.example"],
        },
    ],
)
def test_a_consistent_admin_server_is_accepted(admin: dict) -> None:
    """Each of its three listeners may be used alone, or none."""
    assert problems_of(admin=admin) == []


def test_each_listener_of_the_admin_server_needs_descriptors() -> None:
    """A server without listeners needs none."""
    assert AdminSettings(socket="none").max_connections() == 0
    assert AdminSettings().max_connections() == MAX_ADMIN_CONNECTIONS
    assert AdminSettings(listen="h:1", socket="/s").max_connections() == 2 * MAX_ADMIN_CONNECTIONS


@pytest.mark.parametrize(
    ("text", "path", "is_auto"),
    [("auto", "", True), ("none", "", False), ("", "", False), ("/run/s", "/run/s", False)],
)
def test_the_admin_socket_is_the_default_one_a_path_or_none(
    text: str,
    path: str,
    is_auto: bool,  # noqa: FBT001 - pytest gives it by name
) -> None:
    """The setting is one of two words or a path."""
    admin = AdminSettings(socket=text)
    assert (admin.socket_path, admin.is_auto) == (path, is_auto)
