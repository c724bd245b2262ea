"""Tokens from an endpoint that gives them for client credentials.

- The answer is bounded in size and time, redirects are not followed, and its words are never repeated.

Sources: RFC 6749 section 4.4; Kafka's `HttpJwtRetriever`, `ClientCredentialsRequestFormatter`.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from proxy.core.auth.secret_text import Secret
from proxy.shell import tokens
from proxy.shell.tokens import (
    MAX_TOLD_S,
    MAX_USED_S,
    FetchedToken,
    TokenError,
    expiry_hint,
    is_lifetime,
    is_token,
)

if TYPE_CHECKING:
    from collections.abc import Callable

SETTING: Final = "token_endpoint_url"
TIMEOUT_S: Final = 10.0
"""For the connection to an endpoint, and for each read."""
MAX_ANSWER_BYTES: Final = 128 << 10
USUAL_LIFETIME_S: Final = 300.0
"""If neither the endpoint nor the token says when it expires."""
MIN_USED_S: Final = 1.0
_FAILURES: Final = frozenset(
    {
        *("invalid_request", "invalid_client", "invalid_grant"),
        *("unauthorized_client", "unsupported_grant_type", "invalid_scope"),
    }
)
"""The reasons of RFC 6749 section 5.2 that are repeated in an error."""


class TokenEndpoint:
    """An OAuth endpoint. `read` reads the client's secret, and raises ValueError."""

    def __init__(
        self, url: str, client_id: str, read: Callable[[], Secret], scope: str = ""
    ) -> None:
        self._url = url
        self._client_id = client_id
        self._read = read
        self._scope = scope

    def fetch(self) -> FetchedToken:
        """Ask the endpoint for a token; blocks. Raises TokenError."""
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
                        raise TokenError(f"{SETTING}: {why}")
                    if time.monotonic() - started > tokens.TOTAL_TIMEOUT_S:
                        raise TokenError(f"{SETTING}: the answer is too slow")
        except requests.RequestException as error:
            why = type(error).__name__  # its text may have the address, and more
            raise TokenError(f"{SETTING}: {why}") from None
        return _read_answer(status, bytes(body))


def _read_answer(status: int, body: bytes) -> FetchedToken:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    fields = found if isinstance(found, dict) else {}
    if status != 200:
        why = fields.get("error")
        known = f" ({why})" if isinstance(why, str) and why in _FAILURES else ""
        raise TokenError(f"{SETTING}: HTTP status {status}{known}")
    token = fields.get("access_token")
    if not isinstance(token, str) or not is_token(token):
        raise TokenError(f"{SETTING}: the answer has no access_token")
    lifetime_s = fields.get("expires_in")
    if isinstance(lifetime_s, bool) or not isinstance(lifetime_s, int | float):
        expiry = expiry_hint(token)
        # Clocks differ: a token that seems to have ended is tried, and fetched again a second later at the earliest.
        lifetime_s = USUAL_LIFETIME_S if expiry is None else max(expiry - time.time(), MIN_USED_S)
    elif not is_lifetime(lifetime_s):
        raise TokenError(f"{SETTING}: expires_in is not in 1..{MAX_TOLD_S} seconds")
    return FetchedToken(Secret(token), min(float(lifetime_s), MAX_USED_S))
