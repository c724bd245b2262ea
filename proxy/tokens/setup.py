"""Puts the check of tokens together, as `listen.sasl.oauthbearer` wants it."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.config.small_files import FileError
from proxy.core.auth.bearer_tokens import BearerTokens
from proxy.core.auth.principal_mapping import PrincipalMapper
from proxy.tokens.claims import ClaimRules
from proxy.tokens.key_set import KeySetError
from proxy.tokens.key_source import EXPECTED, is_address, read_keys
from proxy.tokens.loaded_keys import LoadedKeys, NoKeys

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config.client_logins import ListenOAuthBearer
    from proxy.shell.check_thread import CheckThread

FILE_POLL_S: Final = 5.0
_KEY_BYTES: Final = 32
UNSIGNED: Final = "unsigned"
"""`Peer.proof` of a user whose token nobody has signed: no rule that demands a proof is about it."""


def keys_of(
    settings: ListenOAuthBearer, wake: Callable[[], None], report: Callable[[Exception], None]
) -> LoadedKeys | NoKeys:
    """Return the keys: those of a file are read now, those of an address later. Raises FileError for a file."""
    rules = ClaimRules(
        settings.issuer,
        frozenset(settings.audience),
        settings.principal_claim,
        PrincipalMapper(settings.principal_rules),
        settings.groups_claim,
    )
    if settings.accept_unsigned_tokens:
        return NoKeys(rules)
    asks = is_address(settings.jwks)
    keys = LoadedKeys(
        partial(read_keys, settings.jwks, settings.jwks_ca_file, settings.jwks_token_file),
        settings.algorithms,
        rules,
        refresh_s=settings.jwks_refresh_ms / 1000 if asks else FILE_POLL_S,
        max_stale_s=settings.jwks_max_stale_ms / 1000,
        wake=wake,
        report=report,
    )
    if not asks:
        try:
            keys.begin()
        except KeySetError as error:
            raise FileError(f"{settings.jwks!r}: {error}", EXPECTED) from None
    return keys


def tokens_of(
    settings: ListenOAuthBearer, keys: LoadedKeys | NoKeys, thread: CheckThread
) -> BearerTokens:
    """Return the check of tokens by these keys, in this thread."""
    proof = UNSIGNED if isinstance(keys, NoKeys) else "token"
    key = secrets.token_bytes(_KEY_BYTES)
    return BearerTokens(key, keys, thread.submit, settings.clock_skew_ms, proof)
