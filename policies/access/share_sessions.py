"""The topics that sessions of share consumers hold (KIP-932): a ShareFetch names only what it adds to its session.

Rules:
- A session belongs to a connection, a group and a member. It holds the topics that the client has named since its
  first ShareFetch, if it might read them. Topics that it forgets stay until its end.
- When the rules change, or what is known of the client (the groups of its next token), each session is judged once more
  at its next request. If it holds a topic that the client may not read any more, it ends with SHARE_SESSION_NOT_FOUND:
  the client opens a new one, and the denied topic, which it names then, is refused by its own code.
- A session that is not known here ends in the same way: one that was opened before Sluice started, or elsewhere.
- At most MAX_TOPICS topics of all sessions are kept; beyond them a new session is refused by
  SHARE_SESSION_LIMIT_REACHED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MAX_TOPICS: Final = 200_000
MAX_SESSIONS: Final = 100
"""Of one connection: a share consumer has one."""


class _Session:
    """The names of its topics, and the rights by which they were judged."""

    __slots__ = ("rights", "topics")

    def __init__(self) -> None:
        self.topics: set[str] = set()
        self.rights: object = None


class ShareSessions:
    """The sessions of all connections."""

    def __init__(self) -> None:
        self._sessions: dict[int, dict[tuple[str, str], _Session]] = {}
        """By connection; then by group and member."""
        self.topics = 0
        """How many topics all sessions hold."""

    def on_fetch(
        self,
        connection: int,
        member: tuple[str, str],
        epoch: int,
        names: Iterable[str],
        allows: Callable[[str], bool],
        rights: object,
    ) -> ErrorCode:
        """Return NONE, or the code that ends the session.

        `names`: the topics that the request names and the client may read. `allows` judges those of a session that was
        judged by other rights than these.
        """
        known = self._sessions.setdefault(connection, {})
        if epoch < 0:
            self._end(connection, member)
            return ErrorCode.NONE
        if epoch == 0:
            self._end(connection, member)
            known = self._sessions.setdefault(connection, {})
            if len(known) >= MAX_SESSIONS:
                return ErrorCode.SHARE_SESSION_LIMIT_REACHED
            session = known[member] = _Session()
            session.rights = rights
        elif member not in known:
            self._end(connection, member)
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        else:
            session = known[member]
        if session.rights is not rights:
            if not all(map(allows, session.topics)):
                self._end(connection, member)
                return ErrorCode.SHARE_SESSION_NOT_FOUND
            session.rights = rights
        before = len(session.topics)
        session.topics.update(names)
        self.topics += len(session.topics) - before
        if self.topics > MAX_TOPICS:
            self._end(connection, member)
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        return ErrorCode.NONE

    def forget(self, connection: int) -> None:
        """Forget the sessions of a connection that has ended."""
        for session in self._sessions.pop(connection, {}).values():
            self.topics -= len(session.topics)

    def _end(self, connection: int, member: tuple[str, str]) -> None:
        known = self._sessions[connection]
        session = known.pop(member, None)
        if session is not None:
            self.topics -= len(session.topics)
        if not known:
            del self._sessions[connection]
