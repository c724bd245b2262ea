"""Whom a rule is about: users, beginnings of their names, teams, and how a name must have been proved.

    billing             a user, proved in any way
    analyst-*           users whose names begin so
    '*'                 every authenticated user
    tls:enricher        a user proved by a certificate; sasl: and token: likewise, also with a beginning and *
    team:billing        the members of a team of the settings, or who has the group in the token
    client:etl-*        a client id, which is a claim and no proof
    ANONYMOUS           a client without authentication; UNKNOWN: one whose name only the broker knows

Rules:
- ANONYMOUS and UNKNOWN are found by these very words, never by a pattern. An authenticated user with such a name is
  found by `*` and by a proof (`sasl:UNKNOWN`) alone.
- Each text has a number. A client has the numbers of all texts that fit it, found once: by dicts, not by going through
  the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.requests import Peer

PROOFS: Final = ("tls", "sasl", "token")
NAMELESS: Final = {"ANONYMOUS": "none", "UNKNOWN": "unknown"}
"""Users that are none, and their `Peer.principal_source`."""


class Audience:
    """All texts of a set of rules. `teams`: the texts of each team's members."""

    def __init__(self, teams: Mapping[str, Iterable[str]]) -> None:
        self._numbers: dict[str, int] = {}
        self._exact: dict[tuple[str, str], int] = {}
        self._prefixes: dict[tuple[str, str], int] = {}
        self._lengths: set[int] = set()
        self._teams: dict[int, list[int]] = {}
        """By the number of a member's text: the numbers of the teams."""
        for team, members in teams.items():
            number = self.number(f"team:{team}")
            for member in members:
                self._teams.setdefault(self.number(member), []).append(number)

    def number(self, text: str) -> int:
        """Return the number of a text, which it gets now if it has none."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self._numbers)
            way, name = parted(text)
            if name.endswith("*"):
                self._prefixes[way, name[:-1]] = found
                self._lengths.add(len(name) - 1)
            else:
                self._exact[way, name] = found
        return found

    def numbers_of(self, peer: Peer) -> frozenset[int]:
        """Return the numbers of all texts that fit a client."""
        user, source = peer.user, peer.principal_source
        found = {*self._named("client", peer.client_id)}
        if NAMELESS.get(user) == source:
            found |= {self._exact[key] for key in (("", user),) if key in self._exact}
        elif source not in NAMELESS.values():
            is_usual = user not in NAMELESS
            found.update(self._named("", user) if is_usual else self._named("", "", "*"))
            for way in PROOFS:
                if peer.proof.partition(":")[0] == way or (way, peer.proof) == ("token", "claim"):
                    found.update(self._named(way, user))
            for group in peer.groups:  # a token may have a thousand; teams have no patterns
                number = self._exact.get(("team", group))
                if number is not None:
                    found.add(number)
        for number in tuple(found):
            found.update(self._teams.get(number, ()))
        return frozenset(found)

    def _named(self, way: str, name: str, only: str = "") -> Iterator[int]:
        number = self._exact.get((way, name)) if not only else None
        if number is not None:
            yield number
        for length in (0,) if only else self._lengths:
            if length <= len(name):
                number = self._prefixes.get((way, name[:length]))
                if number is not None:
                    yield number


def parted(text: str) -> tuple[str, str]:
    """Return (`tls`, `sasl`, `token`, `team`, `client` or "", the name or the pattern)."""
    way, colon, name = text.partition(":")
    if colon and way in {*PROOFS, "team", "client"}:
        return way, name
    return "", text
