"""Certificates with made subjects, as bytes: every type of string, keyword and fault that an authority could sign.

Their signatures are wrong: what reads a subject does not verify it.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from random import Random

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding

BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
UTF8, PRINTABLE, T61, IA5, GENERAL, BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
SHOWN = (UTF8, PRINTABLE, T61, IA5, GENERAL, BMP)
OTHERS = (0x02, 0x03, 0x04, 0x12, 0x17, 0x1A, 0x1C, 0x2C, 0x30, 0x33, 0x80, 0xA0)
"""Integer, BitString, OctetString, NumericString, UTCTime, VisibleString, UniversalString, constructed and tagged."""
KEYWORDS = (
    *("2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11"),
    *("0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25"),
)
UNNAMED = (
    *("1.2.840.113549.1.9.1", "2.5.4.5", "2.5.4.12", "2.5.4.42", "2.5.4.4", "2.5.4.46"),
    *("2.999.1", "1.3.6.1.4.1.99999.4294967296.1", "0.0", "2.47.3"),
)
SIGNS = ' ,=+<>#;"\\\r\n\t\0/:.-_aZ09@*&é߿ßΩ日￿\u2028\ufffd😀𐀀'
PIECES = ("CN=admin", "O=", "  ", "\\,", '"x"', "#04", " #", "\r", "mallory", "ä")
BROKEN = (
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0", b"\xed\xa0a", b"\xed", b"\xc0\x80", b"\xc2", b"\x80"),
    *(b"\xe0\x80\x80", b"\xe2\x82", b"\xe2\x82a", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf4\x90\x80\x80"),
    *(b"\xf0\x80\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88", b"\xff", b"\xfe\xff", b"\xe4\xfc"),
)  # fmt: skip
Part = tuple[str, int, bytes]
"""The type of an attribute, the tag of its value, and the value."""


def certificate_of(*names: list[Part]) -> bytes:
    """Return a certificate whose subject has these names, each of one part or several, from the first to the last."""
    return certificate_with(subject(*names))


def subject(*names: list[Part]) -> bytes:
    """Return the subject alone."""
    return element(0x30, b"".join(map(_name, names)))


def certificate_with(subject: bytes, extensions: bytes = b"") -> bytes:
    """Return a certificate with this subject and these extensions."""
    before, after = _template()
    signed = (
        before + subject + after + (element(0xA3, element(0x30, extensions)) if extensions else b"")
    )
    algorithm = element(0x30, element(0x06, bytes.fromhex("2a8648ce3d040302")))
    return element(0x30, element(0x30, signed) + algorithm + element(0x03, b"\0" + bytes(8)))


def alternative_names(*names: tuple[int, bytes], critical: bytes = b"") -> bytes:
    """Return the extension with these names, each with its tag. `critical`: as it is encoded."""
    value = element(0x30, b"".join(element(tag, name) for tag, name in names))
    return element(0x30, bytes.fromhex("0603551d11") + critical + element(0x04, value))


def hard_names() -> Iterator[list[list[Part]]]:
    """Yield the names of subjects that programs read in different ways."""
    cn, o, ou, mail = "2.5.4.3", "2.5.4.10", "2.5.4.11", "1.2.840.113549.1.9.1"
    for text in ("a", "", "ä", "日", "😀", *PIECES, *SIGNS, *(f" {sign} " for sign in SIGNS)):
        yield [[(cn, UTF8, text.encode())]]
    for kind in (*KEYWORDS, *UNNAMED):
        yield [[(kind, PRINTABLE, b"x = y")]]
    for tag in (*SHOWN, *OTHERS):
        yield [[(cn, tag, b"a")]]
        yield [[(ou, tag, b"\xfc#\0=")]]
    for broken in BROKEN:
        yield [[(cn, T61, broken)]]
        yield [[(cn, UTF8, b"a" + broken + b"b")]]
    for size in (127, 128, 255, 256, 65_536):
        yield [[(mail, IA5, b"x" * size)], [(cn, UTF8, b"y")]]
    admin = [(cn, UTF8, b"admin")]
    yield [[(o, UTF8, b"CN=admin")], [(cn, UTF8, b"mallory")]]
    yield [admin, [(cn, UTF8, b"mallory")]]
    yield [[*admin, (o, UTF8, b"mallory")], [(ou, UTF8, b"x")]]
    yield [[*admin, (cn, UTF8, b"mallory")]]
    yield [[(cn, UTF8, b"mallory,CN=admin")], [(o, UTF8, b"x+CN=admin")]]
    yield [[(cn, BMP, "admin".encode("utf-16-be"))]]
    yield [[(cn, 0x1C, "admin".encode("utf-32-be"))]]


def made_names(random: Random) -> list[list[Part]]:
    """Return one to five names of a subject."""
    return [
        [_part(random) for _ in range(random.choice((1, 1, 1, 1, 2, 3)))]
        for _ in range(random.randint(1, 5))
    ]


def element(tag: int, content: bytes) -> bytes:
    """Return one element in DER."""
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _part(random: Random) -> Part:
    kind = random.choice(KEYWORDS if random.random() < 0.8 else UNNAMED)
    if random.random() < 0.1:
        return kind, random.choice(OTHERS), random.randbytes(random.randint(0, 12))
    tag = random.choice(SHOWN)
    if random.random() < 0.15:
        return kind, tag, b"".join(random.choices((*BROKEN, b"a", b" "), k=random.randint(1, 6)))
    if random.random() < 0.05:
        return kind, tag, random.randbytes(random.randint(0, 200))
    text = "".join(
        random.choice(SIGNS if random.random() < 0.8 else PIECES)
        for _ in range(random.choice((0, 1, 2, 5, 12, 90)))
    )
    encodings = ("utf-8",) if random.random() < 0.5 else ("latin-1", "utf-16-be")
    encoding = {T61: encodings[0], BMP: encodings[-1]}.get(tag, "utf-8")
    return kind, tag, text.encode(encoding, "replace")


def _name(parts: list[Part]) -> bytes:
    attributes = {
        element(0x30, element(0x06, _identifier(kind)) + element(tag, value))
        for kind, tag, value in parts
    }
    return element(0x31, b"".join(sorted(attributes)))


def _identifier(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    return b"".join(map(_base_128, (40 * first + second, *rest)))


def _base_128(number: int) -> bytes:
    digits = [number & 0x7F]
    while number := number >> 7:
        digits.append(number & 0x7F | 0x80)
    return bytes(reversed(digits))


@cache
def _template() -> tuple[bytes, bytes]:
    """Return what stands before and after the subject in the signed part of a certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "subject")])
    issuer = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "issuer")])
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), 7, BEGIN, END)
    signed = made.sign(key, SHA256()).tbs_certificate_bytes
    before, after = signed.split(subject.public_bytes(Encoding.DER))
    return before[4 if before[1] == 0x82 else 3 if before[1] == 0x81 else 2 :], after
