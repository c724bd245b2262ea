"""The settings of the policy `access`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from policies.access.rights import Grant
from policies.name_patterns import pattern_mistake
from policies.type_names import describe_value, nearest
from policies.validation import Problem
from policies.who_settings import Teams, Who, claim_hints
from wire.authorization import ACTS, Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TOPIC: Final = (
    *("read", "write", "create", "delete", "alter", "describe", "describe-configs"),
    "alter-configs",
)
OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "topics": _TOPIC,
    "groups": ("read", "describe", "delete", "describe-configs", "alter-configs"),
    "transactions": ("describe", "write", "two-phase-commit"),
}
"""Kafka's operations on each kind, in lower case."""
MANAGE: Final = ("create", "delete", "alter", "describe-configs", "alter-configs")
"""What `manage` stands for, of those that a kind has."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Allows or denies operations on names, and acts on the cluster."""

    who: tuple[Who, ...]
    """Users, `prefix*`, `team:`, and `tls:`, `sasl:` or `token:` before a user that must have been proved so."""
    effect: Literal["allow", "deny"] = "allow"
    """A deny wins over every allow."""
    topics: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """Operations by a topic's name, or the beginning of names and `*`."""
    groups: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The same of groups."""
    transactions: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The same of transactional ids."""
    cluster: tuple[str, ...] = ()
    """Acts on the cluster."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for a rule about nobody or nothing, and for each text that is none of its kind."""
        if not self.who:
            yield Problem("who", "nobody", "users, teams, or '*' for every authenticated user")
        if not (self.topics or self.groups or self.transactions or self.cluster):
            yield Problem(
                "", "a rule about nothing", "topics, groups, transactions, cluster, or several"
            )
        for kind, operations in OPERATIONS.items():
            for pattern, given in getattr(self, kind).items():
                path = f"{kind}.{pattern}"
                yield from pattern_mistake(path, pattern)
                if not given:
                    yield Problem(path, "no operation", "one at least")
                for place, each in enumerate(given):
                    yield from _unknown(f"{path}[{place}]", each, (*operations, "manage", "all"))
        for place, act in enumerate(self.cluster):
            yield from _unknown(f"cluster[{place}]", act, (*ACTS, "all"))

    def grant(self) -> Grant:
        """Return the rule as the rights understand it."""
        masks = {
            kind: {pattern: _mask(given, OPERATIONS[kind]) for pattern, given in patterns.items()}
            for kind, patterns in (
                ("topics", self.topics),
                ("groups", self.groups),
                ("transactions", self.transactions),
            )
        }
        acts = set(ACTS if "all" in self.cluster else map(_named, self.cluster))
        if self.effect == "allow":  # as ALTER allows DESCRIBE
            acts |= {each.replace("alter", "describe") for each in acts}.intersection(ACTS)
        return Grant(
            self.who,
            self.effect == "allow",
            masks["topics"],
            masks["groups"],
            masks["transactions"],
            frozenset(acts),
        )


class AccessConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of the policy."""

    rules: tuple[Rule, ...]
    """The rules, in any order: a deny wins, else an allow, else the request is refused."""
    teams: Teams = msgspec.field(default_factory=dict)
    """Members of each team, as in `who`. A group of a client's token is a team, too."""
    auto_create_topics_enable: bool = True
    """Whether the brokers create topics that clients ask for (Kafka's setting of this name)."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem without a rule."""
        if not self.rules:
            yield Problem("rules", "no rule", "at least one: without any, every request is refused")

    def hints(self) -> Iterator[str]:
        """Yield a text for each client id that a rule allows something, or that makes a member of a team."""
        for number, rule in enumerate(self.rules):
            if rule.effect == "allow":
                yield from claim_hints(rule.who, {}, f"rules[{number}].who")
        yield from claim_hints((), self.teams)

    def grants(self) -> Iterator[Grant]:
        """Yield the rules as the rights understand them."""
        return (rule.grant() for rule in self.rules)


def _named(text: str) -> str:
    return text.replace("_", "-")


def _unknown(path: str, text: str, known: Iterable[str]) -> Iterator[Problem]:
    known = tuple(known)
    if _named(text) not in known:
        words = ", ".join(known)
        yield Problem(path, describe_value(text), f"one of {words}", nearest(text, known))


def _mask(given: Iterable[str], operations: tuple[str, ...]) -> int:
    mask = 0
    for each in map(_named, given):
        names = operations if each == "all" else MANAGE if each == "manage" else (each,)
        for name in names:
            if name in operations:
                mask |= 1 << Operation[name.replace("-", "_").upper()]
    return mask
