"""Where requests name topics, groups and transactional ids: one line for each API, and the parts of one version.

- The facts are Kafka's message definitions (releases 3.9 to 4.4); a test compares them with the codec's.
- A line lists the fields in order. A version range follows `@`: `4@3+`, `8@2-4`, `1@0`.
- `1` to `16`: a field of so many bytes. `s`: a string. `b`: bytes. `p`: a partition. `t`: a topic's name. `i`: a
  topic's id. `n`: a topic's name that may be null, beside others. `g`: a group. `x`: a pattern that selects topics, if
  it is not empty. `e`: the epoch of a session; above 0 the request leaves out topics.
- `{...}`: an array of structs. `[...]`: an array of plain values. `<...>`: a struct. `(...)`: one that may be null. `?`
  after an array: null means all topics. `!`: no element means all topics.
- `r`: type and name of a config resource. `a`: type, name and pattern type of an ACL's resource. `k`: key and type of
  a coordinator; `q`: its type and an array of keys.
- No known tagged field comes before a name, so tags are stepped over; but those of a fetched partition do, and their
  sizes are checked (`FETCH_TAG_BYTES`). One tagged field says more than a broker may ignore: from Fetch v15 on, the
  replica (`REPLICA_SINCE`).
- Not listed as topics: those that a fetch forgets, and the partitions that a group's member says it owns.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from wire.apis import key_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wire.apis import Api

FETCH_TAGS_SINCE: Final = 17
FETCH_TAG_BYTES: Final = {0: 16, 1: 8}
"""The known tags of a fetched partition: a replica's directory, and its high watermark. Clients send neither."""
REPLICA_SINCE: Final = 15
"""The first version of Fetch in which a replica says so in a tagged field."""

_TABLE: Final = """
Produce                    u@3+ 2 4 {t@0-12 i@13+ {p b}}
Fetch                      o@0-14 4 4 4@3+ 1@4+ 4@7+ e@7+
                           {t@0-12 i@13+ {p 4@9+ 8 4@12+ 8@5+ 4}} {s@0-12 16@13+ [4]}@7+ s@11+
ListOffsets                4 1@2+ {t {p 4@4+ 8 4@0}} 4@10+
Metadata                   {i@10+ t}!@0 {i@10+ t}?@1+ y@4+ 1@8-10 1@8+
OffsetCommit               g 4@1+ s@1+ s@7+ 8@2-4 {t@0-9 i@10+ {p 8 4@6+ 8@1 s}}
OffsetFetch                g@0-7 {t [p]}?@0-7 {g s@9+ 4@9+ {t@8-9 i@10+ [p]}?}@8+ 1@7+
FindCoordinator            g@0 k@1-3 q@4+
JoinGroup                  g 4 4@1+ s s@5+ s {s b} s@8+
Heartbeat                  g 4 s s@3+
LeaveGroup                 g s@0-2 {s s s@5+}@3+
SyncGroup                  g 4 s s@3+ s@5+ s@5+ {s b}
DescribeGroups             [g] 1@3+
CreateTopics               {t 4 2 {4 [4]} {s s}} 4 1@1+
DeleteTopics               [t]@0-5 {t i}@6+ 4
DeleteRecords              {t {p 8}} 4
InitProducerId             u 4 8@3+ 2@3+ 1@6+ 1@6+
OffsetForLeaderEpoch       4@3+ {t {p 4@2+ 4}}
AddPartitionsToTxn         d@0-3 8@0-3 2@0-3 {t [p]}@0-3 {d 8 2 1 {t [p]}}@4+
AddOffsetsToTxn            d 8 2 g
EndTxn                     d 8 2 1
WriteTxnMarkers            {8 2 1 {t [p]} 4 1@2+}
TxnOffsetCommit            d g 8 2 4@3+ s@3+ s@3+ {t@0-5 i@6+ {p 8 4@2+ s}}
DescribeAcls               a s s 1 1
CreateAcls                 {a s s 1 1}
DeleteAcls                 {a s s 1 1}
DescribeConfigs            {r [s]} 1@1+ 1@3+
AlterConfigs               {r {s s}} 1
AlterReplicaLogDirs        {s {t [p]}}
DescribeLogDirs            {t [p]}?
CreatePartitions           {t 4 {[4]}} 4 1
DeleteGroups               [g]
ElectLeaders               1@1+ {t [p]}? 4
IncrementalAlterConfigs    {r {s 1 s}} 1
AlterPartitionReassignments 4 1@1+ {t {p [4]}}
ListPartitionReassignments 4 {t [p]}?
OffsetDelete               g {t {p}}
DescribeQuorum             {t {p}}
DescribeProducers          {t [p]}
DescribeTransactions       [d]
ConsumerGroupHeartbeat     g s 4 s s 4 [t] x@1+ s {16 [4]}
ConsumerGroupDescribe      [g] 1
ShareGroupHeartbeat        g s 4 s [t]
ShareGroupDescribe         [g] 1
ShareFetch                 g s e 4 4 4 4@1+ 4@1+ 1@2+ 1@2+ {i {p 4@0 {8 8 [1]}}} {16 [4]}
ShareAcknowledge           g s 4 1@2+ {i {p {8 8 [1]}}}
StreamsGroupHeartbeat      g s 4 4 s s 4
                           (4 {s [t] [x] {w 4 2 {s s}} [t] {w 4 2 {s s}} {[2] [2] [2]}})
                           {s [4]} {s [4]} {s [4]} s (s 2) {s s} {s 4 8} {s 4 8} 1
StreamsGroupDescribe       [g] 1 1@1+
StreamsGroupTopologyDescriptionUpdate
                           g s 4 <{s {s 1 [t] n [s] [s]}} {<s 1 [t] n [s] [s]> <s 1 [t] n [s] [s]>}>
DescribeTopicPartitions    {t}! 4 (s 4)
DescribeShareGroupOffsets  {g {t [p]}?}
AlterShareGroupOffsets     g {t {p 8}}
DeleteShareGroupOffsets    g {t}
"""

