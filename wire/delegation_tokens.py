"""Which user owns a delegation token, read from the replies that name both: CreateDelegationToken and
DescribeDelegationToken (KIP-48, KIP-373).

- A login by a token shows its id and not its owner, so these replies are the only place where the protocol tells it.
- The hmac, which is the token's password, is stepped over.
- An owner of another type than User is left out: a login by a token is always one of a user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.api_keys import ApiKey
from wire.errors import WireError
from wire.primitives import (
    Buffer,
    array_count,
    compact_count,
    compact_length,
    int16_at,
    skip,
    skip_bytes,
    skip_compact,
    skip_string,
    skip_tags,
    string_length,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wire.apis import Api

APIS: Final = frozenset({ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN})
"""The APIs whose replies `owners_in` reads."""
MAX_TOKENS: Final = 4096
"""Tokens of one reply that are read; further ones are not."""
_TIMES_BYTES: Final = 24  # issued, expires, expires at the latest
_MIN_TOKEN_BYTES: Final = _TIMES_BYTES + 5
_REQUESTER_FROM: Final = 3


def owners_in(api: Api, body: Buffer, start: int, end: int) -> Iterator[tuple[str, str]]:
    """Yield the id and the owner's name of each token in a reply. Raises `WireError` if it is malformed."""
    if api.key not in APIS:
        raise WireError(f"{api.name} names no delegation token")
    pos = skip(start, 2, end)
    if int16_at(body, start)[0]:
        return
    if api.key == ApiKey.CREATE_DELEGATION_TOKEN:
        found, _ = _token(api, body, pos, end)
        if found is not None:
            yield found
        return
    count, pos = (compact_count if api.flexible else array_count)(body, pos, end, _MIN_TOKEN_BYTES)
    for _ in range(min(count, MAX_TOKENS)):
        found, pos = _token(api, body, pos, end)
        pos = _after_renewers(api, body, pos, end)
        if found is not None:
            yield found


def _token(api: Api, body: Buffer, pos: int, end: int) -> tuple[tuple[str, str] | None, int]:
    """Return id and owner of the token at `pos`, None if no user owns it, and the offset after its hmac."""
    skip_text = skip_compact if api.flexible else skip_string
    kind, pos = _text(api, body, pos, end)
    owner, pos = _text(api, body, pos, end)
    if api.version >= _REQUESTER_FROM:
        pos = skip_text(body, skip_text(body, pos, end), end)
    token_id, pos = _text(api, body, skip(pos, _TIMES_BYTES, end), end)
    pos = (skip_compact if api.flexible else skip_bytes)(body, pos, end)
    return ((token_id, owner) if kind == "User" else None), pos


def _after_renewers(api: Api, body: Buffer, pos: int, end: int) -> int:
    """Return the offset after the renewers of a token and its tagged fields."""
    skip_text = skip_compact if api.flexible else skip_string
    count, pos = (compact_count if api.flexible else array_count)(body, pos, end, 2)
    for _ in range(count):
        pos = skip_text(body, skip_text(body, pos, end), end)
        if api.flexible:
            pos = skip_tags(body, pos, end)
    return skip_tags(body, pos, end) if api.flexible else pos


def _text(api: Api, body: Buffer, pos: int, end: int) -> tuple[str, int]:
    length, pos = (compact_length if api.flexible else string_length)(body, pos, end)
    stop = pos + max(length, 0)
    try:
        return bytes(body[pos:stop]).decode(), stop
    except UnicodeDecodeError as error:
        raise WireError(f"{api.name} has a name that is not valid UTF-8") from error
