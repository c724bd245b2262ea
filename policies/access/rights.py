"""The rights that rules give to a client: a mask of operations for each name, found by dicts.

Rules:
- A deny wins over every allow; what nothing allows is denied. The order of the rules decides nothing.
- Each answer is remembered, MAX_REMEMBERED of them for all clients together, but none of a name that is longer than
  MAX_CHARS: no topic has such a one, and some client may send 32,767 characters each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakValueDictionary

from policies.access.edges import next_shown
from policies.access.patterns import Table, edges, left, of_all, of_any, of_internal
from policies.who import Audience
from wire.authorization import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.requests import Peer

MAX_REMEMBERED: Final = 100_000
"""Names whose masks are remembered, some 20 MB with ordinary names; then all are forgotten."""
MAX_CHARS: Final = 249
"""Of a name that is remembered (Kafka: `Topic.MAX_NAME_LENGTH`)."""
_KINDS: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
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


class Rights:
    """All rules of one revision."""

    def __init__(self, grants: Iterable[Grant], teams: Mapping[str, Iterable[str]]) -> None:
        self.audience = Audience(teams)
        self._tables: dict[ResourceType, dict[int, Table]] = {kind: {} for kind in _KINDS}
        """By kind, and by the number of a text of `who`."""
        self._acts: dict[int, tuple[set[str], set[str]]] = {}
        self._subjects: WeakValueDictionary[frozenset[int], Subject] = WeakValueDictionary()
        """Those that some client has: one for all clients that the same texts of `who` fit."""
        self._remembered = 0
        for grant in grants:
            said = (grant.topics, grant.groups, grant.transactional_ids)
            for number in map(self.audience.number, grant.who):
                for tables, masks in zip(self._tables.values(), said, strict=True):
                    if masks:
                        table = tables.setdefault(number, Table())
                        for pattern, mask in masks.items():
                            table.add(pattern, mask, allows=grant.allows)
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
            topics, groups, ids = (
                tuple(tables[number] for number in who if number in tables)
                for tables in self._tables.values()
            )
            found = Subject(self, topics, groups, ids, frozenset(allowed - denied))
            self._subjects[who] = found
        return found

    def remember(self) -> None:
        """Count an answer that is remembered; forget all of them when there are too many."""
        self._remembered += 1
        if self._remembered >= MAX_REMEMBERED:
            self._remembered = 0
            for subject in list(self._subjects.values()):
                subject.forget()


class Subject:
    """What one client may do. `topics`, `groups` and `transactional_ids` have the masks that were asked for so far."""

    __slots__ = (
        *("__weakref__", "_all_topics", "_edges", "_group_tables", "_id_tables", "_rights"),
        *("_topic_tables", "_writes", "acts", "groups", "topics", "transactional_ids"),
    )

    def __init__(
        self,
        rights: Rights,
        topic_tables: tuple[Table, ...],
        group_tables: tuple[Table, ...],
        id_tables: tuple[Table, ...],
        acts: frozenset[str],
    ) -> None:
        self._rights = rights
        self._topic_tables = topic_tables
        self._group_tables = group_tables
        self._id_tables = id_tables
        self.acts = acts
        self.topics: dict[str | None, int] = {}
        self.groups: dict[str | None, int] = {}
        self.transactional_ids: dict[str | None, int] = {}
        self._all_topics: int | None = None
        self._edges: list[str] | None = None
        self._writes: bool | None = None

    def mask(self, kind: ResourceType, name: str) -> int:
        """Return the mask of what may be done with a topic, a group or a transactional id."""
        if kind is ResourceType.TOPIC:
            return self.topic(name)
        return self.group(name) if kind is ResourceType.GROUP else self.transactional_id(name)

    def topic(self, name: str) -> int:
        """Return the mask of what may be done with a topic."""
        found = self.topics.get(name)
        return self._find(self._topic_tables, self.topics, name) if found is None else found

    def group(self, name: str) -> int:
        """Return the mask of what may be done with a group."""
        found = self.groups.get(name)
        return self._find(self._group_tables, self.groups, name) if found is None else found

    def transactional_id(self, name: str) -> int:
        """Return the mask of what may be done with a transactional id."""
        ids = self.transactional_ids
        found = ids.get(name)
        return self._find(self._id_tables, ids, name) if found is None else found

    def internal_topics(self) -> int:
        """Return the mask of what may be done with every topic whose name begins with `__`."""
        return of_internal(self._topic_tables)

    def all_topics(self) -> int:
        """Return the mask of what may be done with every topic, but those whose names begin with `__`."""
        if self._all_topics is None:
            self._all_topics = of_all(self._topic_tables)
        return self._all_topics

    def next_topic(self, name: str) -> str | None:
        """Return a name after a hidden topic before which no topic may be described; None: none comes."""
        if self._edges is None:
            self._edges = edges(self._topic_tables)
        return next_shown(self._edges, name, self._is_shown)

    def writes_idempotently(self) -> bool:
        """Return whether the client may write without a transactional id as an idempotent producer."""
        if self._writes is None:
            self._writes = "idempotent-write" in self.acts or of_any(self._topic_tables, WRITE)
        return self._writes

    def forget(self) -> None:
        """Find all masks again."""
        self.topics.clear()
        self.groups.clear()
        self.transactional_ids.clear()
        self._edges = None

    def _is_shown(self, topic: str) -> bool:
        """Return whether a topic may be described. It need not exist, so it is not remembered."""
        return bool(left(_said(self._topic_tables, topic)) & DESCRIBE)

    def _find(self, tables: tuple[Table, ...], known: dict[str | None, int], name: str) -> int:
        found = left(_said(tables, name))
        if len(name) <= MAX_CHARS:
            self._rights.remember()
            known[name] = found
        return found


def _said(tables: tuple[Table, ...], name: str) -> int:
    said = 0
    for table in tables:
        said |= table.said_of(name)
    return said
