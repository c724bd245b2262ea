"""The public keys of an identity provider: a JSON Web Key Set (RFC 7517).

Rules:
- A key is good for the algorithms of its type and curve that the settings allow, or for the one that it names itself.
  There are no shared secrets among them (`oct`): whoever checks with one could sign, too.
- Keys that cannot be used are left out: for encryption, of an unknown type, too short. A set without any other is an
  error. So is one with a name twice, more than MAX_KEYS keys or MAX_BYTES bytes.
- Only the public members of a key are read.
- A key id is a text to compare, nothing else: no path, no address, no query.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from wire.oauthbearer import unique_object

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_BYTES: Final = 512 << 10
MAX_KEYS: Final = 256
MAX_TRIED: Final = 4
"""Keys that are tried for one token, if several have its id, or it has none."""
MIN_RSA_BITS: Final = 2048

_BY_KIND: Final = {
    ("RSA", ""): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_PUBLIC: Final = ("kty", "crv", "n", "e", "x", "y")


class KeySetError(ValueError):
    """A text that is no usable key set. The message says why, without a part of it."""


class Key(NamedTuple):
    """One key, and what it is good for; `kid` is "" if it has none."""

    kid: str
    algorithms: list[str]
    public: Any


class KeySet:
    """The usable keys of one text, `content`; `size`: how many there are."""

    def __init__(self, content: bytes, algorithms: Iterable[str]) -> None:
        """Read the keys that are good for these algorithms. Raises KeySetError if there is none."""
        self.content = content
        allowed = frozenset(algorithms)
        self._by_algorithm: dict[str, list[Key]] = {}
        self.size = 0
        members = _members(content)
        for member in members:
            key = _maybe_key(member, allowed)
            if key is not None:
                self.size += 1
                for algorithm in key.algorithms:
                    self._by_algorithm.setdefault(algorithm, []).append(key)
        if not self.size:
            names = ", ".join(sorted(allowed))
            raise KeySetError(f"none of its {len(members)} keys can be used for {names}")

    def candidates(self, algorithm: str, kid: str) -> list[Any]:
        """Return the keys that may have signed a token with this header; `kid` is "" if it names none."""
        keys = self._by_algorithm.get(algorithm, ())
        named = [key.public for key in keys if kid in ("", key.kid)]
        return named[:MAX_TRIED]


def _members(content: bytes) -> list[object]:
    """Return the items of the set, which may be anything."""
    if len(content) > MAX_BYTES:
        raise KeySetError(f"it has more than {MAX_BYTES} bytes")
    try:
        found = json.loads(content, object_pairs_hook=unique_object)
    except (ValueError, RecursionError):
        raise KeySetError("it is no JSON in which each name stands once") from None
    keys = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(keys, list):
        raise KeySetError("it has no list `keys` (RFC 7517)")
    if len(keys) > MAX_KEYS:
        raise KeySetError(f"it has {len(keys)} keys, more than {MAX_KEYS}")
    return keys


def _maybe_key(member: object, allowed: frozenset[str]) -> Key | None:
    """Return a key; None if it cannot be used."""
    if not isinstance(member, dict) or member.get("use", "sig") != "sig":
        return None
    operations = member.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    kid, named = member.get("kid", ""), member.get("alg")
    kind = str(member.get("kty")), str(member.get("crv", ""))
    good = [each for each in _BY_KIND.get(kind, ()) if each in allowed and named in (None, each)]
    if not isinstance(kid, str) or not good:
        return None
    try:
        key = PyJWK({name: member[name] for name in _PUBLIC if name in member}, good[0]).key
    except (PyJWTError, ValueError, TypeError):
        return None
    is_short = kind[0] == "RSA" and key.key_size < MIN_RSA_BITS
    return None if is_short else Key(kid, good, key)
