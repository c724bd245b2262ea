"""Tokens for OAUTHBEARER: from a file, or from an endpoint that gives them for client credentials.

- A file is read again for each authentication: another process renews it.
- A token of an endpoint is used until a fifth of its time is left, so that a renewal near its end fetches the next.
  One request is under way at a time, and ends although a connection that waits for it may be given up: the next one
  finds its token. After a failure the next is made later, and later each time.
- The answer of an endpoint is bounded in size and time, redirects are not followed, and its words are never repeated.
- A lifetime that cannot be is a failure: without one, each connection would fetch a token, or none ever would.
- The expiry inside a token (JWT) is a hint, used if the endpoint names none. No signature is verified: brokers do that.

Sources: RFC 6749 section 4.4; Kafka's `HttpJwtRetriever`, `ClientCredentialsRequestFormatter`.
"""

from __future__ import annotations

import json
import math
import time
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import trio

from proxy.core.auth.mechanisms import TOKEN
from proxy.core.auth.secret_text import Secret
from proxy.core.errors import UpstreamAuthenticationError

if TYPE_CHECKING:
    from collections.abc import Callable

TIMEOUT_S: Final = 10.0
"""For the connection to an endpoint, and for each read."""
TOTAL_TIMEOUT_S: Final = 20.0
"""For all of an endpoint's answer."""
MAX_ANSWER_BYTES: Final = 128 << 10
MAX_TOKEN_CHARS: Final = 64 << 10
UNUSED_PART: Final = 0.2
"""A token is replaced when only this part of its time is left."""
USUAL_LIFETIME_S: Final = 300.0
"""If neither the endpoint nor the token says when it expires."""
MAX_TOLD_S: Final = 10 * 365 * 86_400
"""A lifetime that is longer, or no number (NaN), is refused."""
MIN_USED_S: Final = 1.0
MAX_USED_S: Final = 86_400.0
"""A token that holds longer is replaced by then all the same."""
FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 30.0
_FAILURES: Final = frozenset(
    {
        *("invalid_request", "invalid_client", "invalid_grant"),
        *("unauthorized_client", "unsupported_grant_type", "invalid_scope"),
    }
)
"""The reasons of RFC 6749 section 5.2 that are repeated in an error."""


class TokenError(UpstreamAuthenticationError):
    """There is no token. The text names the file or the endpoint, never a part of a secret."""


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
        if not _is_token(found.reveal()):
            raise TokenError(f"token_file: {self._path!r} has no token (RFC 6750)")
        return found

    def forget(self) -> None:
        """See TokenSource. The file is read again in any case."""


class _TokenAnswer(NamedTuple):
    token: Secret
    lifetime_s: float


class _Fetch:
    """A request for a token; `outcome` is its result once it is `done`."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.outcome: Secret | Exception = TokenError("the request for a token was cancelled")


class TokenEndpoint:
    """An OAuth endpoint. `read` reads the client's secret, and raises ValueError."""

    def __init__(
        self, url: str, client_id: str, read: Callable[[], Secret], scope: str = ""
    ) -> None:
        self._url = url
        self._client_id = client_id
        self._read = read
        self._scope = scope
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

    async def _refresh(self, fetch: _Fetch) -> None:
        """Fetch a token. It is no task of a connection, whose time may be over before the endpoint answers."""
        began = trio.current_time()
        try:
            answer = await self._fetch()
        except Exception as error:  # noqa: BLE001 - it ends those that wait, not the process
            is_told = isinstance(error, TokenError)
            self._failed = str(error) if is_told else f"token_endpoint_url: {type(error).__name__}"
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

    def forget(self) -> None:
        """See TokenSource."""
        self._found = None

    async def _fetch(self) -> _TokenAnswer:
        try:
            with trio.fail_after(TOTAL_TIMEOUT_S):
                return await trio.to_thread.run_sync(self._ask, abandon_on_cancel=True)
        except trio.TooSlowError:
            why = f"no answer within {TOTAL_TIMEOUT_S:g} s"
            raise TokenError(f"token_endpoint_url: {why}") from None

    def _ask(self) -> _TokenAnswer:
        """Ask the endpoint; blocks. Raises TokenError."""
        import requests  # noqa: PLC0415 - 8 MB, only with a token endpoint
        from requests.auth import HTTPBasicAuth  # noqa: PLC0415 - as above

        try:
            secret = self._read()
        except ValueError as error:
            raise TokenError(f"client_secret_file: {error}") from None
        wanted = {"grant_type": "client_credentials"}
        if self._scope:
            wanted["scope"] = self._scope
        started = time.monotonic()
        try:
            with requests.post(
                self._url,
                data=wanted,
                auth=HTTPBasicAuth(self._client_id.encode(), secret.reveal().encode()),
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
                timeout=TIMEOUT_S,
                allow_redirects=False,
                stream=True,
            ) as response:
                status, body = response.status_code, bytearray()
                for piece in response.iter_content(1):  # one that trickles is noticed
                    body += piece
                    if len(body) > MAX_ANSWER_BYTES:
                        why = f"an answer of more than {MAX_ANSWER_BYTES} bytes"
                        raise TokenError(f"token_endpoint_url: {why}")
                    if time.monotonic() - started > TOTAL_TIMEOUT_S:
                        raise TokenError("token_endpoint_url: the answer is too slow")
        except requests.RequestException as error:
            why = type(error).__name__  # its text may have the address, and more
            raise TokenError(f"token_endpoint_url: {why}") from None
        return _read_answer(status, bytes(body))


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


def _read_answer(status: int, body: bytes) -> _TokenAnswer:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    fields = found if isinstance(found, dict) else {}
    if status != 200:
        why = fields.get("error")
        known = f" ({why})" if isinstance(why, str) and why in _FAILURES else ""
        raise TokenError(f"token_endpoint_url: HTTP status {status}{known}")
    token = fields.get("access_token")
    if not isinstance(token, str) or not _is_token(token):
        raise TokenError("token_endpoint_url: the answer has no access_token")
    lifetime_s = fields.get("expires_in")
    if isinstance(lifetime_s, bool) or not isinstance(lifetime_s, int | float):
        expiry = expiry_hint(token)
        # Clocks differ: a token that seems to have ended is tried, and fetched again a second later at the earliest.
        lifetime_s = USUAL_LIFETIME_S if expiry is None else max(expiry - time.time(), MIN_USED_S)
    elif not 0 < lifetime_s <= MAX_TOLD_S:  # NaN is in no range
        raise TokenError(f"token_endpoint_url: expires_in is not in 1..{MAX_TOLD_S} seconds")
    return _TokenAnswer(Secret(token), min(float(lifetime_s), MAX_USED_S))


def _is_token(text: str) -> bool:
    return len(text) <= MAX_TOKEN_CHARS and TOKEN.fullmatch(text) is not None
