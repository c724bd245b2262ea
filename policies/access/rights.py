"""The rights that rules give to a client: a mask of operations for each name, found by dicts.

Rules:
- A deny wins over every allow; what nothing allows is denied. The order of the rules decides nothing.
- READ, WRITE, DELETE and ALTER allow DESCRIBE, ALTER_CONFIGS allows DESCRIBE_CONFIGS, as in Kafka. A denied READ denies
  no DESCRIBE.
- A name that begins with `__` is fitted only by patterns that begin so, and by itself: `*` gives no internal topic.
- A mask has the bit `1 << operation`, as AuthorizedOperations have in Kafka's replies.
- A name costs one look for each length that a pattern has and each text of `who` that fits the client, however many
  rules there are. Each answer is remembered, MAX_REMEMBERED of them for all clients together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from policies.access.edges import edges_of, next_shown
from policies.who import Audience
from wire.authorization import ACTS, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.requests import Peer

MAX_REMEMBERED: Final = 200_000
"""Names whose masks are remembered; then all are forgotten."""
INTERNAL: Final = "__"
_IMPLIED: Final = (
    (Operation.DESCRIBE, (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)),
    (Operation.DESCRIBE_CONFIGS, (Operation.ALTER_CONFIGS,)),
)
WRITE: Final = 1 << Operation.WRITE
DESCRIBE: Final = 1 << Operation.DESCRIBE


class Grant(NamedTuple):
    """A rule, as the rights understand it. Masks by pattern (a name, or a beginning and `*`)."""

    who: tuple[str, ...]
    allows: bool
    topics: Mapping[str, int]
    groups: Mapping[str, int]
    transactional_ids: Mapping[str, int]
    acts: frozenset[str]


class Masks(NamedTuple):
    """What is allowed, and what is denied, with what it implies."""

    allowed: int
    denied: int

    @property
    def left(self) -> int:
        """What may be done."""
        return self.allowed & ~self.denied


NOTHING: Final = Masks(0, 0)


class _Patterns:
    """The masks of one kind of names: by pattern, and by the number of a text of `who`."""

    def __init__(self) -> None:
        self._names: dict[str, dict[int, Masks]] = {}
        self._prefixes: dict[str, dict[int, Masks]] = {}
        self._lengths: list[int] = []

    def add(self, pattern: str, who: Iterable[int], mask: int, *, allows: bool) -> None:
        """Add what one rule says."""
        prefix = pattern[:-1]
        if pattern.endswith("*"):
            by_who = self._prefixes.setdefault(prefix, {})
            if len(prefix) not in self._lengths:
                self._lengths.append(len(prefix))
        else:
            by_who = self._names.setdefault(pattern, {})
        for number in who:
            allowed, denied = by_who.get(number, NOTHING)
            by_who[number] = Masks(
                allowed | with_implied(mask) if allows else allowed,
                denied if allows else denied | mask,
            )

    def masks(self, name: str, who: Iterable[int]) -> Masks:
        """Return the masks that all patterns together give to a name, for a client with these numbers."""
        found = [self._names[name]] if name in self._names else []
        is_internal = name.startswith(INTERNAL)
        for length in self._lengths:
            if length <= len(name) and (length >= len(INTERNAL) or not is_internal):
                by_who = self._prefixes.get(name[:length])
                if by_who is not None:
                    found.append(by_who)
        return _joined(found, who)

    def of_all(self, who: Iterable[int]) -> Masks:
        """Return what is allowed for every name (`*`), and what is denied for any."""
        allowed = _joined([self._prefixes.get("", {})], who).allowed
        denied = _joined([*self._names.values(), *self._prefixes.values()], who).denied
        return Masks(allowed, denied)

    def edges(self, who: frozenset[int]) -> list[str]:
        """Return the edges of the rules that fit a client (`policies.access.edges`)."""
        names, prefixes = (
            [pattern for pattern, by_who in patterns.items() if not who.isdisjoint(by_who)]
            for patterns in (self._names, self._prefixes)
        )
        return edges_of(names, [*prefixes, INTERNAL])

    def of_any(self, who: Iterable[int], mask: int) -> bool:
        """Return whether `mask` is allowed for any name: by a pattern that no wider denied one covers.

        Kafka: `Authorizer.authorizeByResourceType`.
        """
        who = frozenset(who)
        for prefixes, patterns in ((False, self._names), (True, self._prefixes)):
            for pattern, by_who in patterns.items():
                masks = _joined([by_who], who)
                if not masks.allowed & mask or (not prefixes and masks.denied & mask):
                    continue
                wider = [
                    self._prefixes[pattern[:length]]
                    for length in self._lengths
                    if length <= len(pattern) and pattern[:length] in self._prefixes
                ]
                if not _joined(wider, who).denied & mask:
                    return True
        return False


class Rights:
    """All rules of one revision."""

    def __init__(self, grants: Iterable[Grant], teams: Mapping[str, Iterable[str]]) -> None:
        self.audience = Audience(teams)
        self._patterns = {
            ResourceType.TOPIC: _Patterns(),
            ResourceType.GROUP: _Patterns(),
            ResourceType.TRANSACTIONAL_ID: _Patterns(),
        }
        self._acts: dict[int, tuple[set[str], set[str]]] = {}
        self._subjects: dict[frozenset[int], Subject] = {}
        self._remembered = 0
        for grant in grants:
            who = [self.audience.number(text) for text in grant.who]
            for kind, masks in (
                (ResourceType.TOPIC, grant.topics),
                (ResourceType.GROUP, grant.groups),
                (ResourceType.TRANSACTIONAL_ID, grant.transactional_ids),
            ):
                for pattern, mask in masks.items():
                    self._patterns[kind].add(pattern, who, mask, allows=grant.allows)
            for number in who:
                acts = self._acts.setdefault(number, (set(), set()))
                acts[not grant.allows].update(grant.acts)

    def subject(self, peer: Peer) -> Subject:
        """Return what a client may do. Clients that the same rules fit share it."""
        who = self.audience.numbers_of(peer)
        found = self._subjects.get(who)
        if found is None:
            allowed: set[str] = set()
            denied: set[str] = set()
            for number in who & self._acts.keys():
                allowed |= self._acts[number][0]
                denied |= self._acts[number][1]
            found = self._subjects[who] = Subject(self, who, frozenset(allowed - denied))
            self.remember()
        return found

    def masks(self, kind: ResourceType, name: str, who: frozenset[int]) -> Masks:
        """Return the masks of a name."""
        return self._patterns[kind].masks(name, who)

    def of_all(self, kind: ResourceType, who: frozenset[int]) -> Masks:
        """Return what is allowed for every name of a kind, and what is denied for any."""
        return self._patterns[kind].of_all(who)

    def topic_edges(self, who: frozenset[int]) -> list[str]:
        """Return the names of topics at which the rights of a client change."""
        return self._patterns[ResourceType.TOPIC].edges(who)

    def of_any_topic(self, who: frozenset[int], mask: int) -> bool:
        """Return whether `mask` is allowed for any topic."""
        return self._patterns[ResourceType.TOPIC].of_any(who, mask)

    def remember(self) -> None:
        """Count an answer that is remembered; forget all of them when there are too many."""
        self._remembered += 1
        if self._remembered >= MAX_REMEMBERED:
            self._remembered = 0
            for subject in self._subjects.values():
                subject.forget()
            self._subjects.clear()


class Subject:
    """What one client may do. `topics`, `groups` and `transactional_ids` have the masks that were asked for so far."""

    __slots__ = (
        *("_all_topics", "_edges", "_rights", "_who"),
        *("acts", "groups", "topics", "transactional_ids"),
    )

    def __init__(self, rights: Rights, who: frozenset[int], acts: frozenset[str]) -> None:
        self._rights = rights
        self._who = who
        self.acts = acts
        self.topics: dict[str, int] = {}
        self.groups: dict[str, int] = {}
        self.transactional_ids: dict[str, int] = {}
        self._all_topics: int | None = None
        self._edges: list[str] | None = None

    def topic(self, name: str) -> int:
        """Return the mask of what may be done with a topic."""
        found = self.topics.get(name)
        return self._find(ResourceType.TOPIC, self.topics, name) if found is None else found

    def group(self, name: str) -> int:
        """Return the mask of what may be done with a group."""
        found = self.groups.get(name)
        return self._find(ResourceType.GROUP, self.groups, name) if found is None else found

    def transactional_id(self, name: str) -> int:
        """Return the mask of what may be done with a transactional id."""
        found = self.transactional_ids.get(name)
        if found is None:
            return self._find(ResourceType.TRANSACTIONAL_ID, self.transactional_ids, name)
        return found

    def all_topics(self) -> int:
        """Return the mask of what may be done with every topic, whatever its name."""
        if self._all_topics is None:
            self._all_topics = self._rights.of_all(ResourceType.TOPIC, self._who).left
        return self._all_topics

    def next_topic(self, name: str) -> str | None:
        """Return the first name after a hidden topic that may be described, by the rules; None: there is none."""
        if self._edges is None:
            self._edges = self._rights.topic_edges(self._who)
        return next_shown(self._edges, name, self._is_shown)

    def writes_idempotently(self) -> bool:
        """Return whether the client may write without a transactional id as an idempotent producer."""
        return "idempotent-write" in self.acts or self._rights.of_any_topic(self._who, WRITE)

    def forget(self) -> None:
        """Find all masks again."""
        self.topics.clear()
        self.groups.clear()
        self.transactional_ids.clear()
        self._edges = None

    def _is_shown(self, topic: str) -> bool:
        """Return whether a topic may be described. It need not exist, so it is not remembered."""
        return bool(self._rights.masks(ResourceType.TOPIC, topic, self._who).left & DESCRIBE)

    def _find(self, kind: ResourceType, known: dict[str, int], name: str) -> int:
        self._rights.remember()
        found = known[name] = self._rights.masks(kind, name, self._who).left
        return found


def with_implied(mask: int) -> int:
    """Return the mask with the operations that those in it imply."""
    for implied, givers in _IMPLIED:
        if any(mask & 1 << each for each in givers):
            mask |= 1 << implied
    return mask


def _joined(found: Iterable[Mapping[int, Masks]], who: Iterable[int]) -> Masks:
    allowed = denied = 0
    for by_who in found:
        for number in who:
            masks = by_who.get(number)
            if masks is not None:
                allowed |= masks.allowed
                denied |= masks.denied
    return Masks(allowed, denied)


ALL_ACTS: Final = frozenset(ACTS)
