"""Tokens for OAUTHBEARER: what a source of them is, a file that has one, and the use of those that are fetched.

- A file is read again for each authentication: another process renews it.
- A token that was fetched is used until a fifth of its time is left, so that a renewal near its end fetches the next.
  One fetch is under way at a time, and ends although a connection that waits for it may be given up: the next one
  finds its token. After a failure the next is made later, and later each time.
- A lifetime that cannot be is a failure: without one, each connection would fetch a token, or none ever would.
- The expiry inside a token (JWT) is a hint, used if nobody names one. No signature is verified: brokers do that.
"""

from __future__ import annotations

import json
import math
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeGuard

import trio

from proxy.core.auth.mechanisms import TOKEN
from proxy.core.errors import UpstreamAuthenticationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.secret_text import Secret

TOTAL_TIMEOUT_S: Final = 20.0
"""For all of a fetch."""
MAX_TOKEN_CHARS: Final = 64 << 10
UNUSED_PART: Final = 0.2
"""A token is replaced when only this part of its time is left."""
MAX_TOLD_S: Final = 10 * 365 * 86_400
"""A lifetime that is longer, or no number (NaN), is refused."""
MAX_USED_S: Final = 86_400.0
"""A token that holds longer is replaced by then all the same."""
FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 30.0


class TokenError(UpstreamAuthenticationError):
    """There is no token. The text names the file, the endpoint or the plug-in, never a part of a secret."""


class TokenSource(Protocol):
    """Where tokens come from."""

    async def token(self) -> Secret:
        """Return a token for an authentication now. Raises TokenError."""

    def forget(self) -> None:
        """Use the present token no more, because a broker has refused it."""


class TokenFile:
    """A file with a token. `read` reads it, and raises ValueError."""

    def __init__(self, path: str, read: Callable[[], Secret]) -> None:
        self._path = path
        self._read = read

    async def token(self) -> Secret:
        """See TokenSource."""
        try:
            found = await trio.to_thread.run_sync(self._read)
        except ValueError as error:
            raise TokenError(f"token_file: {error}") from None
        if not is_token(found.reveal()):
            raise TokenError(f"token_file: {self._path!r} has no token (RFC 6750)")
        return found

    def forget(self) -> None:
        """See TokenSource. The file is read again in any case."""


class FetchedToken(NamedTuple):
    """A token, and how long it holds from the moment at which it was asked for."""

    token: Secret
    lifetime_s: float


class _Fetch:
    """A fetch; `outcome` is its result once it is `done`."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.outcome: Secret | Exception = TokenError("the fetch of a token was cancelled")


class FetchedTokens:
    """The tokens that `fetch` gets: it blocks, and raises TokenError. `setting` is named in errors."""

    def __init__(self, setting: str, fetch: Callable[[], FetchedToken]) -> None:
        self._setting = setting
        self._fetch = fetch
        self._fetching: _Fetch | None = None
        self._found: Secret | None = None
        self._fresh_until = -math.inf
        self._failed = ""
        self._failures = 0
        self._again_at = -math.inf

    async def token(self) -> Secret:
        """See TokenSource."""
        now = trio.current_time()
        if self._found is not None and now < self._fresh_until:
            return self._found
        fetch = self._fetching
        if fetch is None:
            if now < self._again_at:
                raise TokenError(self._failed)
            fetch = self._fetching = _Fetch()
            trio.lowlevel.spawn_system_task(self._refresh, fetch)
        await fetch.done.wait()
        if isinstance(fetch.outcome, Exception):
            raise fetch.outcome
        return fetch.outcome

    def forget(self) -> None:
        """See TokenSource."""
        self._found = None

    async def _refresh(self, fetch: _Fetch) -> None:
        """Fetch a token. It is no task of a connection, whose time may be over before the fetch ends."""
        began = trio.current_time()
        try:
            answer = await self._fetch_in_time()
        except Exception as error:  # noqa: BLE001 - it ends those that wait, not the process
            is_told = isinstance(error, TokenError)
            self._failed = str(error) if is_told else f"{self._setting}: {type(error).__name__}"
            fetch.outcome = error
            delay_s = min(FIRST_BACKOFF_S * 2 ** min(self._failures, 10), MAX_BACKOFF_S)
            self._failures += 1
            self._again_at = trio.current_time() + delay_s
        else:
            self._failures = 0
            self._found = fetch.outcome = answer.token
            self._fresh_until = began + answer.lifetime_s * (1 - UNUSED_PART)
        finally:
            self._fetching = None
            fetch.done.set()

    async def _fetch_in_time(self) -> FetchedToken:
        try:
            with trio.fail_after(TOTAL_TIMEOUT_S):
                return await trio.to_thread.run_sync(self._fetch, abandon_on_cancel=True)
        except trio.TooSlowError:
            why = f"no answer within {TOTAL_TIMEOUT_S:g} s"
            raise TokenError(f"{self._setting}: {why}") from None


def is_token(text: str) -> bool:
    """Return whether a text has the form of a token, and is not too long."""
    return len(text) <= MAX_TOKEN_CHARS and TOKEN.fullmatch(text) is not None


def is_lifetime(told: object) -> TypeGuard[float]:
    """Return whether this is a number of seconds that a token may hold."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        return False
    return 0 < told <= MAX_TOLD_S  # NaN is in no range


def expiry_hint(token: str) -> float | None:
    """Return when a token says that it expires, in seconds since the epoch; None if it does not say so."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return None
    expiry = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(expiry, bool) or not isinstance(expiry, int | float):
        return None
    return float(expiry) if 0 < expiry < 1e11 else None
