"""Replies that tell of topics, groups and transactional ids: what a client may not see goes, all other bytes stay.

- One line of a table for each API, as in `wire.request_layouts`: the fields of its replies in order. Field kinds as
  there, and besides: `c` the error code of the reply or of an item, `d` a transactional id, `T` a topic that stays,
  `R` name and type of a config resource, `A` type and name of an ACL's resource, `m` the partitions of a Metadata v9+,
  `O` AuthorizedOperations of the item, or of the cluster.
- An array whose items have a `t`, `i`, `g`, `d`, `r`, `R` or `A` is cut; its count is written again. Arrays inside of
  items are cut, too. Where the request has named the groups, transactional ids or resources, an item is not cut but
  refused: it has its name, an error code, and nothing else.
- `U`: a topic that refuses the group around it. `H`: a topic that hides the struct around it; `S`, its status, follows.
- `K`: the settings of a created topic, up to its tags. `N`: the cursor, which must name no hidden topic.
- The code for an API and version is made from its line when it is first needed (`wire.cuts_code`).
- A reply that does not have its layout to the last byte raises `WireError`.
"""

from __future__ import annotations

from functools import cache
from struct import error as struct_error
from typing import TYPE_CHECKING, Any, Final, Protocol

from wire import listing_view, primitives, varint
from wire.apis import ApiKey
from wire.authorization import Operation, ResourceType
from wire.bare_items import bare
from wire.errors import ErrorCode, WireError
from wire.partition_runs import PartitionRuns
from wire.primitives import INT32, Buffer
from wire.request_layouts import parts_of, read_table

if TYPE_CHECKING:
    from collections.abc import Generator

    from wire.apis import Api
    from wire.listing_view import View
    from wire.request_layouts import Part

_TABLE: Final = """
Metadata                4@3+ {4 s 4 s@1+} s@2+ 4@1+ {c t i@10+ 1@1+
                        {2 4 4 4@7+ [4] [4] [4]@5+}@0-8 m@9+ O@8+} O@8-10 c@13+
OffsetFetch             4@3+ {t {4 8 4@5+ s c}}@0-7 {g {t@8-9 i@10+ {4 8 4 s c}} c}@8+ c@2-7
DescribeGroups          4@1+ {c s@6+ g s s s {s s@4+ s s b b} O@3+}
ListGroups              4@1+ c {g s s@4+ s@5+}
CreateTopics            4@2+ {T i@7+ c s@1+ K@5+}
DescribeAcls            4 c s {A 1@1+ {s s 1 1}}
DescribeConfigs         4 {c s r {s s 1 1 1 {s s 1}@1+ 1@3+ s@3+}}
DescribeLogDirs         4 c@3+ {2 s {t {4 8 8 1}} 8@4+ 8@4+ 1@5+}
ListPartitionReassignments 4 c s {t {4 [4] [4] [4]}}
DescribeCluster         4 c s 1@1+ s 4 {4 s 4 s 1@2+} O
DescribeTransactions    4 {c d s 4 8 8 2 {t [4]}}
ListTransactions        4 c [s] {d 8 s}
ConsumerGroupDescribe   4 {c s g s 4 4 s {s s s 4 s s [s] s <{16 U [4]}> <{16 U [4]}> 1@1+} O}
ListConfigResources     4 c {s@0 R@1+}
DescribeTopicPartitions 4 {c t i 1 {2 4 4 4 [4] [4] [4] [4] [4]} O} N
ShareGroupDescribe      4 {c s g s 4 4 s {s s 4 s s [s] <{16 U [4]}>} O}
StreamsGroupHeartbeat   4 c s s 4 4 4@0 4 8@1+ {1 s} {s [4]} {s [4]} {s [4]} 1@1+ 4
                        {<s 2> {t [4]} {t [4]}}
StreamsGroupDescribe    4 {c s g s 4 4 (4 {s [U] [U] {U 4 2 {s s}} {U 4 2 {s s}}})
                        {s 4 s s s s 4 s (s 2) {s s} {s 4 8} {s 4 8}
                        <{s [4]} {s [4]} {s [4]}> <{s [4]} {s [4]} {s [4]}> 1} O
                        ({s {s 1 [H] H [s] [s]}} {<s 1 [H] H [s] [s]> <s 1 [H] H [s] [s]>})@1+
                        S@1+ s@1+}
DescribeShareGroupOffsets 4 {g {t i {4 8 4 8@1+ c s}} c s}
"""
_LAYOUTS: Final = read_table(_TABLE)
LISTED: Final = frozenset(_LAYOUTS)
"""The APIs whose replies can be cut."""
FILTERED: Final = LISTED - {
    *(ApiKey.DESCRIBE_ACLS, ApiKey.DESCRIBE_CONFIGS, ApiKey.DESCRIBE_LOG_DIRS),
    *(ApiKey.LIST_CONFIG_RESOURCES, ApiKey.LIST_PARTITION_REASSIGNMENTS),
}
"""Those whose replies Kafka filters, too, and StreamsGroupHeartbeat. Who may see one of the others sees all of it."""
_REFUSALS: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
"""Codes of items that stay: the client has asked for them, and they tell it no more than it has said."""


