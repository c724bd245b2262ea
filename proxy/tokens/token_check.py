"""The check of one token in a thread: its form, its signature, its claims.

Rules:
- The algorithm is one of the settings and of the key; what the token's header says only selects among them. A header
  that names keys itself (`jwk`, `jku`, `x5u`, `x5c`) changes nothing, and one with `crit` is refused.
- Header and claims have each name once, and the parts are base64 in one spelling, so that no two readers differ.
- A check never raises: what is not expected refuses the token.
- No word of a token is in a result but the user and the groups of a valid one.

Sources: RFC 7515, RFC 7519, RFC 8725 (best current practices).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from jwt.exceptions import PyJWTError

from proxy.core.auth.bearer_tokens import TokenFacts, TokenFault, UnknownKey
from wire.oauthbearer import json_object

if TYPE_CHECKING:
    from jwt import PyJWS

    from proxy.tokens.claims import ClaimRules
    from proxy.tokens.key_set import KeySet


_FORM: Final = re.compile(rb"([\w-]+)\.([\w-]+)\.([\w-]*)", re.ASCII).fullmatch
"""The three parts in base64url without padding (RFC 7515)."""


class SignedCheck:
    """Whether a token is signed by one of these keys, and what it says then."""

    __slots__ = ("_jws", "_keys", "_rules", "_token")

    def __init__(self, token: bytes, keys: KeySet | None, jws: PyJWS, rules: ClaimRules) -> None:
        self._token = token
        self._keys = keys
        self._jws = jws
        self._rules = rules

    def __repr__(self) -> str:
        """Return a text without the token."""
        return "SignedCheck()"

    def run(self) -> TokenFacts | TokenFault | UnknownKey:
        """Return the result. It takes tenths of a millisecond."""
        try:
            return self._run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the token is not proved
            return TokenFault(f"it cannot be read ({type(error).__name__})")

    def _run(self) -> TokenFacts | TokenFault | UnknownKey:
        found = _FORM(self._token)
        header = None if found is None else json_object(found[1])
        if found is None or header is None:
            return TokenFault("it is no JWT")
        algorithm, kid = header.get("alg"), header.get("kid", "")
        if not isinstance(algorithm, str) or algorithm not in self._jws.get_algorithms():
            return TokenFault("its algorithm is not allowed")
        if not isinstance(kid, str) or "crit" in header or "b64" in header:
            return TokenFault("its header asks for what is not supported")
        keys = self._keys.candidates(algorithm, kid) if self._keys is not None else ()
        if not keys:
            return UnknownKey.UNKNOWN_KEY
        if not any(self._is_signed_by(key, algorithm) for key in keys):
            return TokenFault("its signature is wrong")
        claims = json_object(found[2])
        if claims is None:
            return TokenFault("its claims are no JSON in which each name stands once")
        return self._rules.judge(claims)

    def _is_signed_by(self, key: Any, algorithm: str) -> bool:  # noqa: ANN401 - of RSA, or of a curve
        try:
            self._jws.decode_complete(self._token, key, [algorithm])
        except PyJWTError:  # its text may have parts of the token
            return False
        return True


class UnsignedCheck:
    """What a token says that nobody has signed (`alg` none). Only for tests of applications."""

    __slots__ = ("_rules", "_token")

    def __init__(self, token: bytes, rules: ClaimRules) -> None:
        self._token = token
        self._rules = rules

    def __repr__(self) -> str:
        """Return a text without the token."""
        return "UnsignedCheck()"

    def run(self) -> TokenFacts | TokenFault:
        """Return the result."""
        found = _FORM(self._token)
        header = None if found is None else json_object(found[1])
        claims = None if found is None else json_object(found[2])
        if found is None or header is None or claims is None:
            return TokenFault("it is no JWT")
        if header.get("alg") != "none" or found[3]:
            return TokenFault("it is signed, and only unsigned tokens are accepted here")
        return self._rules.judge(claims)
