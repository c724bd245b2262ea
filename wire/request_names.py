"""What a request names, read from its whole body in one pass over the bytes: topics, groups, transactional ids.

- `read_names` serves every API of `wire.request_layouts`. Records and other fields are stepped over. Nothing is read of
  an API that names nothing: the acts on the cluster that it asks for are in its line of `wire.authorization`.
- The code that reads an API and version is made from its layout when it is first needed (`wire.names_code`).
- Array elements and tagged fields cost element budget. A malformed body raises `WireError`. A reader never goes back,
  so bytes that end too early are found at the latest after the last field.
"""

from __future__ import annotations

from contextlib import suppress
from struct import error as struct_error
from struct import unpack_from
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from wire import primitives, topic_refs, varint
from wire.authorization import act_of, is_authorized
from wire.errors import BudgetError, WireError
from wire.primitives import ELEMENT_BUDGET, Buffer, int32_at, skip, skip_compact, spend_tags
from wire.request_layouts import FETCH_TAG_BYTES, layout_of, names_anything
from wire.varint import uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from wire.apis import Api
    from wire.topic_refs import TopicRef

ZERO_ID: Final = bytes(16)
"""The id in requests that stands for "no id"."""
_BATCH_HEAD_BYTES: Final = 61
_MAGIC_AT: Final = 16
_ATTRIBUTES_END: Final = 22
"""The lower byte of a batch's attributes."""
_TRANSACTIONAL: Final = 0x10
_CLUSTER_ID_TAG: Final = 0
_REPLICA_TAG: Final = 1
_REPLICA_BYTES: Final = 12
"""A node and its epoch; tags follow."""


class RequestNames(NamedTuple):
    """What one request names, in its order."""

    topics: tuple[TopicRef, ...]
    groups: tuple[str, ...]
    topics_complete: bool
    """Whether the request is about no other topics than these: False if it asks for all, by a pattern, or cannot be
    read in this version."""
    transactional_ids: tuple[str, ...] = ()
    """That of a Produce only if one of its batches may be of a transaction."""
    acts: tuple[str, ...] = ()
    """The acts on the cluster that it asks for."""
    created: tuple[str, ...] = ()
    """Those of the topics that it creates, or lets the broker create if they are missing."""
    has_pattern: bool = False
    """Whether it selects topics by a regular expression, which the broker resolves."""


UNREAD: Final = RequestNames((), (), topics_complete=False)


TOO_MANY: Final = RequestNames((), (), topics_complete=False)
"""Of a request that has more elements than any budget allows; never the same object as UNREAD."""


class _NamesReader(Protocol):
    def __call__(
        self, buf: Buffer, pos: int, end: int, budget: int, name_of: Mapping[bytes, str], /
    ) -> RequestNames: ...


def read_names(
    api: Api,
    buf: Buffer,
    body_at: int,
    end: int,
    name_of: Mapping[bytes, str],
    budget: int = ELEMENT_BUDGET,
) -> RequestNames:
    """Return what the request names whose body is buf[body_at:end]. `name_of`: topic names by id.

    Raises `WireError` if the body is malformed, and `BudgetError` if it has more than `budget` array elements and
    tagged fields.
    """
    kind = api.key << 16 | api.version
    reader = _READERS.get(kind)
    if reader is None and kind not in _READERS:
        reader = _READERS[kind] = _reader(api)
    if reader is None:
        return UNREAD
    try:
        return reader(buf, body_at, end, budget, name_of)
    except (IndexError, struct_error) as error:
        raise WireError(f"{api.name} request ends inside its fields") from error
    except UnicodeDecodeError as error:
        raise WireError(f"{api.name} request has a name that is not valid UTF-8") from error


def prepare(api: Api) -> None:
    """Make now what reads this API and version, and not with the first request."""
    with suppress(WireError):
        read_names(api, b"", 0, 0, {})


def reading_names(
    api: Api, buf: Buffer, body_at: int, end: int, name_of: Mapping[bytes, str], budget: int
) -> Generator[None, None, RequestNames]:
    """Do as `read_names`, with a pause after some hundred elements."""
    reader: Any = _reader(api, in_turns=True)
    if reader is None:
        return UNREAD
    found: RequestNames
    try:
        found = yield from reader(buf, body_at, end, budget, name_of)
    except (IndexError, struct_error) as error:
        raise WireError(f"{api.name} request ends inside its fields") from error
    except UnicodeDecodeError as error:
        raise WireError(f"{api.name} request has a name that is not valid UTF-8") from error
    return found


# --- what the readers call ---------------------------------------------------------------------


def _over_budget(count: int, budget: int) -> BudgetError:
    return BudgetError(f"frame exceeds its element budget by {count - budget} elements")


def _bad_size(size: int) -> WireError:
    return WireError(f"size {size} is below -1, which stands for null")


def _beyond_end(pos: int, end: int) -> WireError:
    return WireError(f"the fields of the request end at offset {pos}, expected {end} at most")


