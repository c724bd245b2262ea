"""The settings of TLS and SASL: which of them need each other."""

import pytest

from policies.validation import try_convert
from proxy.config import Config

SERVERS = {"bootstrap_servers": ["kafka-1:9092"]}
SERVER_FILES = {"cert_file": "tls.crt", "key_file": "tls.key"}


def problems_of(section: str, settings: dict[str, object]) -> list[str]:
    """Return the problems of `upstream.tls` and the like."""
    top, _, inner = section.partition(".")
    data: dict[str, dict[str, object]] = {"upstream": dict(SERVERS)}
    data.setdefault(top, {})[inner] = settings
    value, problems = try_convert(Config, data)
    assert (value is None) == bool(problems)
    return [str(each) for each in problems]


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
    ],
)
def test_a_section_is_off_or_has_what_it_needs(section: str, settings: dict[str, object]) -> None:
    """These are enough; a section that is null is off."""
    assert problems_of(section, settings) == []
