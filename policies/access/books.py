"""What the policy `access` keeps: the rules that hold now, and what is known of connections.

Rules:
- A reload hands the books on. The instance that it replaces keeps them, too: what it still hears of is judged by the
  new rules.
- A client's rights are found at its first request, after it has authenticated again, and after the rules have changed.
- All of it goes with the connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.share_sessions import ShareSessions

if TYPE_CHECKING:
    from collections.abc import Collection

    from policies.access.judgement import Judgement
    from policies.access.rights import Rights, Subject
    from policies.requests import Peer, Request
    from policies.topics_question import TopicsQuestion

MAX_ASKED: Final = 100
"""Metadata requests in flight of one client of which it is noted what they ask for. In the replies to others, topics
that are not there stay unknown, and forbidden ones are left out."""


class Asked(NamedTuple):
    """What a Metadata has asked for."""

    creations: Collection[str]
    """Topics that the client may not create."""
    by_id: bool
    """Whether it has ids: then the reply names the topics."""


NOTHING: Final = Asked((), by_id=False)


class Client:
    """What is known of one connection."""

    __slots__ = ("asked", "named", "peer", "prepared", "question", "rights", "subject")

    peer: Peer
    rights: Rights
    subject: Subject

    def __init__(self, peer: Peer, rights: Rights) -> None:
        self.peer = peer
        self.rights = rights
        self.subject = rights.subject(peer)
        self.asked: dict[int, Asked] = {}
        """By Metadata request in flight."""
        self.named = 0
        """The last request for which Sluice has asked for the names of topics."""
        self.question: tuple[int, TopicsQuestion] | None = None
        """The last request before whose refusal the broker is asked which topics exist."""
        self.prepared: tuple[int, Rights, Judgement] | None = None
        """The judgement of a large request, by the rules of that time."""

    def take_prepared(self, request: Request) -> Judgement | None:
        """Return what `prepare` has found of a request by the rules that hold now, and forget it."""
        prepared, self.prepared = self.prepared, None
        if prepared is None or prepared[0] != request.id or prepared[1] is not self.rights:
            return None
        return prepared[2]

    def answer_to(self, request: Request) -> TopicsQuestion | None:
        """Return the question that this request has waited for, and forget it; None if it has not waited."""
        asked, self.question = self.question, None
        return asked[1] if asked is not None and asked[0] == request.id else None

    def ask(self, request_id: int, creations: Collection[str], *, by_id: bool) -> None:
        """Note what a Metadata asks for, if its reply must be changed for it."""
        if (creations or by_id) and len(self.asked) < MAX_ASKED:
            self.asked[request_id] = Asked(creations, by_id)


class Books:
    """The rules that hold now, and what is known of connections."""

    def __init__(self, rights: Rights) -> None:
        self.rights = rights
        self.clients: dict[int, Client] = {}
        self.share_sessions = ShareSessions()

    def client(self, peer: Peer) -> Client:
        """Return what is known of a client, with its rights by the rules that hold now."""
        client = self.clients.get(peer.session_id)
        if client is None:
            client = self.clients[peer.session_id] = Client(peer, self.rights)
        elif client.peer is not peer or client.rights is not self.rights:
            client.peer, client.rights = peer, self.rights
            client.subject = self.rights.subject(peer)
        return client

    def forget(self, peer: Peer) -> None:
        """Forget a client that has disconnected."""
        self.clients.pop(peer.session_id, None)
        self.share_sessions.forget(peer.session_id)
