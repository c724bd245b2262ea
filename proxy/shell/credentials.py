"""Sluice's own credentials: they make the client's side of each SASL exchange with a broker.

A password file is read again for each authentication, so that a new password needs no restart.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Protocol

import trio

from proxy.core.auth.mechanisms import OAuthBearerClient, PlainClient, SaltedKeys, ScramClient
from proxy.core.auth.scram import MECHANISMS
from proxy.core.errors import UpstreamAuthenticationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.auth.mechanisms import SaslClient
    from proxy.core.auth.secret_text import Secret
    from proxy.shell.tokens import TokenSource

NONCE_BYTES = 24


class Credentials(Protocol):
    """The credentials that Sluice shows to brokers."""

    async def client(self) -> SaslClient:
        """Return a new exchange. Raises UpstreamAuthenticationError if the credentials cannot be read."""

    def on_refused(self) -> None:
        """Note that a broker has refused them."""


class PasswordCredentials:
    """The user and password of PLAIN or SCRAM. `read` reads the password, and raises ValueError."""

    def __init__(self, mechanism: str, username: str, read: Callable[[], Secret]) -> None:
        self._scram = MECHANISMS.get(mechanism)
        self._username = username
        self._read = read
        self._password: Secret | None = None
        self._keys: SaltedKeys | None = None

    async def client(self) -> SaslClient:
        """See Credentials."""
        try:
            password = await trio.to_thread.run_sync(self._read)
        except ValueError as error:
            raise UpstreamAuthenticationError(f"password_file: {error}") from None
        if self._scram is None:
            return PlainClient(self._username, password.reveal)
        if self._keys is None or self._password != password:
            self._password, self._keys = password, SaltedKeys(self._scram, password.reveal)
        return ScramClient(self._username, self._keys, secrets.token_urlsafe(NONCE_BYTES))

    def on_refused(self) -> None:
        """See Credentials. The password is read again in any case."""


class TokenCredentials:
    """The tokens of OAUTHBEARER."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source

    async def client(self) -> SaslClient:
        """See Credentials."""
        token = await self._source.token()
        return OAuthBearerClient(token.reveal)

    def on_refused(self) -> None:
        """See Credentials."""
        self._source.forget()
