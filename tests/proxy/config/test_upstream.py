"""Credentials of Sluice's own: which settings have some, and the APIs that clients may use by them."""

import pytest

from policies.validation import try_convert
from proxy.config import Config

SERVERS = {"bootstrap_servers": ["kafka-1:9092"]}
SASL = {"mechanism": "PLAIN", "username": "u"}
CERTIFICATE = {"cert_file": "c", "key_file": "k"}


def problems_of(**sections: object) -> list[str]:
    return [str(each) for each in try_convert(Config, {"upstream": SERVERS, **sections})[1]]


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
