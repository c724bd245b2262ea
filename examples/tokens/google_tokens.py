"""`google_tokens`: tokens for Google's Managed Service for Apache Kafka (`pip install google-auth`).

    token_provider: google_tokens:GoogleTokens
    token_options: {account: billing@project.iam.gserviceaccount.com}

Google's brokers want its access token in the form of a JWT, with the account's name in it.
The identity is the one that every program of Google Cloud would have here.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from datetime import UTC
from typing import Any

import google.auth
import msgspec
from google.auth.transport.requests import Request

from sluice import Token, TokenProvider

SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
HEADER = {"typ": "JWT", "alg": "GOOG_OAUTH2_TOKEN"}


class GoogleTokensConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings."""

    account: str
    """The service account, as an e-mail address."""


class GoogleTokens(TokenProvider):
    """Asks for tokens."""

    Config = GoogleTokensConfig

    def __init__(self, config: GoogleTokensConfig) -> None:
        super().__init__(config)
        self._account = config.account
        self._credentials: Any = None

    def token(self) -> Token:
        """Return a token. The credentials are looked for here, because that may ask the network."""
        if self._credentials is None:
            self._credentials, _ = google.auth.default(SCOPES)
        self._credentials.refresh(Request())
        ends = self._credentials.expiry.replace(tzinfo=UTC).timestamp()
        now = time.time()
        claims = {"iss": "Google", "sub": self._account, "scope": "kafka", "iat": now, "exp": ends}
        parts = (json.dumps(HEADER), json.dumps(claims), self._credentials.token)
        return Token(".".join(map(encoded, parts)), ends - now)


def encoded(text: str) -> str:
    """Return a text in base64 as JWTs have it."""
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")
