"""Tokens without cryptography, for tests of the core: a token is its facts as text, and the test has the keys."""

import json
from collections.abc import Callable

from proxy.core.auth.bearer_tokens import BearerTokens, TokenFacts, TokenFault, UnknownKey
from tests.support.messages.sasl import bearer
from tests.support.shell.sasl_service import Checker

SKEW_MS = 30_000


def token_of(
    user: str = "alice",
    expires_ms: int = 600_000,
    *groups: str,
    begins_ms: int = 0,
    kid: str = "a",
    serial: int = 0,
) -> bytes:
    """Return a token that says this, signed by the key `kid`; `serial` makes it another one."""
    text = json.dumps([kid, user, sorted(groups), begins_ms, expires_ms, serial])
    return text.encode().hex().encode()


def first_message(token: bytes) -> bytes:
    """Return the client's first message with this token."""
    return bearer(token.decode())


class _Check:
    def __init__(self, token: bytes, kids: frozenset[str]) -> None:
        self._token = token
        self._kids = kids

    def run(self) -> TokenFacts | TokenFault | UnknownKey:
        try:
            kid, user, groups, begins_ms, expires_ms, _ = json.loads(
                bytes.fromhex(self._token.decode())
            )
        except ValueError:
            return TokenFault("it is no JWT")
        if kid not in self._kids:
            return UnknownKey.UNKNOWN_KEY
        return TokenFacts(user, frozenset(groups), begins_ms, expires_ms)


class Keys:
    """Keys by id. `renewals` is how often they may be loaded again; `published` are those that come then."""

    def __init__(self, *kids: str) -> None:
        self.kids = frozenset(kids)
        self.published: frozenset[str] | None = self.kids
        """None: they cannot be loaded."""
        self.revision = int(bool(kids))
        self.renewals = 1
        self.loaded_ms = self.failures = 0
        self._waiting: list[Callable[[bool], None]] = []

    def check_of(self, token: bytes) -> _Check:
        """See TokenKeys."""
        return _Check(token, self.kids)

    def try_renew(self, then: Callable[[bool], None]) -> bool:
        """See TokenKeys."""
        if not self.renewals:
            return False
        self._waiting.append(then)
        return True

    def load(self) -> int:
        """Load the keys again, and tell those that wait; return their number."""
        self.renewals -= 1
        if self.published is not None:
            self.rotate(*self.published)
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then(self.published is not None)
        return len(waiting)

    def rotate(self, *kids: str) -> None:
        """Have these keys from now on."""
        self.kids = frozenset(kids)
        self.revision += 1


def bearer_tokens(keys: Keys, checker: Checker) -> BearerTokens:
    """Return the check of tokens by these keys."""
    return BearerTokens(b"key of this process", keys, checker.submit, SKEW_MS)
