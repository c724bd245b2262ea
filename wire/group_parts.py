"""Divides a request by the groups that it names: the bytes of each stay as they are.

- The APIs whose groups are in one array of their own can be divided (`GROUPED`).
- The body was read by `read_names` before, so it is known to be whole and valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from wire.api_keys import ApiKey
from wire.errors import WireError
from wire.request_layouts import Part, layout_of
from wire.request_parts import STEP_TOPICS, PartsWalk

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from wire.apis import Api
    from wire.primitives import Buffer

GROUPED: Final = frozenset(
    {
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.STREAMS_GROUP_DESCRIBE,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.FIND_COORDINATOR,
    }
)
"""OffsetFetch from v8 on, FindCoordinator from v4 on; before, they name one group."""

L = TypeVar("L")


def dividing_by_group(
    api: Api, buf: Buffer, body_at: int, label_of: Callable[[str | None], L]
) -> Generator[None, None, dict[L, bytes]]:
    """Return a body for each label, with the groups that have it; pause after each STEP_TOPICS groups.

    Raises WireError for an API or version that cannot be divided.
    """
    layout = flat(layout_of(api) if api.key in GROUPED else None)
    place = next(
        (
            n
            for n, part in enumerate(layout)
            if part.kind in "{[" and any(each.kind == "g" for each in part.parts)
        ),
        None,
    )
    if place is None:
        raise WireError(f"{api.name} v{api.version} cannot be divided by groups")
    walk = PartsWalk(api, buf, {})
    count_at = walk.skip_all(layout[:place], body_at)
    count, pos = walk.count(count_at)
    found: dict[L, list[bytes]] = {}
    for number in range(1, count + 1):
        if not number % STEP_TOPICS:
            yield
        start = pos
        group, pos = walk.group(layout[place], pos)
        found.setdefault(label_of(group), []).append(bytes(buf[start:pos]))
    before, after = bytes(buf[body_at:count_at]), bytes(buf[pos:])
    return {
        label: b"".join((before, walk.counted(len(pieces)), *pieces, after))
        for label, pieces in found.items()
    }


def flat(layout: tuple[Part, ...] | None) -> tuple[Part, ...]:
    """Return the parts with the keys of coordinators as an array of their own."""
    keys = Part("1"), Part("[", (Part("g"),))
    return tuple(each for part in layout or () for each in (keys if part.kind == "q" else (part,)))
