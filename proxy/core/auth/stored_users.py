"""The users of Sluice's own listener: their names and the salted keys of their passwords (SCRAM, RFC 5802).

- With these keys a reader of the file cannot authenticate as a user. It can guess passwords offline, and pretend to be
  the server.
- `stand_in` makes keys for a name that has none, so that a client cannot find out which users exist. They come from a
  secret line of the file, `# stand_in_key=BASE64`, which no change of a user touches: else the salts that stay the same
  would be those of users. Each Sluice with the file has the same.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from hashlib import sha256
from hmac import digest
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.core.auth.scram import (
    MECHANISMS,
    ScramMechanism,
    salted_password,
    stored_keys,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

DEFAULT_ITERATIONS: Final = 16384
"""The most that Kafka's own brokers store, so that every client is known to take it. About 10 ms of CPU."""
SALT_BYTES: Final = 24
MAX_NAME_CHARS: Final = 255
PLAIN_ORDER: Final = tuple(sorted(MECHANISMS, reverse=True))
"""The keys that a password of PLAIN is verified with: the first mechanism that the user has."""

_IS_NAME: Final = re.compile(r"[^\s#\x00-\x1f\x7f-\x9f][^\s\x00-\x1f\x7f-\x9f]*").fullmatch


class Credential(NamedTuple):
    """The keys of one user for one mechanism."""

    mechanism: ScramMechanism
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __str__(self) -> str:
        """Return the credential as a line of the file has it."""
        salt, stored, server = (b64encode(each).decode() for each in self[1:4])
        return (
            f"{self.mechanism.name}=salt={salt},stored_key={stored},server_key={server},"
            f"iterations={self.iterations}"
        )


class Found(NamedTuple):
    """A credential for a name, which is a stand-in unless the user `exists`."""

    credential: Credential
    exists: bool


def new_credential(
    mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int
) -> Credential:
    """Return the keys of a password. It takes milliseconds (PBKDF2)."""
    salted = salted_password(mechanism, password, salt, iterations)
    return Credential(mechanism, salt, *stored_keys(mechanism, salted), iterations)


def name_problem(name: str) -> str | None:
    """Return what a user's name must be, if this is none; else None."""
    if len(name) <= MAX_NAME_CHARS and _IS_NAME(name):
        return None
    return f"1 to {MAX_NAME_CHARS} characters without white space and control characters, and no # first"


class Users:
    """All users of a file, by name."""

    __slots__ = ("_by_name", "_stand_in_key", "_usual", "_usual_for_plain")

    def __init__(
        self, credentials: Iterable[tuple[str, Credential]] = (), stand_in_key: bytes = b""
    ) -> None:
        """Take (name, credential) pairs, one for each name and mechanism, and the secret of stand-ins."""
        self._by_name: dict[str, dict[str, Credential]] = {}
        self._stand_in_key = stand_in_key
        seen: Counter[tuple[str, int, int]] = Counter()
        for name, credential in credentials:
            mechanism = credential.mechanism.name
            self._by_name.setdefault(name, {})[mechanism] = credential
            seen[mechanism, credential.iterations, len(credential.salt)] += 1
        # The most common ones; among equals, the order of the users does not count.
        self._usual = sorted(seen, key=lambda usual: (seen[usual], usual), reverse=True)
        strongest = Counter(max(each) for each in self._by_name.values())
        self._usual_for_plain = max(
            strongest, key=lambda each: (strongest[each], each), default=PLAIN_ORDER[0]
        )

    def __len__(self) -> int:
        """Return the number of users."""
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of the file."""
        return iter(self._by_name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a user with this name."""
        return name in self._by_name

    def credentials(self, name: str) -> tuple[Credential, ...]:
        """Return all keys of a user; none if there is no such user."""
        return tuple(self._by_name.get(name, {}).values())

    def find(self, name: str, mechanism: str) -> Found:
        """Return the keys of a user for a SCRAM mechanism, or others in their place."""
        stand_in = self.stand_in(name, mechanism)  # made in any case: it takes time
        credential = self._by_name.get(name, {}).get(mechanism)
        return Found(stand_in, exists=False) if credential is None else Found(credential, True)

    def find_any(self, name: str) -> Found:
        """Return the keys of a user to verify a password with, or others in their place."""
        stand_in = self.stand_in(name, self._usual_for_plain)
        known = self._by_name.get(name, {})
        for mechanism in PLAIN_ORDER:
            if mechanism in known:
                return Found(known[mechanism], exists=True)
        return Found(stand_in, exists=False)

    def stand_in(self, name: str, mechanism: str) -> Credential:
        """Return keys that no password has: the same for the same name, and like those that most users have."""
        kind = MECHANISMS[mechanism]
        salt_bytes, iterations = SALT_BYTES, DEFAULT_ITERATIONS
        for usual in self._usual:
            if usual[0] == mechanism:
                _, iterations, salt_bytes = usual
                break
        key = digest(self._stand_in_key, f"{mechanism} {name}".encode(errors="replace"), "sha512")
        salt = b"".join(
            sha256(key + bytes((part,))).digest() for part in range(salt_bytes // 32 + 1)
        )
        return Credential(
            kind, salt[:salt_bytes], kind.hash(key + b"1"), kind.hash(key + b"2"), iterations
        )
