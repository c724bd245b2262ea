"""The owners of delegation tokens, as far as the brokers' replies to clients have told them.

A login by a token shows the token's id alone. If the token was made or described through this process, its owner is
known, and the login counts for that user.

- Only replies of a broker are read, and a broker tells an owner only where it has made the token.
- At most MAX_OWNERS are kept; beyond them the oldest is forgotten. A login by a token that is not known counts for the
  user of the client's certificate, for `identity.user`, or for UNKNOWN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.delegation_tokens import owners_in
from wire.errors import WireError

if TYPE_CHECKING:
    from wire.apis import Api

MAX_OWNERS: Final = 4096
MAX_CHARS: Final = 249
"""A longer id or name is not kept. Kafka's ids have 22 characters."""


class TokenOwners:
    """The `users` by token id, for all sessions of a process."""

    __slots__ = ("users",)

    def __init__(self) -> None:
        self.users: dict[str, str] = {}

    def learn(self, api: Api, buf: bytearray, start: int, end: int) -> None:
        """Read a broker's reply that may name tokens and their owners; one that cannot be read tells nothing more."""
        try:
            for token_id, user in owners_in(api, buf, start, end):
                self._add(token_id, user)
        except WireError:
            return

    def _add(self, token_id: str, user: str) -> None:
        if not token_id or not user or max(len(token_id), len(user)) > MAX_CHARS:
            return
        users = self.users
        users.pop(token_id, None)  # it becomes the newest
        users[token_id] = user
        if len(users) > MAX_OWNERS:
            del users[next(iter(users))]
