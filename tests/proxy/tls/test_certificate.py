"""The subject as Java prints it, and the end of a certificate."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute as Attribute
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as Oid

from proxy.tls.certificate import (
    AlternativeName,
    CertificateError,
    alternative_names,
    expiry_ms,
    subject_of,
)
from tests.support.shell.java_subjects import NoCompilerError, read_by_java, remembered
from tests.support.shell.made_subjects import (
    UTF8,
    certificate_of,
    certificate_with,
    element,
    hard_names,
    made_names,
    subject,
)
from tests.support.shell.made_subjects import alternative_names as alternative_names_of

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
        ([one(Oid.COMMON_NAME, 'a,b+c"d\\e<f>g;h=i')], r"CN=a\,b\+c\"d\\e\<f\>g\;h\=i"),
        ([one(Oid.COMMON_NAME, "  a b ")], "CN=\\ \\ a b\\ "),
        ([one(Oid.COMMON_NAME, "#a#")], r"CN=\#a\#"),
        (
            [one(Oid.ORGANIZATION_NAME, "CN=admin"), one(Oid.COMMON_NAME, "mallory")],
            r"CN=mallory,O=CN\=admin",
        ),
        ([one(Oid.COMMON_NAME, "Jürgen Ω")], "CN=Jürgen Ω"),
        ([one(Oid.COMMON_NAME, "Ω", _ASN1Type.BMPString)], "CN=\x03\ufffd"),
        ([one(Oid.COMMON_NAME, "a", _ASN1Type.BMPString)], r"CN=\00a"),
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


def test_a_certificate_is_read_whole_or_refused():
    """Each prefix of a certificate, and each certificate with one byte changed, is read without another error."""
    whole = certificate(one(Oid.COMMON_NAME, "a"), one(Oid.EMAIL_ADDRESS, "b"))
    for read in (subject_of, expiry_ms, partial(alternative_names, kind=AlternativeName.DNS)):
        for size in range(len(whole)):
            with pytest.raises(CertificateError):
                read(whole[:size])
            for byte in (0, 0x80, 0xFF):
                with suppress(CertificateError):
                    read(whole[:size] + bytes([byte]) + whole[size + 1 :])


def test_a_subject_that_is_no_der_is_refused():
    """OpenSSL takes a set in any order, and a length in more bytes than it needs."""
    name = subject([("2.5.4.3", UTF8, b"a"), ("2.5.4.11", UTF8, b"b")])
    parts = name[4 : 4 + 10], name[4 + 10 :]
    backwards = element(0x30, element(0x31, parts[1] + parts[0]))
    assert len(backwards) == len(name)
    long = element(
        0x30, element(0x31, b"\x30\x81\x08" + bytes.fromhex("0603550403") + b"\x0c\x01a")
    )
    for bad in (backwards, long):
        with pytest.raises(CertificateError, match="not valid DER"):
            subject_of(certificate_with(bad))
    assert subject_of(certificate_with(name)) == "CN=a+OU=b"


@pytest.mark.parametrize("critical", ["", "0101ff", "010100"])
def test_alternative_names_are_told_by_kind_in_their_order(critical):
    """Mail and addresses are neither; the default of `critical` may be written out."""
    names = (
        (0x82, b"a.test"),
        (0x86, b"spiffe://a/b"),
        (0x81, b"a@b"),
        (0x87, bytes(4)),
        (0x82, b"b"),
    )
    made = certificate_with(
        subject(), alternative_names_of(*names, critical=bytes.fromhex(critical))
    )
    assert alternative_names(made, AlternativeName.DNS) == ["a.test", "b"]
    assert alternative_names(made, AlternativeName.URI) == ["spiffe://a/b"]


def test_without_the_extension_there_is_no_alternative_name():
    """The common name is none."""
    made = certificate(one(Oid.COMMON_NAME, "a.test"))
    assert alternative_names(made, AlternativeName.DNS) == []


def test_alternative_names_that_cannot_be_told_are_refused():
    """Two extensions, and bytes that are no ASCII, are no names."""
    twice = alternative_names_of((0x82, b"a")) + alternative_names_of((0x82, b"b"))
    for extensions, words in ((twice, "twice"), (alternative_names_of((0x82, b"\xe4")), "ASCII")):
        with pytest.raises(CertificateError, match=words):
            alternative_names(certificate_with(subject(), extensions), AlternativeName.DNS)


def test_every_subject_that_is_remembered_is_written_as_java_wrote_it():
    """Each keyword, type of string and sign, broken UTF-8, several names at once, and made ones."""
    cases = remembered()
    assert len(cases) > 300
    wrong = [text for der, text in cases if subject_of(certificate_with(der)) != text]
    assert wrong == []


def test_made_subjects_are_written_as_the_java_of_this_machine_writes_them(*, has_slow_tests: bool):
    """Kafka takes the text from Java, also if an authority has signed nonsense."""
    random, count = Random(20_260), 10_000 if has_slow_tests else 1_000
    made = [*hard_names(), *(made_names(random) for _ in range(count))]
    certificates = [certificate_of(*names) for names in made]
    try:
        expected = read_by_java(certificates)
    except NoCompilerError as reason:
        pytest.skip(str(reason))
    assert list(map(subject_of, certificates)) == expected
