"""The topics and groups that a request names, read from its whole body in one pass over the bytes.

- `read_names` serves every API of `wire.request_layouts`. Records and other fields are stepped over.
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
from wire.errors import BudgetError, WireError
from wire.primitives import ELEMENT_BUDGET, Buffer, int32_at, spend_tags
from wire.request_layouts import FETCH_TAG_BYTES, layout_of
from wire.varint import uvarint

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from wire.apis import Api
    from wire.topic_refs import TopicRef

ZERO_ID: Final = bytes(16)
"""The id in requests that stands for "no id"."""


class RequestNames(NamedTuple):
    """The topics and groups that one request names, in its order."""

    topics: tuple[TopicRef, ...]
    groups: tuple[str, ...]
    topics_complete: bool
    """Whether the request is about no other topics than these: False if it asks for all, by a pattern, or cannot be
    read in this version."""


UNREAD: Final = RequestNames((), (), topics_complete=False)


TOO_MANY: Final = RequestNames((), (), topics_complete=False)
"""Of a request that has more elements than any budget allows; never the same object as UNREAD."""


class NamesReader:
    """A request with `names`: its topics and groups."""

    __slots__ = ()

    names: RequestNames | None

    @property
    def topics(self) -> tuple[TopicRef, ...]:
        """Return `RequestNames.topics`. Raises LookupError if the names were not read."""
        return self._known().topics

    @property
    def groups(self) -> tuple[str, ...]:
        """Return `RequestNames.groups`. Raises LookupError if the names were not read."""
        return self._known().groups

    @property
    def topics_complete(self) -> bool:
        """Return `RequestNames.topics_complete`. Raises LookupError if the names were not read."""
        return self._known().topics_complete

    def _known(self) -> RequestNames:
        if self.names is None:
            raise LookupError(
                "the names in a request are there with Need.TOPICS, until the verdict"
            )
        return self.names


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


TOOLS: Final[dict[str, object]] = {
    **vars(primitives),
    **vars(varint),
    **vars(topic_refs),
    "ZERO_ID": ZERO_ID,
    "spend_fetch_tags": spend_fetch_tags,
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
        return None
    from wire import names_code  # noqa: PLC0415 - only a policy that needs names takes its memory

    scope: dict[str, _NamesReader] = {}
    code = compile(
        names_code.source(api, layout, in_turns=in_turns), f"<{api.name} v{api.version}>", "exec"
    )
    exec(code, dict(TOOLS), scope)  # noqa: S102 - made from our own table
    return scope["read"]