class _Cutter(Protocol):
    def __call__(self, buf: Buffer, end: int, view: View, /) -> tuple[list[Buffer], bool]: ...


def layout_of_reply(api: Api) -> tuple[Part, ...] | None:
    """Return the parts of a reply of this API and version; None if it is not in the table."""
    return parts_of(_LAYOUTS, api) if api.key in _LAYOUTS else None


def cut(api: Api, body: bytes, view: View) -> bytes | None:
    """Return the body of a reply without what the client may not see; None if it may see all of it.

    Raises `WireError` if the body is malformed, or its API and version are not in the table.
    """
    try:
        pieces, is_cut = _cutter(api)(body, len(body), view)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise _malformed(api, error) from error
    return b"".join(pieces) if is_cut else None


def cutting(api: Api, body: bytes, view: View) -> Generator[None, None, bytes | None]:
    """Do as `cut`, with a pause after some hundred elements."""
    cutter: Any = _cutter(api, in_turns=True)
    try:
        pieces, is_cut = yield from cutter(body, len(body), view)
    except (IndexError, struct_error, UnicodeDecodeError) as error:
        raise _malformed(api, error) from error
    return b"".join(pieces) if is_cut else None


def nothing(api: Api, code: int) -> bytes:
    """Return the body of a reply that lists nothing, with an error code where it has one outside of its items.

    Raises `WireError` if its API and version are not in the table.
    """
    body = bare(_layout(api), code, "", flexible=api.flexible)
    return body + b"\0" if api.flexible else body


def _malformed(api: Api, error: Exception) -> WireError:
    if isinstance(error, UnicodeDecodeError):
        return WireError(f"{api.name} reply has a name that is not valid UTF-8")
    return WireError(f"{api.name} reply ends inside its fields")


def _bad_end(pos: int, end: int) -> WireError:
    return WireError(f"the fields of the reply end at offset {pos}, expected {end}")


def _bad_size(size: int) -> WireError:
    return WireError(f"size {size} is below -1, which stands for null")


TOOLS: Final[dict[str, object]] = {
    **vars(primitives),
    **vars(varint),
    **vars(listing_view),
    **{each.name: each for each in (*ResourceType, *Operation)},
    "PartitionRuns": PartitionRuns,
    "REFUSALS": _REFUSALS,
    "pack_int32": INT32.pack,
    "_bad_end": _bad_end,
    "_bad_size": _bad_size,
}
"""The names that the code of the cutters uses."""


@cache
def _cutter(api: Api, *, in_turns: bool = False) -> _Cutter:
    from wire import cuts_code  # noqa: PLC0415 - only a policy that cuts takes its memory

    scope: dict[str, _Cutter] = {}
    source = cuts_code.source(api, _layout(api), in_turns=in_turns)
    code = compile(source, f"<{api.name} v{api.version}>", "exec")
    exec(code, dict(TOOLS), scope)  # noqa: S102 - made from our own table
    return scope["cut"]


def _layout(api: Api) -> tuple[Part, ...]:
    layout = layout_of_reply(api)
    if layout is None:
        raise WireError(f"a {api.name} v{api.version} is no listing whose layout is known")
    return layout
