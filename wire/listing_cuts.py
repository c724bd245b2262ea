"""Replies that list topics and groups: the items of some are cut out, and all other bytes stay as they are.

- One line of a table for each API, as in `wire.request_layouts`: the fields of its replies in order. Field kinds as
  there, and besides: `c` the error code of the reply or of an item, `R` name and type of a config resource, `A` type
  and name of an ACL's resource, `m` the partitions of a Metadata v9+.
- An array whose items have a `t`, `i`, `g`, `r`, `R` or `A` is cut; its count is written again. Arrays inside of items
  are cut, too.
- The code for an API and version is made from its line when it is first needed (`wire.cuts_code`).
- A reply that does not have its layout to the last byte raises `WireError`.
"""

from __future__ import annotations

from functools import cache
from struct import error as struct_error
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from wire import primitives, varint
from wire.errors import ErrorCode, WireError
from wire.metadata import after_partitions
from wire.primitives import REPLY_ELEMENT_BUDGET, Buffer
from wire.request_layouts import parts_of, read_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from wire.apis import Api
    from wire.request_layouts import Part

_TABLE: Final = """
Metadata                4@3+ {4 s 4 s@1+} s@2+ 4@1+ {c t i@10+ 1@1+
                        {2 4 4 4@7+ [4] [4] [4]@5+}@0-8 m@9+ 4@8+} 4@8-10 c@13+
OffsetFetch             4@3+ {t {4 8 4@5+ s c}}@0-7 {g {t@8-9 i@10+ {4 8 4 s c}} c}@8+ c@2-7
ListGroups              4@1+ c {g s s@4+ s@5+}
DescribeAcls            4 c s {A 1@1+ {s s 1 1}}
DescribeConfigs         4 {c s r {s s 1 1 1 {s s 1}@1+ 1@3+ s@3+}}
DescribeLogDirs         4 c@3+ {2 s {t {4 8 8 1}} 8@4+ 8@4+ 1@5+}
ListPartitionReassignments 4 c s {t {4 [4] [4] [4]}}
DescribeTransactions    4 {2 s s 4 8 8 2 {t [4]}}
ListConfigResources     4 c {s@0 R@1+}
DescribeTopicPartitions 4 {c t i 1 {2 4 4 4 [4] [4] [4] [4] [4]} 4} (s 4)
DescribeShareGroupOffsets 4 {g {t i {4 8 4 8@1+ c s}} c s}
"""
_LAYOUTS: Final = read_table(_TABLE)
LISTED: Final = frozenset(_LAYOUTS)
"""The APIs whose replies can be cut."""
_REFUSALS: Final = frozenset(
    {ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED}
)


class Keeps(NamedTuple):
    """Which items stay."""

    topic: Callable[[str], bool]
    group: Callable[[str], bool]
    name_of: Callable[[bytes], str | None]
    """Names of topics by id."""

    def topic_id(self, topic_id: bytes) -> bool:
        """Return whether an item stays that has an id and no name: not if the name is unknown."""
        name = self.name_of(topic_id)
        return name is not None and self.topic(name)

    def nameless(self, topic_id: bytes) -> bool:
        """Return whether an item stays that has a name for some: one with an unknown id tells nothing."""
        name = self.name_of(topic_id)
        return name is None or self.topic(name)


class _Cutter(Protocol):
    def __call__(self, buf: Buffer, end: int, keeps: Keeps, /) -> tuple[list[Buffer], bool]: ...


def layout_of_reply(api: Api) -> tuple[Part, ...] | None:
    """Return the parts of a reply of this API and version; None if it is not in the table."""
    return parts_of(_LAYOUTS, api) if api.key in _LAYOUTS else None


def cut(api: Api, body: bytes, keeps: Keeps) -> bytes | None:
    """Return the body of a reply without the topics and groups that do not stay; None if all of them stay.

    Raises `WireError` if the body is malformed, or its API and version are not in the table.
    """
    cutter = _cutter(api)
    try:
        pieces, is_cut = cutter(body, len(body), keeps)
    except (IndexError, struct_error) as error:
        raise WireError(f"{api.name} reply ends inside its fields") from error
    except UnicodeDecodeError as error:
        raise WireError(f"{api.name} reply has a name that is not valid UTF-8") from error
    return b"".join(pieces) if is_cut else None


def nothing(api: Api, code: int) -> bytes:
    """Return the body of a reply that lists nothing, with an error code where it has one outside of its items.

    Raises `WireError` if its API and version are not in the table.
    """
    pieces: list[bytes] = []
    for part in _layout(api):
        if part.kind.isdigit():
            pieces.append(bytes(int(part.kind)))
        elif part.kind == "c":
            pieces.append(primitives.INT16.pack(code))
        elif part.kind == "(":
            pieces.append(b"\xff")
        elif part.kind in "{[":
            pieces.append(b"\1" if api.flexible else bytes(4))
        else:
            pieces.append(b"\1" if api.flexible else bytes(2))
    return b"".join((*pieces, b"\0" if api.flexible else b""))


def _bad_end(pos: int, end: int) -> WireError:
    return WireError(f"the fields of the reply end at offset {pos}, expected {end}")


def _bad_size(size: int) -> WireError:
    return WireError(f"size {size} is below -1, which stands for null")


def _after_partitions(buf: Buffer, pos: int, end: int) -> int:
    count, pos = primitives.compact_count(buf, pos, end)
    pos, _ = after_partitions(buf, pos, end, count, REPLY_ELEMENT_BUDGET)
    return pos


TOOLS: Final[dict[str, object]] = {
    **vars(primitives),
    **vars(varint),
    "REFUSALS": _REFUSALS,
    "_after_partitions": _after_partitions,
    "_bad_end": _bad_end,
    "_bad_size": _bad_size,
}
"""The names that the code of the cutters uses."""


@cache
def _cutter(api: Api) -> _Cutter:
    from wire import cuts_code  # noqa: PLC0415 - only a policy that cuts takes its memory

    scope: dict[str, _Cutter] = {}
    code = compile(cuts_code.source(api, _layout(api)), f"<{api.name} v{api.version}>", "exec")
    exec(code, dict(TOOLS), scope)  # noqa: S102 - made from our own table
    return scope["cut"]


def _layout(api: Api) -> tuple[Part, ...]:
    layout = layout_of_reply(api)
    if layout is None:
        raise WireError(f"a {api.name} v{api.version} is no listing whose layout is known")
    return layout
