"""Checks tokens (OAUTHBEARER) without blocking the event loop, as `Passwords` does with passwords.

- A signature takes tenths of a millisecond, so a thread checks it: `submit` queues a check, or refuses it.
- What a valid token says is remembered until other keys are loaded, under a keyed hash, so that reconnections are
  cheap. No token is kept. Its times are judged at each use.
- A token whose key is not known may be signed with a new one: it waits until the keys are loaded again, once. At most
  MAX_RENEWING tokens wait for that, and whoever has the keys says how often it is done.
- Without usable keys no token is accepted. Its client is told nothing, as it may be right: it comes again.
- The same token is checked once, however many connections wait for it.
"""

from __future__ import annotations

from enum import Enum
from hmac import digest
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.check_queue import Check

MAX_REMEMBERED: Final = 1024
MAX_RENEWING: Final = 64
MAX_TOKEN_BYTES: Final = 32 << 10
"""A longer token is refused. An HTTP server takes 8 to 16 KiB."""


class TokenFacts(NamedTuple):
    """What a token with a valid signature says. It holds from `begins_ms` to `expires_ms` (since the epoch)."""

    user: str
    groups: frozenset[str]
    begins_ms: int
    expires_ms: int


class TokenFault(NamedTuple):
    """Why a token is refused, for the operator: without any part of the token."""

    why: str


class UnknownKey(Enum):
    """The result of a check without a key to do it with."""

    UNKNOWN_KEY = "the key that signed it is not known"


class Unjudged(Enum):
    """Why a login was not judged: its client is disconnected without a reply, since an error would be final."""

    NO_ROOM = "too many logins wait for verification"
    NO_KEYS = "there are no usable keys for tokens"


Judgement: TypeAlias = TokenFacts | TokenFault | Unjudged
_Result: TypeAlias = TokenFacts | TokenFault | UnknownKey


class TokenKeys(Protocol):
    """Whoever has the keys. `revision` is another number when they are others; 0: there are none, or too old ones.

    `loaded_ms`: when they were loaded last, in ms since the epoch, 0 if never; `failures`: how often that failed.
    """

    loaded_ms: int
    failures: int

    @property
    def revision(self) -> int:
        """See above."""

    def check_of(self, token: bytes) -> Check:
        """Return a check of this token; its result is TokenFacts, a TokenFault or an UnknownKey."""

    def try_renew(self, then: Callable[[bool], None]) -> bool:
        """Load the keys again and call `then` with whether that was possible; return False if it is too early."""


class BearerTokens:
    """The checks that run, and what valid tokens said. `proof` as in `policies.api.Peer.proof`.

    `submit(check, address, on_done)` is that of `Passwords`.
    """

    __slots__ = ("_key", "_renewing", "_said", "_skew_ms", "_submit", "_waiting", "keys", "proof")

    def __init__(
        self,
        key: bytes,
        keys: TokenKeys,
        submit: Callable[[Check, str, Callable[[_Result | None], None]], bool],
        clock_skew_ms: int,
        proof: str = "token",
    ) -> None:
        self.proof = proof
        self._key = key
        self.keys = keys
        self._submit = submit
        self._skew_ms = clock_skew_ms
        self._said: dict[bytes, TokenFacts] = {}  # the latest last
        self._waiting: dict[bytes, list[Callable[[Judgement], None]]] = {}
        self._renewing = 0

    def find(self, token: bytes) -> TokenFacts | None:
        """Return what this token said when it was valid under the present keys; None if it must be checked."""
        if not self.keys.revision:
            return None
        mark = self._mark(token)
        facts = self._said.get(mark)
        if facts is not None:
            self._remember(mark, facts)
        return facts

    def fault_at(self, facts: TokenFacts, now_ms: int) -> str:
        """Return why a token is refused at this time, as far as its clock may differ; "" if it holds."""
        if now_ms >= facts.expires_ms + self._skew_ms:
            return f"it expired {(now_ms - facts.expires_ms) // 1000} s ago"
        if now_ms < facts.begins_ms - self._skew_ms:
            return f"it does not hold before {(facts.begins_ms - now_ms) // 1000} s from now"
        return ""

    def left_ms(self, facts: TokenFacts, now_ms: int) -> int:
        """Return how long a token still holds, at least 1 ms: a session ends with it."""
        left_ms = facts.expires_ms - now_ms
        return left_ms if left_ms > 0 else max(left_ms + self._skew_ms, 1)

    def begin_check(
        self, token: bytes, address: str, on_done: Callable[[Judgement], None]
    ) -> Judgement | None:
        """Call `on_done` later with the judgement, and return None; or return it now. `address` is the client's."""
        if len(token) > MAX_TOKEN_BYTES:
            return TokenFault(f"it has {len(token)} bytes, more than {MAX_TOKEN_BYTES}")
        mark = self._mark(token)
        waiting = self._waiting.get(mark)
        if waiting is not None:
            waiting.append(on_done)
            return None
        refused = self._check(mark, token, address, may_renew=True)
        if refused is None:
            self._waiting[mark] = [on_done]
        return refused

    def _check(
        self, mark: bytes, token: bytes, address: str, *, may_renew: bool
    ) -> Unjudged | None:
        if not self.keys.revision:
            begun = may_renew and self._try_renew(mark, token, address)
            return None if begun else Unjudged.NO_KEYS
        checked_as = self._mark(token)

        def on_done(result: _Result | None) -> None:
            judgement: Judgement
            if isinstance(result, UnknownKey):
                if may_renew and self._try_renew(mark, token, address):
                    return
                judgement = TokenFault(result.value)
            else:
                judgement = Unjudged.NO_ROOM if result is None else result
            if isinstance(judgement, TokenFacts):
                self._remember(checked_as, judgement)
            self._tell(mark, judgement)

        is_queued = self._submit(self.keys.check_of(token), address, on_done)
        return None if is_queued else Unjudged.NO_ROOM

    def _try_renew(self, mark: bytes, token: bytes, address: str) -> bool:
        if self._renewing >= MAX_RENEWING:
            return False

        def then(is_loaded: bool) -> None:  # noqa: FBT001 - the result itself
            self._renewing -= 1
            refused: Unjudged | None = Unjudged.NO_KEYS
            if is_loaded:
                refused = self._check(mark, token, address, may_renew=False)
            if refused is not None:
                self._tell(mark, refused)

        is_begun = self.keys.try_renew(then)
        self._renewing += is_begun
        return is_begun

    def _tell(self, mark: bytes, judgement: Judgement) -> None:
        for on_done in self._waiting.pop(mark):
            on_done(judgement)

    def _remember(self, mark: bytes, facts: TokenFacts) -> None:
        self._said.pop(mark, None)
        self._said[mark] = facts
        if len(self._said) > MAX_REMEMBERED:
            del self._said[next(iter(self._said))]

    def _mark(self, token: bytes) -> bytes:
        """Return what stands for a token under the present keys: it does not reveal it without the key."""
        return digest(self._key, self.keys.revision.to_bytes(8, "big") + token, "sha256")
