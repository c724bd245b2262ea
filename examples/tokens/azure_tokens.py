"""`azure_tokens`: tokens for Azure Event Hubs, by Azure's own library (`pip install azure-identity`).

    token_provider: azure_tokens:AzureTokens
    token_options: {namespace: billing}       # billing.servicebus.windows.net

The identity is the one that every program of Azure would have here: workload identity in a pod,
managed identity, or variables.
"""

from __future__ import annotations

import time

import msgspec
from azure.identity import DefaultAzureCredential

from sluice import Token, TokenProvider


class AzureTokensConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings."""

    namespace: str
    """The namespace of Event Hubs."""


class AzureTokens(TokenProvider):
    """Asks for tokens."""

    Config = AzureTokensConfig

    def __init__(self, config: AzureTokensConfig) -> None:
        super().__init__(config)
        self._scope = f"https://{config.namespace}.servicebus.windows.net/.default"
        self._credential = DefaultAzureCredential()

    def token(self) -> Token:
        """Return a token; the library keeps it until it must be renewed."""
        found = self._credential.get_token(self._scope)
        return Token(found.token, found.expires_on - time.time())
