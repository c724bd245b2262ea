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


@pytest.mark.parametrize(
    ("section", "settings", "problem"),
    [
        (
            "upstream.tls",
            {"key_file": "k"},
            "upstream.tls.cert_file: found nothing, expected a file, because key_file is set",
        ),
        (
            "upstream.sasl",
            {"mechanism": "SCRAM-SHA-256"},
            "upstream.sasl.username: found nothing, expected a user, because mechanism is SCRAM-SHA-256",
        ),
        (
            "upstream.sasl",
            {"mechanism": "OAUTHBEARER"},
            "upstream.sasl.token_file: found nothing, expected either token_file or token_endpoint_url",
        ),
        (
            "upstream.sasl",
            {"mechanism": "OAUTHBEARER", "token_endpoint_url": "https://a/b"},
            "upstream.sasl.client_id: found nothing, expected the client id for token_endpoint_url",
        ),
        (
            "upstream.sasl",
            {"mechanism": "PLAIN", "username": "u", "scope": "s"},
            "upstream.sasl.scope: found 's', expected nothing, because mechanism is PLAIN",
        ),
        (
            "upstream.sasl",
            {"mechanism": "OAUTHBEARER", "token_file": "t", "password_file": "p"},
            "upstream.sasl.password_file: found 'p', expected nothing, because mechanism is OAUTHBEARER",
        ),
        (
            "upstream.sasl",
            {"mechanism": "OAUTHBEARER", "token_file": "t", "client_id": "c"},
            "upstream.sasl.client_id: found 'c', expected nothing, because token_endpoint_url is not set",
        ),
        (
            "listen.tls",
            {**SERVER_FILES, "principal": {"rules": ["DEFAULT", "RULE:^CN=(.*$/$1/"]}},
            (
                "listen.tls.principal.rules[1]: principal mapping rule 'RULE:^CN=(.*$/$1/': cannot use"
                " '^CN=(.*$': missing ), unterminated subpattern at position 4"
            ),
        ),
        (
            "listen.tls",
            {**SERVER_FILES, "principal": {"rules": []}},
            (
                "listen.tls.principal.rules: found a list, expected a list that is not empty,"
                " each a text"
            ),
        ),
        (
            "listen.tls",
            {**SERVER_FILES, "principal": {"from": "san"}},
            "listen.tls.principal.from: found 'san', expected one of dns_san, subject, uri_san; did you mean uri_san?",
        ),
        (
            "listen.tls",
            {**SERVER_FILES, "principal": {"kind": "subject"}},
            "listen.tls.principal.kind: found an unknown key, expected a key: from, rules",
        ),
        (
            "listen.sasl",
            {},
            "listen.sasl.users_file: found nothing, expected a text that is not empty",
        ),
    ],
)
def test_what_is_missing_is_named_by_its_path(
    section: str, settings: dict[str, object], problem: str
) -> None:
    """The message says which other setting needs it."""
    assert problems_of(section, settings) == [problem]