Layouts: TypeAlias = "dict[int, tuple[str, tuple[str, ...]]]"
"""Versions and tokens by API key."""


class Part(NamedTuple):
    """One field, array or struct: its kind is the token, or `{`, `[`, `<`, `(`."""

    kind: str
    parts: tuple[Part, ...] = ()
    means_all: str = ""
    """`?`: null means all topics. `!`: so does no element."""

    @property
    def names_topics(self) -> bool:
        """Whether each element of this array is a topic."""
        return self.kind in "{[" and any(each.kind in "tiw" for each in self.parts)


def names_anything(api_key: int) -> bool:
    """Return whether requests of this API name topics, groups or transactional ids."""
    return api_key in _LAYOUTS


@cache
def layout_of(api: Api) -> tuple[Part, ...] | None:
    """Return the parts of a request of this API and version; None if this version is not in the table."""
    return parts_of(_LAYOUTS, api) if names_anything(api.key) else None


def parts_of(layouts: Layouts, api: Api) -> tuple[Part, ...] | None:
    """Return the parts of this API and version; None if this version is not in the table."""
    versions, tokens = layouts[api.key]
    if not in_range(api.version, versions):
        return None
    found, _ = _parts(tokens, 0, api.version)
    return found


def _tokens(text: str) -> Iterator[str]:
    for mark in "{}[]<>()":
        text = text.replace(mark, f" {mark} ")
    merged: list[str] = []
    for token in text.split():
        if token[0] in "?!@" and merged:  # what follows a closing bracket belongs to it
            merged[-1] += token
        else:
            merged.append(token)
    return iter(merged)


def _parts(tokens: tuple[str, ...], at: int, version: int) -> tuple[tuple[Part, ...], int]:
    """Return the parts from `at` on, up to the bracket that closes them, and its place."""
    found: list[Part] = []
    while at < len(tokens) and tokens[at][0] not in "}]>)":
        kind, _, versions = tokens[at].partition("@")
        if kind in {"{", "[", "<", "("}:
            inner, at = _parts(tokens, at + 1, version)
            suffix, _, versions = tokens[at][1:].partition("@")
            part = Part(kind, inner, suffix)
        else:
            part = Part(kind)
        if in_range(version, versions):
            found.append(part)
        at += 1
    return tuple(found), at


def in_range(version: int, versions: str) -> bool:
    """Return whether `versions` (`3`, `0-2`, `4+`, or empty: all) has this version."""
    first, dash, last = versions.rstrip("+").partition("-")
    if not first:
        return True
    if versions.endswith("+"):
        return version >= int(first)
    return int(first) <= version <= int(last if dash else first)


def read_table(table: str) -> Layouts:
    """Return the lines of a table by API key. Raises LookupError for an API that is not in the table of APIs."""
    lines: list[str] = []
    for line in table.strip().splitlines():
        if line.startswith(" "):
            lines[-1] += line
        else:
            lines.append(line)
    found: Layouts = {}
    for line in lines:
        name, _, text = line.partition(" ")
        name, _, versions = name.partition("@")
        found[key_named(name)] = versions, tuple(_tokens(text))
    return found


_LAYOUTS: Final = read_table(_TABLE)
