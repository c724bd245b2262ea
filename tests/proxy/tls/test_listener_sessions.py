"""Certificates of clients: the user that they name, their end, and sessions that are resumed."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from proxy.core.auth.principal_mapping import PrincipalMapper
from proxy.shell.transport import HandshakeError
from tests.support.shell.certificates import Authority
from tests.support.shell.tls_clients import context_of, listener_of, meet, trusting


def resuming(client: ssl.SSLContext) -> list[ssl.SSLSession]:
    """Let each connection of the context offer the last session of the list."""
    wrap, known = client.wrap_socket, []
    client.wrap_socket = lambda sock, server_hostname: wrap(
        sock, server_hostname=server_hostname, session=known[-1] if known else None
    )
    return known


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_is_not_resumed_after_the_end_of_the_certificate(
    authority, event_loop, version
):
    """OpenSSL resumes it and looks at no date. Until then it is resumed, and has the same user and end."""
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)
    end_ms = int(end.timestamp() * 1000)
    now_ms = [end_ms - 1]
    own = authority.sign("app", not_after=end)
    listener = listener_of(authority, event_loop, auth="required", clock=lambda: now_ms[0])
    client = trusting(authority, own)
    client.maximum_version = version
    known = resuming(client)
    for is_resumed in (False, True):
        met, far = await meet(listener, client)
        assert met.transport.tls.session_reused is is_resumed
        assert (met.user, met.ends_ms) == ("CN=app", end_ms)
        known.append(far.session)
        met.transport.close()
        far.close()
    now_ms[0] += 1
    with pytest.RaisesGroup(HandshakeError, OSError, flatten_subgroups=True) as caught:
        await meet(listener, client)
    assert "the certificate of 'CN=app' has ended" in str(caught.value.exceptions)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_session_is_not_resumed_after_the_authority_was_replaced(
    authority, event_loop, version, tmp_path
):
    """The certificate is asked for again, and the new authority has not signed it."""
    other = Authority(tmp_path / "other", "another")
    own = authority.sign("app")
    listener = listener_of(authority, event_loop, auth="required")
    client = trusting(authority, own)
    client.maximum_version = version
    known = resuming(client)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    met, far = await meet(listener, client)
    known.append(far.session)
    met.transport.close()
    far.close()
    listener.use(context_of(other))
    with pytest.RaisesGroup(HandshakeError, OSError, flatten_subgroups=True) as caught:
        await meet(listener, client)
    assert "certificate verify failed" in str(caught.value.exceptions)


@pytest.mark.parametrize(
    ("auth", "closes"), [("none", True), ("required", True), ("required", False)]
)
async def test_a_connection_ends_with_its_certificate_where_it_has_one_and_the_setting_says_so(
    authority, event_loop, auth, closes
):
    """The end is that of the chain: an authority's certificate may end first."""
    own = authority.sign("app", not_after=datetime(4000, 1, 1, tzinfo=UTC))
    listener = listener_of(authority, event_loop, auth=auth, closes_expired=closes)
    met, far = await meet(listener, trusting(authority, own))
    ca = x509.load_pem_x509_certificate(authority.ca_file.read_bytes())
    end_ms = int(ca.not_valid_after_utc.timestamp() * 1000)
    assert met.ends_ms == (end_ms if auth == "required" and closes else None)
    met.transport.close()
    far.close()


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
