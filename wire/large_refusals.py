"""Error replies to requests of any size, made in steps: the caller lets others have their turns at each pause.

A large request is split by its topics and partitions. Each part is refused by itself (`wire.replies`), and the items of
all replies are joined into one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.errors import BudgetError, WireError
from wire.primitives import Buffer, encode_compact_count, encode_count
from wire.replies import error_body, error_items
from wire.request_layouts import layout_of, names_anything
from wire.request_parts import STEP_TOPICS, WIDTHS, PartsWalk

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from wire.apis import Api
    from wire.request_layouts import Part

STEP_ITEMS: Final = 50
"""Topics and partitions of a large request that are answered in one step."""


def refusing(
    api: Api,
    request_body: bytes,
    code: int,
    message: str | None = None,
    brokers: Iterable[tuple[int, str, int]] = (),
) -> Generator[None, None, bytes]:
    """Return `error_body` of a request of any size. Pauses after each STEP_ITEMS topics and partitions of a large one.

    Raises `WireError` as `error_body`; for a large request also if its topics are not in one array.
    """
    named = tuple(brokers)
    try:
        return error_body(api, request_body, code, message, named)
    except BudgetError:
        pass
    base = b""
    items: list[bytes] = []
    total = at = width = 0
    for part in splitting(api, request_body, 0, STEP_ITEMS):
        yield
        if part is None:
            continue
        reply = error_body(api, part, code, message, named)
        if not base:
            base = reply
            continue
        if reply == base:  # it names no item in this version
            return base
        if not width:
            at = next(
                n for n, (one, two) in enumerate(zip(base, reply, strict=False)) if one != two
            )
            width = 1 if api.flexible else 4
            at -= width - 1
        total += reply[at + width - 1] - api.flexible  # an array has STEP_ITEMS at most: one byte
        items.append(reply[at + width : len(reply) - (len(base) - at - width)])
    counted = (encode_compact_count if api.flexible else encode_count)(total)
    return b"".join((base[:at], counted, *items, base[at + width :])) if items else base


def refusing_items(
    api: Api, request_body: bytes, code: int, message: str | None
) -> Generator[None, None, list[bytes]]:
    """Return `error_items` of a request of any size. Pauses as `refusing`."""
    try:
        return error_items(api, request_body, code, message)
    except BudgetError:
        pass
    items: list[bytes] = []
    for part in splitting(api, request_body, 0, STEP_ITEMS):
        yield
        if part is not None:
            items += error_items(api, part, code, message)
    return items


def splitting(
    api: Api, buf: Buffer, body_at: int, max_items: int
) -> Generator[bytes | None, None, None]:
    """Yield the body without a topic, and then bodies with `max_items` topics and partitions each, until all are there.

    Between them None is yielded as a pause. The fields after the topics are empty. Raises WireError for an API or
    version whose topics are not in one array of their own.
    """
    layout = layout_of(api) if names_anything(api.key) else None
    place = next((n for n, part in enumerate(layout or ()) if part.names_topics), None)
    if layout is None or place is None:
        raise WireError(f"{api.name} v{api.version} cannot be split by topics")
    walk = PartsWalk(api, buf, {})
    count_at = walk.skip_all(layout[:place], body_at)
    count, pos = walk.count(count_at)
    before = bytes(buf[body_at:count_at])
    after = b"".join(_blank(part, api) for part in layout[place + 1 :]) + b"\0" * api.flexible
    yield before + walk.counted(0) + after
    pieces: list[bytes] = []
    items = 0
    for number in range(1, count + 1):
        if not number % STEP_TOPICS:
            yield None
        (_, head, partitions, tail), pos = walk.element(layout[place], pos)
        left = partitions or [(0, b"")]
        while left:
            taken, left = left[: max_items - items], left[max_items - items :]
            counted = b"" if partitions is None else walk.counted(len(taken) if partitions else 0)
            pieces.append(b"".join((head, counted, *(piece for _, piece in taken), tail)))
            items += len(taken)
            if items == max_items:
                yield b"".join((before, walk.counted(len(pieces)), *pieces, after))
                pieces, items = [], 0
    if pieces:
        yield b"".join((before, walk.counted(len(pieces)), *pieces, after))


def _blank(part: Part, api: Api) -> bytes:
    """Return an empty value of this field."""
    if part.kind.isdigit() or part.kind in WIDTHS:
        return bytes(WIDTHS.get(part.kind) or int(part.kind))
    if part.kind == "(":
        return b"\xff"
    if api.flexible:
        return b"\1"
    return bytes(4) if part.kind in "{[b" else bytes(2)