def _partitions(
    buf: Buffer,
    pos: int,
    end: int,
    budget: int,
    count: int,
    stride: int,
    tags: int,
    spend: Callable[[Buffer, int, int, int], tuple[int, int]],
) -> tuple[tuple[int, ...], int, int]:
    """Return the partitions of `count` structs of `stride` bytes, the offset after them, and what is left of `budget`.

    `tags` is 1 if a tag section follows each struct; `spend` steps over it.
    """
    stop = pos + count * (stride + tags)
    if stop > end:
        raise WireError(f"{count} partitions end {stop - end} bytes beyond the request")
    if not tags or not any(buf[pos + stride : stop : stride + 1]):
        step = stride + tags
        if step == 4:
            return unpack_from(f">{count}i", buf, pos), stop, budget
        return tuple([int32_at(buf, at)[0] for at in range(pos, stop, step)]), stop, budget
    found: list[int] = []
    for _ in range(count):
        found += int32_at(buf, pos)
        pos, budget = spend(buf, pos + stride, end, budget)
    return tuple(found), pos, budget


def spend_fetch_tags(buf: Buffer, pos: int, end: int, budget: int) -> tuple[int, int]:
    """Do as `spend_tags`, for a fetched partition, whose known tags a broker reads by their own length.

    Raises `WireError` if a size says otherwise: the broker would read other topics than are named here.
    """
    stop, budget = spend_tags(buf, pos, end, budget)
    count, pos = uvarint(buf, pos, end)
    for _ in range(count):
        tag, pos = uvarint(buf, pos, end)
        size_bytes, pos = uvarint(buf, pos, end)
        if size_bytes != FETCH_TAG_BYTES.get(tag, size_bytes):
            expected = FETCH_TAG_BYTES[tag]
            raise WireError(f"tag {tag} of a partition has {size_bytes} bytes, expected {expected}")
        pos += size_bytes
    return stop, budget


def spend_replica(buf: Buffer, pos: int, end: int, budget: int) -> tuple[int, int, bool]:
    """Do as `spend_tags` for the last tags of a Fetch; the third value is whether a replica sends it.

    A broker reads the known tags, a cluster's id and the replica, by their own length. Raises `WireError` if a size
    says otherwise: the broker would find a replica where none is seen here.
    """
    stop, budget = spend_tags(buf, pos, end, budget)
    is_replica = False
    count, pos = uvarint(buf, pos, end)
    for _ in range(count):
        tag, pos = uvarint(buf, pos, end)
        size_bytes, pos = uvarint(buf, pos, end)
        own_end = after = pos + size_bytes
        if tag == _CLUSTER_ID_TAG:
            own_end = skip_compact(buf, pos, after)
        elif tag == _REPLICA_TAG:
            own_end, budget = spend_tags(buf, skip(pos, _REPLICA_BYTES, after), after, budget)
            is_replica = int32_at(buf, pos)[0] >= 0
        if own_end != after:
            raise WireError(
                f"tag {tag} of a Fetch has {size_bytes} bytes, expected {own_end - pos}"
            )
        pos = after
    return stop, budget, is_replica


def may_be_transactional(buf: Buffer, size_bytes: int, pos: int) -> bool:
    """Return whether records of this size at `pos` may be of a transaction: False for one whole batch that is of none.

    Kafka looks at the first batch of each partition, and then refuses records that are not one batch of magic 2.
    """
    if size_bytes < _BATCH_HEAD_BYTES or int32_at(buf, pos + 8)[0] + 12 != size_bytes:
        return True
    return buf[pos + _MAGIC_AT] != 2 or buf[pos + _ATTRIBUTES_END] & _TRANSACTIONAL != 0


TOOLS: Final[dict[str, object]] = {
    **vars(primitives),
    **vars(varint),
    **vars(topic_refs),
    "ZERO_ID": ZERO_ID,
    "spend_fetch_tags": spend_fetch_tags,
    "may_be_transactional": may_be_transactional,
    "spend_replica": spend_replica,
    "RequestNames": RequestNames,
    "_bad_size": _bad_size,
    "_beyond_end": _beyond_end,
    "_over_budget": _over_budget,
    "_partitions": _partitions,
    "new": tuple.__new__,
    "get_ref": topic_refs.refs.get,
}
"""The names that the code of the readers uses."""


_READERS: Final[dict[int, _NamesReader | None]] = {}
"""By `api_key << 16 | api_version`: an int has the quickest hash."""


def _reader(api: Api, *, in_turns: bool = False) -> _NamesReader | None:
    """Return the reader of this API and version, or its generator; None if its layout is not known."""
    layout = layout_of(api)
    if layout is None:
        is_known = is_authorized(api) and not names_anything(api.key)
        return _nameless(api, in_turns=in_turns) if is_known else None
    from wire import names_code  # noqa: PLC0415 - only a policy that needs names takes its memory

    scope: dict[str, _NamesReader] = {}
    code = compile(
        names_code.source(api, layout, in_turns=in_turns), f"<{api.name} v{api.version}>", "exec"
    )
    exec(code, dict(TOOLS), scope)  # noqa: S102 - made from our own table
    return scope["read"]


def _nameless(api: Api, *, in_turns: bool) -> Any:  # noqa: ANN401 - a reader, or its generator
    """Return what stands for a reader of an API that names nothing."""
    act = act_of(api)
    names = RequestNames((), (), topics_complete=True, acts=(act,) if act else ())

    def reading(*_: object) -> Generator[None, None, RequestNames]:
        yield
        return names

    return reading if in_turns else lambda *_: names
