"""The subject and the end of a certificate, read from its bytes (DER, RFC 5280).

- The subject is text exactly as Java's `X500Principal.getName()` gives it (RFC 2253): Kafka's rules for principals, and
  the users in ACLs and quotas, are written for that text. The ssl module does not tell the type of each value.
- The ssl module does not show the certificate that it has loaded itself.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",  # PrintableString
    0x14: "latin-1",  # T61String
    0x16: "ascii",  # IA5String
    0x1B: "ascii",  # GeneralString
    0x1E: "utf-16-be",  # BMPString
}
_SPECIAL: Final = frozenset(',+"\\<>;')
_VERSION_TAG: Final = 0xA0
_SHORT_TIME: Final = 0x17
"""UTCTime, with a year of two digits that begins at 1950."""
_VALIDITY, _SUBJECT = 3, 4
"""Their places after the version."""
_LONG_FORM: Final = 0x80


def subject_of(certificate: bytes) -> str | None:
    """Return the subject as RFC 2253 text, "" if it is empty; None for bytes that are no certificate."""
    try:
        names = [list(_parts(content)) for _, content in _parts(_field(certificate, _SUBJECT))]
        return ",".join("+".join(map(_attribute, map(_content, name))) for name in reversed(names))
    except (ValueError, IndexError):
        return None


def expiry_ms(certificate: bytes) -> int:
    """Return when the certificate ends, in ms since the epoch. Raises ValueError for bytes that are no certificate."""
    _, (tag, value) = _parts(_field(certificate, _VALIDITY))
    text = value.decode("ascii")
    if tag == _SHORT_TIME:
        text = f"{19 if text >= '50' else 20}{text}"
    at = datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)


def _field(certificate: bytes, place: int) -> bytes:
    for _, whole in _parts(certificate):
        for _, signed in _parts(whole):
            fields = (content for tag, content in _parts(signed) if tag != _VERSION_TAG)
            for found in islice(fields, place, None):
                return found
            break
        break
    raise ValueError("this is no certificate")


def _content(part: tuple[int, bytes]) -> bytes:
    return part[1]


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element."""
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1] if at + 1 < len(data) else len(data)
        at += 2
        if size & _LONG_FORM:
            stop = at + (size & ~_LONG_FORM)
            at, size = stop, int.from_bytes(data[at:stop], "big")
        if at + size > len(data):
            raise ValueError("an element is longer than the certificate")
        yield tag, data[at : at + size]
        at += size


def _attribute(content: bytes) -> str:
    (_, identifier), (tag, value) = _parts(content)
    name = _dotted(identifier)
    keyword, encoding = _KEYWORDS.get(name), _ENCODINGS.get(tag)
    if keyword is None or encoding is None:
        header = content[
            len(content) - len(value) - _header_bytes(len(value)) : -len(value) or None
        ]
        return f"{keyword or name}=#{(header + value).hex()}"
    return f"{keyword}={_escaped(value.decode(encoding))}"


def _header_bytes(size: int) -> int:
    return 2 if size < _LONG_FORM else 2 + (size.bit_length() + 7) // 8


def _dotted(identifier: bytes) -> str:
    numbers, number = [], 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(value: str) -> str:
    inner = value.strip(" ")
    before = len(value) - len(value.lstrip(" ")) if inner else 0
    escaped = "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in inner)
    if not before and inner.startswith("#"):
        escaped = f"\\{escaped}"
    return "\\ " * before + escaped + "\\ " * (len(value) - before - len(inner))
