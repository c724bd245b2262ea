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

from policies.type_names import describe_value, nearest
from policies.validation import Problem
from policies.verdicts import short_repr

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping

    from policies.requests import Peer

PROOFS: Final = ("tls", "sasl", "token")
NAMELESS: Final = {"ANONYMOUS": "none", "UNKNOWN": "unknown"}
"""Users that are none, and their `Peer.principal_source`."""
MAX_REMEMBERED: Final = 10_000
"""Connections whose answer a Crowd remembers; then all are forgotten."""
_EXPECTED: Final = "a user, the beginning of names and *, or one of them after tls:, sasl:, token:, team: or client:"


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
            way, name = _parted(text)
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
            for group in peer.groups:
                found.update(self._named("team", group))
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


def _parted(text: str) -> tuple[str, str]:
    """Return (`tls`, `sasl`, `token`, `team`, `client` or "", the name or the pattern)."""
    way, colon, name = text.partition(":")
    if colon and way in {*PROOFS, "team", "client"}:
        return way, name
    return "", text


def who_mistakes(path: str, text: str) -> Iterator[Problem]:
    """Yield a problem with a text at `path` of the settings, if it has one."""
    way, name = _parted(text)
    if not name or "*" in name[:-1] or (way == "team" and name.endswith("*")):
        yield Problem(path, short_repr(text), _EXPECTED)


def crowd_mistakes(
    who: Iterable[str], teams: Mapping[str, Iterable[str]], key: str = "who"
) -> Iterator[Problem]:
    """Yield the problems of a list of texts at `key` of the settings, and of their `teams`."""
    for place, text in enumerate(who):
        yield from who_mistakes(f"{key}[{place}]", text)
    yield from team_mistakes(teams)


def team_mistakes(teams: Mapping[str, Iterable[str]]) -> Iterator[Problem]:
    """Yield the problems of the members of `teams`."""
    for team, members in teams.items():
        if not team or "*" in team:  # it would be the beginning of the groups of tokens
            yield Problem(f"teams.{team}", describe_value(team), "a name without *")
        for place, text in enumerate(members):
            path = f"teams.{team}[{place}]"
            yield from who_mistakes(path, text)
            if text.startswith("team:"):
                yield Problem(path, describe_value(text), "a user: teams have no teams")


def user_mistakes(
    who: Iterable[str], teams: Mapping[str, Iterable[str]], key: str, *, whole: bool = False
) -> Iterator[Problem]:
    """Yield the problems of a list of texts at `key` that must be users by name; `whole`: by the whole name."""
    words = "a user by the whole name" if whole else "a user, or the beginning of names and *"
    words += ", or a team of such: this counts for a user however proved"
    for place, text in enumerate(who):
        path = f"{key}[{place}]"
        wrong = list(who_mistakes(path, text))
        yield from wrong
        if wrong:
            continue
        is_team = text.startswith("team:")
        if is_team and text.removeprefix("team:") not in teams:
            near = nearest(text, [f"team:{team}" for team in teams])
            yield Problem(path, describe_value(text), "a team of the settings", near)
        for each in members_of((text,), teams):
            if _parted(each)[0] or (whole and each.endswith("*")):
                inside = f", which has {describe_value(each)}" if is_team else ""
                yield Problem(path, f"{describe_value(text)}{inside}", words)


def claim_hints(
    who: Iterable[str], teams: Mapping[str, Iterable[str]], key: str = "who"
) -> Iterator[str]:
    """Yield a text about each member that is found by a client id, with its path first."""
    lists = {key: who, **{f"teams.{team}": members for team, members in teams.items()}}
    for path, texts in lists.items():
        for place, text in enumerate(texts):
            if text.startswith("client:"):
                yield f"{path}[{place}]: a client id is no proof: any client can name this one, or another"
