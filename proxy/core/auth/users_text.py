"""The text of a users file, and edits of it.

One credential a line, in the words of Kafka's `kafka-configs --describe`:

    alice SCRAM-SHA-512=salt=...,stored_key=...,server_key=...,iterations=16384

- A user may have a line for each mechanism. Empty lines, and lines that begin with `#`, are comments.
- One of these has the secret of stand-ins: `# stand_in_key=BASE64`.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import TYPE_CHECKING, Final

from proxy.core.auth.scram import MAX_ITERATIONS, MAX_SALT_BYTES, MECHANISMS, MIN_ITERATIONS
from proxy.core.auth.stored_users import Credential, Users, name_problem

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_USERS: Final = 100_000
"""The most credentials in one file."""
STAND_IN_KEY_BYTES: Final = 32
_KEY_LINE: Final = "# stand_in_key="
_IS_CREDENTIAL: Final = re.compile(
    r"salt=([^,]+),stored_key=([^,]+),server_key=([^,]+),iterations=([0-9]{1,9})"
).fullmatch
_FORM: Final = (
    "NAME MECHANISM=salt=BASE64,stored_key=BASE64,server_key=BASE64,iterations=NUMBER, "
    f"where MECHANISM is {' or '.join(MECHANISMS)}"
)


class UsersFileError(ValueError):
    """The text is no users file. The message names the line, and contains nothing of it."""


def read_users(text: str, stand_in_key: bytes = b"") -> Users:
    """Return the users of a file. `stand_in_key`: if the file has none. Raises UsersFileError."""
    found: dict[tuple[str, str], Credential] = {}
    for number, line in enumerate(_lines(text), 1):
        if line.startswith(_KEY_LINE):
            stand_in_key = _key_of(line, number)
            continue
        name = _name_of(line)
        if name is None:
            continue
        credential = _credential_of(name, line, number)
        kind = name, credential.mechanism.name
        if kind in found:
            raise UsersFileError(f"line {number}: user {name!r} has {kind[1]} twice")
        if len(found) >= MAX_USERS:
            raise UsersFileError(f"line {number}: more than {MAX_USERS} credentials")
        found[kind] = credential
    pairs = ((name, credential) for (name, _), credential in found.items())
    return Users(pairs, stand_in_key)


def has_stand_in_key(text: str) -> bool:
    """Return whether the file has a line with the secret of stand-ins."""
    return any(line.startswith(_KEY_LINE) for line in _lines(text))


def with_stand_in_key(text: str, key: bytes) -> str:
    """Return the file's text with this secret of stand-ins, before the first user, if it has none yet."""
    if has_stand_in_key(text):
        return text
    lines = _lines(text)
    place = next((at for at, line in enumerate(lines) if _name_of(line)), len(lines))
    lines.insert(place, f"{_KEY_LINE}{b64encode(key).decode()}")
    return "".join(f"{line}\n" for line in lines)


def with_credentials(text: str, name: str, credentials: Iterable[Credential]) -> str:
    """Return the file's text with these keys as the only ones of a user. Other lines stay as they are.

    They stand where the user's first line was, or at the end.
    """
    new = [f"{name} {credential}" for credential in credentials]
    lines = _lines(text)
    place = next((at for at, line in enumerate(lines) if _name_of(line) == name), len(lines))
    before = [line for line in lines[:place] if _name_of(line) != name]
    after = [line for line in lines[place:] if _name_of(line) != name]
    return "".join(f"{line}\n" for line in (*before, *new, *after))


def without_user(text: str, name: str) -> str:
    """Return the file's text without the lines of a user. Other lines stay as they are."""
    return with_credentials(text, name, ())


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _name_of(line: str) -> str | None:
    """Return the first word of a line; None for a comment or an empty line."""
    words = line.split(None, 1)
    return None if not words or words[0].startswith("#") else words[0]


def _key_of(line: str, number: int) -> bytes:
    try:
        key = b64decode(line.removeprefix(_KEY_LINE).strip(), validate=True)
    except Base64Error:
        key = b""
    if len(key) != STAND_IN_KEY_BYTES:
        raise UsersFileError(f"line {number}: expected {STAND_IN_KEY_BYTES} bytes in base64")
    return key


def _credential_of(name: str, line: str, number: int) -> Credential:
    mechanism, _, values = line.strip()[len(name) :].strip().partition("=")
    found = _IS_CREDENTIAL(values)
    if found is None or mechanism not in MECHANISMS or name_problem(name):
        raise UsersFileError(f"line {number}: expected {_FORM}")
    kind = MECHANISMS[mechanism]
    try:
        salt, stored, server = (b64decode(each, validate=True) for each in found.group(1, 2, 3))
    except Base64Error:
        raise UsersFileError(f"line {number}: a key or the salt is not valid base64") from None
    iterations, key_bytes = int(found.group(4)), len(kind.hash(b""))
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        expected = f"{MIN_ITERATIONS}..{MAX_ITERATIONS}"
        raise UsersFileError(f"line {number}: iterations {iterations} are outside {expected}")
    if not (len(stored) == len(server) == key_bytes and 0 < len(salt) <= MAX_SALT_BYTES):
        words = f"keys of {key_bytes} bytes and a salt of 1..{MAX_SALT_BYTES}"
        raise UsersFileError(
            f"line {number}: expected {words}, found {len(stored)}, {len(server)}, {len(salt)}"
        )
    return Credential(kind, salt, stored, server, iterations)
