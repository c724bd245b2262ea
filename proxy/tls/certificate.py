"""The subject of a certificate, its alternative names and its end (DER, RFC 5280).

- The subject is text exactly as Java's `X500Principal.getName()` gives it (RFC 2253): Kafka's rules for principals, and
  the users in ACLs and quotas, are written for that text.
- `cryptography` reads the bytes. Its own names are of no use here: they are RFC 4514's, and it decodes each type of
  string by its standard, where Java takes all of them for UTF-8.
- A certificate that is not DER, or has an extension twice, is refused, never named by half. OpenSSL accepts some.
- The ssl module does not show a subject's types of strings, nor the certificate that it has loaded itself.
- `cryptography.x509`, which offers ObjectIdentifier to all, takes 3 MB more and is not imported.
"""

from __future__ import annotations

import codecs
from enum import Enum
from typing import Annotated, Final, TypeVar

from cryptography.hazmat import asn1
from cryptography.hazmat.bindings._rust import ObjectIdentifier

T = TypeVar("T")
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The only keywords of RFC 2253; other types are shown as numbers, with their values in hexadecimal."""
_STRINGS: Final = frozenset({b"\x0c", b"\x13", b"\x14", b"\x16", b"\x1b", b"\x1e"})
"""Tags that Java shows as text: UTF8, Printable, T61, IA5, General and BMPString. Others are in hexadecimal."""
_ESCAPED: Final = {ord(sign): f"\\{sign}" for sign in ',=+<>#;"\\'} | {0: "\\00"}
_PADDING: Final = " \r"
"""Signs that Java escapes at both ends of a value."""
_ALTERNATIVE_NAMES: Final = "2.5.29.17"
_SEQUENCE_TAG: Final = 0x30
_LONG_FORM: Final = 0x80
_SURROGATES: Final = 0xED
"""The first byte of surrogates, which UTF-8 must not have."""
_JAVA: Final = "java"
"""Name of the handler of errors in UTF-8."""


class AlternativeName(Enum):
    """The kinds of alternative names that may be a principal, with their tags."""

    DNS = b"\x82"
    URI = b"\x86"


class CertificateError(ValueError):
    """Bytes that are no certificate in DER, or one that is not to be understood. The message says why."""


@asn1.sequence
class _Attribute:
    kind: asn1.TLV
    value: asn1.TLV


@asn1.sequence
class _Validity:
    not_before: asn1.UTCTime | asn1.GeneralizedTime
    not_after: asn1.UTCTime | asn1.GeneralizedTime


@asn1.sequence
class _Extension:
    kind: ObjectIdentifier
    critical: bool | None  # some write the default out
    value: bytes


@asn1.sequence
class _Signed:
    version: Annotated[int | None, asn1.Explicit(0)]
    serial: asn1.TLV
    algorithm: asn1.TLV
    issuer: asn1.TLV
    validity: _Validity
    subject: list[asn1.SetOf[_Attribute]]
    key: asn1.TLV
    issuer_id: Annotated[asn1.BitString | None, asn1.Implicit(1)]
    subject_id: Annotated[asn1.BitString | None, asn1.Implicit(2)]
    extensions: Annotated[list[_Extension] | None, asn1.Explicit(3)]


@asn1.sequence
class _Certificate:
    signed: _Signed
    algorithm: asn1.TLV
    signature: asn1.TLV


@asn1.sequence
class _Sequence:
    """Holds a sequence of elements of any kind: the library reads these in a class only."""

    elements: list[asn1.TLV]


def subject_of(certificate: bytes) -> str:
    """Return the subject as RFC 2253 text, "" if it is empty. Raises CertificateError."""
    names = _read(_Certificate, certificate).signed.subject
    return ",".join("+".join(map(_attribute, name.as_list())) for name in reversed(names))


def expiry_ms(certificate: bytes) -> int:
    """Return when the certificate ends, in ms since the epoch. Raises CertificateError."""
    at = _read(_Certificate, certificate).signed.validity.not_after.as_datetime()
    return int(at.timestamp() * 1000)


def alternative_names(certificate: bytes, kind: AlternativeName) -> list[str]:
    """Return the subject's alternative names of one kind, in their order. Raises CertificateError."""
    extensions = _read(_Certificate, certificate).signed.extensions or []
    found = [each.value for each in extensions if each.kind.dotted_string == _ALTERNATIVE_NAMES]
    if not found:
        return []
    if len(found) > 1:
        raise CertificateError("the certificate has its alternative names twice")
    elements = _read(_Sequence, _sequence_of(found[0])).elements
    try:
        return [
            bytes(each.data).decode("ascii") for each in elements if each.tag_bytes == kind.value
        ]
    except UnicodeDecodeError:
        raise CertificateError("an alternative name of the certificate is not ASCII") from None


def _read(kind: type[T], der: bytes) -> T:
    try:
        return asn1.decode_der(kind, der)
    except ValueError as error:
        raise CertificateError(f"the certificate is not valid DER: {error}") from None


def _sequence_of(content: bytes) -> bytes:
    size = len(content)
    if size < _LONG_FORM:
        return bytes((_SEQUENCE_TAG, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((_SEQUENCE_TAG, _LONG_FORM | len(length))) + length + content


def _attribute(attribute: _Attribute) -> str:
    kind = _read_dotted(attribute.kind)
    keyword, value = _KEYWORDS.get(kind), attribute.value
    content = bytes(value.data)
    if keyword is None or value.tag_bytes not in _STRINGS:
        whole = _sequence_of(content)[1:]
        return f"{keyword or kind}=#{(value.tag_bytes + whole).hex()}"
    text = content.decode("utf-8", _JAVA)
    return f"{keyword}={_escaped(text)}"


def _read_dotted(kind: asn1.TLV) -> str:
    try:
        found: ObjectIdentifier = kind.parse(ObjectIdentifier)
    except ValueError as error:
        raise CertificateError(f"a type in the subject is no object identifier: {error}") from None
    return found.dotted_string


def _escaped(value: str) -> str:
    """Return the value as Java's `AVA.toRFC2253String` writes it."""
    escaped = value.translate(_ESCAPED)
    inner = escaped.strip(_PADDING)
    if not inner:
        return "".join(f"\\{sign}" for sign in escaped)
    before = len(escaped) - len(escaped.lstrip(_PADDING))
    after = before + len(inner)
    return "".join(
        (
            *(f"\\{sign}" for sign in escaped[:before]),
            inner,
            *(f"\\{sign}" for sign in escaped[after:]),
        )
    )


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """Replace what is no UTF-8: Java and Python differ only in surrogates, which are one fault to Java."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    data, at = error.object, error.start
    is_surrogate = data[at] == _SURROGATES and data[at + 1 : at + 2] >= b"\xa0"
    if not is_surrogate or not _continues(data, at + 1):
        return "\ufffd", error.end
    return "\ufffd", at + 2 + _continues(data, at + 2)


def _continues(data: bytes, at: int) -> bool:
    return at < len(data) and data[at] & 0xC0 == _LONG_FORM


codecs.register_error(_JAVA, _replace_as_java)
