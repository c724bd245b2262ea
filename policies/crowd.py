"""The clients that a list of texts is about (`policies.who`), for policies that ask no more than yes or no."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.who import NAMELESS, Audience

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from policies.requests import Peer

MAX_REMEMBERED: Final = 10_000
"""Connections whose answer a Crowd remembers at most; then all are forgotten."""


class Crowd:
    """The clients that one of some texts fits; without texts nobody.

    A connection is looked up once, and again when what is known of its client has changed. `limits`, `records` and
    `quota` ask it; `access` has a Subject in its place.
    """

    def __init__(self, who: Iterable[str], teams: Mapping[str, Iterable[str]]) -> None:
        self._audience = Audience(teams)
        self._who = frozenset(map(self._audience.number, who))
        self._known: dict[int, tuple[Peer, bool]] = {}

    def __bool__(self) -> bool:
        """Return whether there is a text."""
        return bool(self._who)

    def has(self, peer: Peer) -> bool:
        """Return whether a client is one of them."""
        known = self._known.get(peer.session_id)
        if known is not None and known[0] is peer:
            return known[1]
        if len(self._known) >= MAX_REMEMBERED:
            self._known.clear()
        found = not self._who.isdisjoint(self._audience.numbers_of(peer))
        self._known[peer.session_id] = peer, found
        return found

    def forget(self, peer: Peer) -> None:
        """Forget a connection that has ended: for `on_disconnect`."""
        self._known.pop(peer.session_id, None)


class _Users:
    """Names, and beginnings of names: these fit no client without a name."""

    def __init__(self, names: frozenset[str], prefixes: tuple[str, ...]) -> None:
        self._names = names
        self._prefixes = prefixes

    def __contains__(self, user: object) -> bool:
        """Return whether a user is one of them."""
        named = user not in NAMELESS and str(user).startswith(self._prefixes)
        return named or user in self._names


def users_of(who: Iterable[str], teams: Mapping[str, Iterable[str]]) -> Container[str]:
    """Return the names that one of some texts fits, for books that know a client by its user alone."""
    texts = frozenset(members_of(who, teams))
    names = frozenset(text for text in texts if not text.endswith("*"))
    prefixes = tuple(text[:-1] for text in texts if text.endswith("*"))
    return _Users(names, prefixes) if prefixes else names


def members_of(who: Iterable[str], teams: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield each text once, and the members of a team of the settings in its place."""
    seen: set[str] = set()
    for text in who:
        for each in (
            teams.get(text.removeprefix("team:"), ()) if text.startswith("team:") else (text,)
        ):
            if each not in seen:
                seen.add(each)
                yield each
