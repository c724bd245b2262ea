"""The subject as Java prints it, and the end of a certificate."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute as Attribute
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as Oid

from proxy.openssl.certificate import expiry_ms, subject_of

KEY = ec.generate_private_key(ec.SECP256R1())
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def certificate(*parts: list[Attribute], end: datetime = NOW + timedelta(days=1)) -> bytes:
    name = x509.Name([x509.RelativeDistinguishedName(part) for part in parts])
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 7, NOW, end)
    return builder.sign(KEY, SHA256()).public_bytes(Encoding.DER)


def one(oid: x509.ObjectIdentifier, value: str, kind: _ASN1Type = _ASN1Type.UTF8String):
    return [Attribute(oid, value, kind)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], ""),
        ([one(Oid.COUNTRY_NAME, "DE"), one(Oid.COMMON_NAME, "a")], "CN=a,C=DE"),
        ([one(Oid.DOMAIN_COMPONENT, "org"), one(Oid.USER_ID, "u")], "UID=u,DC=org"),
        ([one(Oid.STATE_OR_PROVINCE_NAME, "B"), one(Oid.STREET_ADDRESS, "S")], "STREET=S,ST=B"),
        ([one(Oid.COMMON_NAME, 'a,b+c"d\\e<f>g;h=i')], r"CN=a\,b\+c\"d\\e\<f\>g\;h=i"),
        ([one(Oid.COMMON_NAME, "  a b ")], "CN=\\ \\ a b\\ "),
        ([one(Oid.COMMON_NAME, "#a#")], r"CN=\#a#"),
        ([one(Oid.COMMON_NAME, "Jürgen Ω")], "CN=Jürgen Ω"),
        ([one(Oid.COMMON_NAME, "Ω", _ASN1Type.BMPString)], "CN=Ω"),
        ([one(Oid.COMMON_NAME, "a", _ASN1Type.PrintableString)], "CN=a"),
        ([one(Oid.EMAIL_ADDRESS, "x@y", _ASN1Type.IA5String)], "1.2.840.113549.1.9.1=#1603784079"),
        ([one(Oid.SERIAL_NUMBER, "x" * 200)], f"2.5.4.5=#0c81c8{b'x'.hex() * 200}"),
        (
            [[Attribute(Oid.COMMON_NAME, "a"), Attribute(Oid.ORGANIZATIONAL_UNIT_NAME, "b")]],
            "CN=a+OU=b",
        ),
    ],
)
def test_the_subject_is_written_as_javas_x500principal_writes_it(parts, expected):
    """Keywords of RFC 2253 only, the last part first, special characters escaped, other types in hexadecimal."""
    assert subject_of(certificate(*parts)) == expected


@pytest.mark.parametrize(
    "end", [NOW + timedelta(days=1), datetime(2061, 7, 8, 9, 10, 11, tzinfo=UTC)]
)
def test_the_end_is_read_with_years_of_two_and_of_four_digits(end):
    """UTCTime ends in 2049."""
    assert expiry_ms(certificate(one(Oid.COMMON_NAME, "a"), end=end)) == int(end.timestamp() * 1000)


def test_bytes_that_are_no_certificate_have_no_subject():
    """Each prefix of a certificate, and each certificate with one byte changed, is read without another error."""
    whole = certificate(one(Oid.COMMON_NAME, "a"), one(Oid.EMAIL_ADDRESS, "b"))
    assert subject_of(b"") is None
    for size in range(len(whole)):
        subject_of(whole[:size])
        for byte in (0, 0x80, 0xFF):
            subject_of(whole[:size] + bytes([byte]) + whole[size + 1 :])
