"""The user of a certificate: of its subject, or of its alternative names."""

import pytest
from cryptography import x509

from proxy.core.auth.principal_mapping import PrincipalMapper
from proxy.shell.transport import HandshakeError
from tests.support.shell.tls_clients import listener_of, meet, trusting

SPIFFE = x509.UniformResourceIdentifier("spiffe://prod/ns/pay/sa/api")
OTHER_SPIFFE = x509.UniformResourceIdentifier("spiffe://prod/ns/pay/sa/web")
FOREIGN = x509.UniformResourceIdentifier("https://prod/ns/pay/sa/web")
RULE = PrincipalMapper([r"RULE:^spiffe:\/\/prod\/ns\/([^\/]+)\/sa\/([^\/]+)$/$1.$2/"]).user_of


@pytest.mark.parametrize(
    ("kind", "names", "user_of", "found"),
    [
        ("uri_san", [SPIFFE], RULE, "pay.api"),
        ("uri_san", [SPIFFE, FOREIGN, x509.DNSName("a.test")], RULE, "pay.api"),
        ("uri_san", [FOREIGN, SPIFFE, SPIFFE], RULE, "pay.api"),
        ("uri_san", [SPIFFE], str, "spiffe://prod/ns/pay/sa/api"),
        ("dns_san", [SPIFFE, x509.DNSName("api.pay.test")], str, "api.pay.test"),
        ("subject", [SPIFFE], str, "CN=eve"),
        ("uri_san", [SPIFFE, OTHER_SPIFFE], RULE, "gives 2 users, expected one"),
        ("uri_san", [SPIFFE, FOREIGN], str, "gives 2 users, expected one"),
        ("uri_san", [FOREIGN], RULE, "no principal mapping rule"),
        ("uri_san", [x509.DNSName("spiffe.test")], RULE, "has no URI as an alternative name"),
        ("uri_san", [], RULE, "has no URI as an alternative name"),
        ("dns_san", [SPIFFE], str, "has no DNS name as an alternative name"),
        ("dns_san", [x509.DNSName(f"a{n}.test") for n in range(101)], str, "more than 100"),
    ],
)
async def test_an_alternative_name_may_be_the_user_if_the_certificate_gives_one_only(
    authority, event_loop, kind, names, user_of, found
):
    """None, and two different ones, are refused: neither the client nor the order of names chooses."""
    own = authority.sign("eve", *names)
    listener = listener_of(authority, event_loop, auth="requested", kind=kind, user_of=user_of)
    if " " in found:
        with pytest.RaisesGroup(HandshakeError, OSError, flatten_subgroups=True) as caught:
            await meet(listener, trusting(authority, own))
        assert found in str(caught.value.exceptions)
        return
    met, far = await meet(listener, trusting(authority, own))
    assert (met.user, met.transport.security.subject) == (found, "CN=eve")
    far.close()
    met.transport.close()
