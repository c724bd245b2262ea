"""The contract of plug-ins that get tokens for OAUTHBEARER, by which Sluice authenticates to brokers.

    upstream:
      sasl: {mechanism: OAUTHBEARER, token_provider: aws-msk-iam, token_options: {region: eu-west-1}}

- A provider is made once at the start, in the main thread: no network there. `token` is called in a thread, and may
  block for 20 seconds; it is called again before a token ends, after a refusal, and later and later after a failure.
- Its settings are no place for secrets: they name a file or a variable.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import msgspec


class Token(NamedTuple):
    """A token, and how many seconds it holds from now on."""

    token: str
    lifetime_s: float

    def __repr__(self) -> str:
        """Show no secret."""
        return f"Token(..., {self.lifetime_s!r})"


class NoTokenOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A provider without settings."""


class TokenProvider:
    """Gets tokens. `config` is a `Config`, made of the `token_options`."""

    Config: ClassVar[type] = NoTokenOptions
    """A frozen struct of msgspec: the settings."""

    def __init__(self, config: object) -> None:
        self.config = config

    def token(self) -> Token:
        """Return a token that a broker accepts now. It may raise anything: of an error only the type is logged."""
        raise NotImplementedError
