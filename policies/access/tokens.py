"""Delegation tokens (KIP-48): who may make, renew and see them.

Rules:
- Each login has tokens of its own without any right, as in Kafka: the broker finds out whose they are.
- A token for another user, and to see those of others, needs the act `tokens`.
- Where Sluice signs on to the brokers as itself, every token would be Sluice's, a password for all that it may do. So
  all four APIs need the act `tokens`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import FORWARD
from policies.responses import Replace
from wire.apis import ApiKey
from wire.delegation_tokens import no_tokens, owner_asked_for, tokens_of
from wire.errors import WireError

if TYPE_CHECKING:
    from policies.api import Forward, Request, Response

TOKEN_APIS: Final = frozenset(
    {
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DESCRIBE_DELEGATION_TOKEN,
    }
)
_TYPE: Final = "User"


def is_for_itself(request: Request, user: str) -> bool:
    """Return whether a request about tokens needs no right: all but the creation of one for another user."""
    if request.api_key != ApiKey.CREATE_DELEGATION_TOKEN:
        return True
    try:
        owner = owner_asked_for(request.api, request.body or b"")
    except WireError:
        return False
    return owner is None or owner == (_TYPE, user)


def own_tokens(request: Request, response: Response, user: str) -> Forward | Replace:
    """Return the tokens of a reply that are the client's: it owns them, has asked for them, or may renew them."""
    try:
        own = tokens_of(request.api, response.body or b"", (_TYPE, user))
    except WireError:
        return Replace(no_tokens(request.api))
    return FORWARD if own is None else Replace(own)
