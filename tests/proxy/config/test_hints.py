"""Settings that are valid and probably not meant are told, and those that are meant are not."""

import pytest

from policies.validation import try_convert
from proxy.config import Config
from proxy.config.hints import hints

REMOTE: dict[str, object] = {"bootstrap_servers": ["localhost:9092", "kafka-1:9092"]}
LOCAL: dict[str, object] = {"bootstrap_servers": ["localhost:9092", "127.0.0.1:9093"]}
PLAIN = {"mechanism": "PLAIN", "username": "u"}
SCRAM = {"mechanism": "SCRAM-SHA-512", "username": "u"}
TOKEN = {"mechanism": "OAUTHBEARER", "token_file": "t"}
OPEN: dict[str, object] = {"address": "0.0.0.0", "advertised_host": "sluice"}  # noqa: S104 - the point of the test
FILES = {"cert_file": "c", "key_file": "k"}
USERS = {"users_file": "users"}


def paths(
    upstream: dict[str, object], listen: dict[str, object] | None = None, user: str = ""
) -> list[str]:
    """Return the key paths that the hints begin with."""
    data = {"upstream": upstream, "listen": listen or {}, "identity": {"user": user}}
    config, problems = try_convert(Config, data)
    assert problems == []
    assert config is not None
    return [each.partition(":")[0] for each in hints(config)]


ASKED = {**FILES, "client_ca_file": "ca"}
BOTH = {**USERS, "mechanisms": ["SCRAM-SHA-512", "PLAIN"]}
CHECK = {"jwks": "keys.json", "issuer": "https://idp", "audience": ["kafka"]}


def bearer(check: dict[str, object]) -> dict[str, object]:
    return {"mechanisms": ["OAUTHBEARER"], "oauthbearer": check}


BEARER, UNSIGNED = bearer({**CHECK}), bearer({"accept_unsigned_tokens": True})
OF_ANYONE = bearer({"jwks": "keys.json", "issuer": "https://idp", "accept_any_audience": True})
BY_HTTP = bearer({**CHECK, "jwks": "http://127.0.0.1/keys"})
TOLD: tuple[tuple[dict[str, object], dict[str, object], str, str], ...] = (
    # The default settings have no hint, and neither have settings of TLS and SASL that protect each other.
    ({}, {}, "", ""),
    ({}, OPEN, "", ""),
    ({"tls": {}, "sasl": PLAIN}, {}, "", ""),
    ({}, {**OPEN, "tls": FILES, "sasl": {**USERS, "mechanisms": ["PLAIN"]}}, "", ""),
    # TLS without verification does not protect from a server in between.
    ({"tls": {"verify": False}}, {}, "", "upstream.tls.verify"),
    # Only PLAIN sends a client's password in clear text, and only a listener for other machines can be overheard.
    ({}, {**OPEN, "sasl": BOTH}, "", "listen.sasl.mechanisms"),
    ({}, {**OPEN, "sasl": USERS}, "", ""),
    ({}, {"sasl": BOTH}, "", ""),
    # A token in clear text can be used by whoever reads it; one without a signature is made by anyone.
    ({}, {**OPEN, "sasl": BEARER}, "", "listen.sasl.mechanisms"),
    ({}, {"sasl": BEARER}, "", ""),
    ({}, {**OPEN, "tls": FILES, "sasl": BEARER}, "", ""),
    ({}, {"sasl": UNSIGNED}, "", "listen.sasl.oauthbearer.accept_unsigned_tokens"),
    ({}, {"sasl": OF_ANYONE}, "", "listen.sasl.oauthbearer.accept_any_audience"),
    ({}, {"sasl": BY_HTTP}, "", "listen.sasl.oauthbearer.jwks"),
    # With load balancers that may be anywhere, every client could write a header.
    ({}, {"proxy_protocol": {"from": ["0.0.0.0/0"]}}, "", "listen.proxy_protocol.from"),
    ({}, {"proxy_protocol": {"from": ["10.0.0.0/8"]}}, "", ""),
    # client_auth decides whether clients show a certificate that the authority could judge.
    ({}, {"tls": ASKED}, "", "listen.tls.client_ca_file"),
    ({}, {"tls": {**ASKED, "client_auth": "requested"}}, "", ""),
    # Where every client authenticates, it has the user of its own credentials, and never the fixed one.
    ({}, {"sasl": USERS}, "billing", "identity.user"),
    ({}, {"sasl": USERS}, "", ""),
    ({}, {"tls": {**ASKED, "client_auth": "required"}}, "billing", "identity.user"),
    ({}, {"tls": {**ASKED, "client_auth": "required"}}, "", ""),
)
"""Settings of the upstream and of the listener, the fixed user, and the key path that a hint begins with."""


@pytest.mark.parametrize(("upstream", "listen", "user", "told"), TOLD)
def test_what_is_probably_not_meant_is_told(
    upstream: dict[str, object], listen: dict[str, object], user: str, told: str
) -> None:
    """And nothing else is; the reasons are beside the rows."""
    assert paths({**REMOTE, **upstream}, listen, user) == ([told] if told else [])


@pytest.mark.parametrize(("sasl", "word"), [(PLAIN, "password"), (TOKEN, "token")])
def test_a_password_in_clear_text_is_told(sasl: dict[str, str], word: str) -> None:
    """A loopback address is safe, and SCRAM sends no password."""
    (text,) = hints(try_convert(Config, {"upstream": {**REMOTE, "sasl": sasl}})[0])  # type: ignore[arg-type] # it is valid
    assert text == f"upstream.sasl: without upstream.tls the {word} travels in clear text"
    assert paths({**LOCAL, "sasl": sasl}) == []
    assert paths({**REMOTE, "sasl": SCRAM}) == []


@pytest.mark.parametrize(
    ("listen", "user", "is_told"),
    [
        (OPEN, "", True),
        ({**OPEN, "tls": FILES}, "", True),
        ({**OPEN, "tls": {**FILES, "client_ca_file": "ca", "client_auth": "requested"}}, "", True),
        ({**OPEN, "tls": {**FILES, "client_ca_file": "ca", "client_auth": "required"}}, "", False),
        ({**OPEN, "sasl": USERS}, "", False),
        (OPEN, "billing", False),
        ({**OPEN, "tls": FILES}, "billing", False),
        ({}, "", False),
    ],
)
def test_credentials_that_every_client_borrows_are_told(
    listen: dict[str, object], user: str, *, is_told: bool
) -> None:
    """Clients must prove who they are, or be one application, or be on this machine."""
    upstream = {**REMOTE, "tls": {}, "sasl": SCRAM}
    assert paths(upstream, listen, user) == (["upstream.sasl"] if is_told else [])
    assert paths(REMOTE, listen, user) == []


def test_a_pool_below_the_largest_request_is_told() -> None:
    """Kafka refuses it; here a larger request passes in parts. A derived or unbounded pool is no mistake."""

    def told(pool_bytes: int) -> list[str]:
        data = {"upstream": LOCAL, "memory": {"queued_max_request_bytes": pool_bytes}}
        config, _ = try_convert(Config, data)
        assert config is not None
        return [each.partition(":")[0] for each in hints(config)]

    assert told(104_857_599) == ["memory.queued_max_request_bytes"]
    assert told(104_857_600) == told(0) == told(-1) == []
