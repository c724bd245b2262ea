"""The texts of `policies.who` as settings: types that check themselves, and what else may be wrong with them.

class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
who: tuple[Who, ...] = ()
teams: Teams = msgspec.field(default_factory=dict)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from policies.crowd import members_of
from policies.type_names import describe_value, nearest
from policies.validation import Problem
from policies.who import PROOFS, parted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TEXT: Final = "a user, the beginning of names and *, or one of them after tls:, sasl:, token:, team: or client:"


_WAYS: Final = (*PROOFS, "team", "client")


def _check_who(value: object) -> tuple[str, str] | None:
    way, name = parted(str(value))
    if not way and (meant := _meant(name)):  # a deny that is about nobody denies nothing
        return _TEXT, meant
    good = name and "*" not in name[:-1] and not (way == "team" and name.endswith("*"))
    return None if good else (_TEXT, "")


def _meant(text: str) -> str:
    """Return what is meant by Kafka's `User:alice`, or by a proof in other letters; "" for a user's name."""
    kind, colon, name = text.partition(":")
    if kind == "User":
        return name
    return f"{kind.lower()}:{name}" if colon and kind.lower() in _WAYS else ""


def _check_member(value: object) -> tuple[str, str] | None:
    if str(value).startswith("team:"):
        return "a user: teams have no teams", ""
    return _check_who(value)


def _check_team(value: object) -> tuple[str, str] | None:
    # With a * it would be the beginning of the groups of tokens.
    return None if value and "*" not in str(value) else ("a name without *", "")


Who = Annotated[str, msgspec.Meta(extra={"check": _check_who})]
"""A text that names clients in one way: a user, `prefix*`, `team:NAME`, `tls:USER`, ..."""
Teams = dict[
    Annotated[str, msgspec.Meta(extra={"check": _check_team})],
    tuple[Annotated[str, msgspec.Meta(extra={"check": _check_member})], ...],
]
"""The members of teams, by the team's name."""


def user_mistakes(
    who: Iterable[str], teams: Mapping[str, Iterable[str]], key: str, *, whole: bool = False
) -> Iterator[Problem]:
    """Yield the problems of a list of texts at `key` that must be users by name; `whole`: by the whole name."""
    words = "a user by the whole name" if whole else "a user, or the beginning of names and *"
    words += ", or a team of such: this counts for a user however proved"
    for place, text in enumerate(who):
        path = f"{key}[{place}]"
        is_team = text.startswith("team:")
        if is_team and text.removeprefix("team:") not in teams:
            near = nearest(text, [f"team:{team}" for team in teams])
            yield Problem(path, describe_value(text), "a team of the settings", near)
        for each in members_of((text,), teams):
            if parted(each)[0] or (whole and each.endswith("*")):
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
