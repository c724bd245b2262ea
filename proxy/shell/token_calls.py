"""Calls of a plug-in that gets tokens: it may be slow, raise, lie, or never return.

- A call blocks in a thread. One that never returns keeps its thread, so at most MAX_CALLS are under way; a further one
  fails at once. What a call returns after its time is not used.
- Of an error only the type is told: its text may have a secret.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from proxy.core.auth.secret_text import Secret
from proxy.shell.tokens import (
    MAX_TOLD_S,
    MAX_USED_S,
    FetchedToken,
    TokenError,
    is_lifetime,
    is_token,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SETTING: Final = "token_provider"
MAX_CALLS: Final = 4


class TokenCalls:
    """`call` gets a pair of token and lifetime in seconds; `name` is that of the plug-in."""

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self._who = f"{SETTING}: {name}"
        self._call = call
        self._places = threading.Semaphore(MAX_CALLS)

    def fetch(self) -> FetchedToken:
        """Return a token; blocks. Raises TokenError."""
        if not self._places.acquire(blocking=False):
            raise TokenError(f"{self._who}: {MAX_CALLS} earlier calls have not returned")
        try:
            given = self._call()
        except BaseException as error:  # noqa: BLE001 - `sys.exit` in a plug-in's code ends its call only
            raise TokenError(f"{self._who} raised {type(error).__name__}") from None
        finally:
            self._places.release()
        return self._checked(given)

    def _checked(self, given: object) -> FetchedToken:
        if not isinstance(given, tuple) or len(given) != 2:
            raise TokenError(f"{self._who} gave a {type(given).__name__}, expected a Token")
        token, lifetime_s = given
        if type(token) is not str or not is_token(token):
            raise TokenError(f"{self._who} gave no token (RFC 6750)")
        if not is_lifetime(lifetime_s):
            raise TokenError(f"{self._who}: the lifetime is not in 1..{MAX_TOLD_S} seconds")
        return FetchedToken(Secret(token), min(float(lifetime_s), MAX_USED_S))
