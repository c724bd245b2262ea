"""Which user owns a delegation token, read from the replies that name both: CreateDelegationToken and
DescribeDelegationToken (KIP-48, KIP-373); and the tokens of one principal among those of a reply.

- A login by a token shows its id and not its owner, so these replies are the only place where the protocol tells it.
- The hmac, which is the token's password, is stepped over.
- An owner of another type than User is left out: a login by a token is always one of a user.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wire.api_keys import ApiKey
from wire.errors import ErrorCode, WireError
from wire.primitives import (
    INT16,
    Buffer,
    array_count,
    compact_count,
    compact_length,
    encode_compact_count,
    encode_count,
    int16_at,
    skip,
    skip_bytes,
    skip_compact,
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
_USER: Final = "User"


Principal: TypeAlias = tuple[str, str]
"""Its type and its name."""


class _Token(NamedTuple):
    token_id: str
    principals: tuple[Principal, ...]
    """The owner, who has asked for the token (v3+), and who may renew it."""


def owners_in(api: Api, body: Buffer, start: int, end: int) -> Iterator[tuple[str, str]]:
    """Yield the id and the owner's name of each token in a reply. Raises `WireError` if it is malformed."""
    if api.key not in APIS:
        raise WireError(f"{api.name} names no delegation token")
    pos = skip(start, 2, end)
    if int16_at(body, start)[0]:
        return
    if api.key == ApiKey.CREATE_DELEGATION_TOKEN:
        found = [_token(api, body, pos, end)[0]]
    else:
        found = [token for token, _, _ in _tokens(api, body, pos, end, MAX_TOKENS)]
    for token in found:
        kind, owner = token.principals[0]
        if kind == _USER:
            yield token.token_id, owner


def owner_asked_for(api: Api, body: Buffer) -> Principal | None:
    """Return the owner whom a CreateDelegationToken names; None if the token is for who asks for it.

    Raises `WireError` if the body is malformed.
    """
    if api.version < _REQUESTER_FROM:
        return None
    kind, pos = _text(api, body, 0, len(body))
    name, _ = _text(api, body, pos, len(body))
    return (kind, name) if name else None


def tokens_of(api: Api, body: bytes, principal: Principal) -> bytes | None:
    """Return a DescribeDelegationToken reply with the tokens alone that concern a principal; None if all of them do.

    Raises `WireError` if the body is malformed.
    """
    kept: list[bytes] = []
    count, pos = (compact_count if api.flexible else array_count)(body, 2, len(body))
    for token, start, pos in _tokens(api, body, 2, len(body), count):
        if principal in token.principals:
            kept.append(body[start:pos])
    if len(kept) == max(count, 0):
        return None
    counted = (encode_compact_count if api.flexible else encode_count)(len(kept))
    return b"".join((body[:2], counted, *kept, body[pos:]))


def no_tokens(api: Api) -> bytes:
    """Return a DescribeDelegationToken reply that could not be read: an error, and no token."""
    code, throttle_time_ms = INT16.pack(ErrorCode.UNKNOWN_SERVER_ERROR), bytes(4)
    if api.flexible:
        return code + encode_compact_count(0) + throttle_time_ms + b"\0"
    return code + encode_count(0) + throttle_time_ms


def _tokens(
    api: Api, body: Buffer, pos: int, end: int, most: int
) -> Iterator[tuple[_Token, int, int]]:
    """Yield the tokens of an array with the offsets of their bytes."""
    count, pos = (compact_count if api.flexible else array_count)(body, pos, end, _MIN_TOKEN_BYTES)
    for _ in range(min(count, most)):
        start = pos
        token, pos = _token(api, body, pos, end)
        renewers, pos = _renewers(api, body, pos, end)
        yield _Token(token.token_id, token.principals + renewers), start, pos


def _token(api: Api, body: Buffer, pos: int, end: int) -> tuple[_Token, int]:
    """Return the token at `pos` and the offset after its hmac."""
    principals: tuple[Principal, ...] = ()
    for _ in range(2 if api.version >= _REQUESTER_FROM else 1):
        principal, pos = _principal(api, body, pos, end)
        principals += (principal,)
    token_id, pos = _text(api, body, skip(pos, _TIMES_BYTES, end), end)
    pos = (skip_compact if api.flexible else skip_bytes)(body, pos, end)
    return _Token(token_id, principals), pos


def _renewers(api: Api, body: Buffer, pos: int, end: int) -> tuple[tuple[Principal, ...], int]:
    """Return the renewers of a token and the offset after its tagged fields."""
    count, pos = (compact_count if api.flexible else array_count)(body, pos, end, 2)
    found: list[Principal] = []
    for _ in range(count):
        principal, pos = _principal(api, body, pos, end)
        found.append(principal)
        if api.flexible:
            pos = skip_tags(body, pos, end)
    return tuple(found), skip_tags(body, pos, end) if api.flexible else pos


def _principal(api: Api, body: Buffer, pos: int, end: int) -> tuple[Principal, int]:
    kind, pos = _text(api, body, pos, end)
    name, pos = _text(api, body, pos, end)
    return (kind, name), pos


def _text(api: Api, body: Buffer, pos: int, end: int) -> tuple[str, int]:
    length, pos = (compact_length if api.flexible else string_length)(body, pos, end)
    stop = pos + max(length, 0)
    try:
        return bytes(body[pos:stop]).decode(), stop
    except UnicodeDecodeError as error:
        raise WireError(f"{api.name} has a name that is not valid UTF-8") from error
