"""The keys for clients' tokens: of a file when the settings are checked, of an address by `sluice check --connect`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.validation import Problem
from proxy.config.small_files import FileError
from proxy.tokens.key_set import KeySet, KeySetError
from proxy.tokens.key_source import EXPECTED, is_address, read_keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.config.client_logins import ListenOAuthBearer

PATH = "listen.sasl.oauthbearer.jwks"


def file_problems(settings: ListenOAuthBearer) -> Iterator[Problem]:
    """Yield what is wrong with the keys of a file."""
    if not settings.jwks or is_address(settings.jwks):
        return
    try:
        KeySet(read_keys(settings.jwks), settings.algorithms)
    except FileError as error:
        yield Problem(PATH, error.found, error.expected)
    except KeySetError as error:
        yield Problem(PATH, f"{settings.jwks!r}: {error}", EXPECTED)


def ask(settings: ListenOAuthBearer) -> tuple[str, bool]:
    """Ask the address; return a line that says how many keys it has, or why it has none, and whether it has some."""
    try:
        content = read_keys(settings.jwks, settings.jwks_ca_file, settings.jwks_token_file)
        keys = KeySet(content, settings.algorithms)
    except (FileError, KeySetError) as error:
        return f"{PATH}: {settings.jwks}: {error}", False
    return f"{PATH}: {settings.jwks}: {keys.size} key{'s' * (keys.size != 1)}", True
