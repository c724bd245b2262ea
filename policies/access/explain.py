"""Why a client has a right or not: the rule that decides.

Rules:
- All rules are gone through, one after the other. Requests are judged by `policies.access.rights` instead, which must
  agree with this: a test compares them.
- A deny decides before every allow; of several the first in the file is named.
- To have the right to all topics (`name` is None) takes an allow of `*`, and no deny of any topic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.patterns import INTERNAL, with_implied
from policies.who import NAMELESS, PROOFS
from wire.authorization import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.access.rights import Grant
    from policies.requests import Peer

IDEMPOTENT_WRITE: Final = "idempotent-write"


class FittingRule(NamedTuple):
    """A rule about a client."""

    place: int
    """In the list `rules`."""
    who: str
    """The text of `who` that fits the client."""
    grant: Grant


class Reason(NamedTuple):
    """Whether a client has a right, and the rule that says so."""

    is_allowed: bool
    place: int | None = None
    """In the list `rules`; None: no rule allows it."""
    who: str = ""
    pattern: str = ""
    """What fits the name; of the cluster: the act. Without a rule: why none can allow it, if none can."""


NO_RULE: Final = Reason(is_allowed=False)


def fitting_rules(
    grants: Iterable[Grant], teams: Mapping[str, Iterable[str]], peer: Peer
) -> tuple[FittingRule, ...]:
    """Return the rules about a client, in the order of the file."""
    found = []
    for place, grant in enumerate(grants):
        for text in grant.who:
            if _is_about(text, peer, teams):
                found.append(FittingRule(place, text, grant))
                break
    return tuple(found)


def reason_of(
    rules: Iterable[FittingRule], kind: ResourceType, name: str | None, operation: Operation
) -> Reason:
    """Return whether the rules about a client give it this right. Of the cluster `name` is the act."""
    if kind == ResourceType.CLUSTER:
        return _reason_of_act(tuple(rules), name or "")
    allowed = NO_RULE
    for rule in rules:
        grant = rule.grant
        for pattern, mask in masks_of(grant, kind).items():
            given = with_implied(mask) if grant.allows else mask
            if given & 1 << operation and _covers(pattern, name, allows=grant.allows):
                reason = Reason(grant.allows, rule.place, rule.who, pattern)
                if not grant.allows:
                    return reason
                if allowed is NO_RULE:
                    allowed = reason
    return allowed


class Share(NamedTuple):
    """What a client may do with all names of a pattern, unless a longer pattern says otherwise."""

    pattern: str
    mask: int
    places: tuple[int, ...]
    """The rules that have a part in it."""


def shares_of(rules: Iterable[FittingRule], kind: ResourceType) -> Iterator[Share]:
    """Yield what the rules about a client say of each pattern of a kind, in alphabetical order."""
    rules = tuple(rules)
    for pattern in sorted({each for rule in rules for each in masks_of(rule.grant, kind)}):
        allowed = denied = 0
        places = set()
        for rule in rules:
            for wider, mask in masks_of(rule.grant, kind).items():
                if pattern == wider or (wider.endswith("*") and _is_shown(pattern, rule, wider)):
                    places.add(rule.place)
                    if rule.grant.allows:
                        allowed |= with_implied(mask)
                    else:
                        denied |= mask
        yield Share(pattern, allowed & ~denied, tuple(sorted(places)))


def _is_shown(pattern: str, rule: FittingRule, wider: str) -> bool:
    name = pattern.removesuffix("*")
    return _is_within(pattern, wider) and _covers(wider, name, allows=rule.grant.allows)


def masks_of(grant: Grant, kind: ResourceType) -> Mapping[str, int]:
    """Return the masks of one kind of names, by pattern."""
    if kind == ResourceType.TOPIC:
        return grant.topics
    return grant.groups if kind == ResourceType.GROUP else grant.transactional_ids


def _reason_of_act(rules: tuple[FittingRule, ...], act: str) -> Reason:
    named = [
        Reason(rule.grant.allows, rule.place, rule.who, act)
        for rule in rules
        if act in rule.grant.acts
    ]
    decided = next((each for each in named if not each.is_allowed), named[0] if named else NO_RULE)
    if decided.is_allowed or act != IDEMPOTENT_WRITE:
        return decided
    # Who may write to any topic may do so idempotently, whatever is said of the act.
    return _reason_of_any_topic(rules, 1 << Operation.WRITE) or decided


def _reason_of_any_topic(rules: tuple[FittingRule, ...], mask: int) -> Reason | None:
    """Return the first allow of `mask` that no deny covers whole (`Authorizer.authorizeByResourceType`)."""
    denied = [
        pattern
        for rule in rules
        if not rule.grant.allows
        for pattern, each in rule.grant.topics.items()
        if each & mask
    ]
    for rule in rules:
        for pattern, each in rule.grant.topics.items() if rule.grant.allows else ():
            if each & mask and not any(_is_within(pattern, wider) for wider in denied):
                return Reason(True, rule.place, rule.who, pattern)
    return None


def _is_within(pattern: str, wider: str) -> bool:
    if not wider.endswith("*"):
        return pattern == wider
    return pattern.removesuffix("*").startswith(wider[:-1])


def _covers(pattern: str, name: str | None, *, allows: bool) -> bool:
    if name is None:
        return pattern == "*" or not allows
    if not pattern.endswith("*"):
        return pattern == name
    is_hidden = allows and name.startswith(INTERNAL) and not pattern.startswith(INTERNAL)
    return name.startswith(pattern[:-1]) and not is_hidden


def _is_about(text: str, peer: Peer, teams: Mapping[str, Iterable[str]]) -> bool:
    way, colon, name = text.partition(":")
    if colon and way == "client":
        return _has(name, peer.client_id)
    is_named = peer.principal_source not in NAMELESS.values()
    if colon and way == "team":
        if is_named and name in peer.groups:
            return True
        return any(_is_about(member, peer, teams) for member in teams.get(name, ()))
    if not is_named:
        return text == peer.user and NAMELESS.get(peer.user) == peer.principal_source
    if colon and way in PROOFS:
        proof = "token" if peer.proof == "claim" else peer.proof.partition(":")[0]
        return proof == way and _has(name, peer.user)
    return text == "*" or (_has(text, peer.user) and peer.user not in NAMELESS)


def _has(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
