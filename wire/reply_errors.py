"""The error codes in a reply, by what has failed: one reader for all APIs, after the codec's schemas.

- A key says what failed. None: the whole request. A name: a topic, group, resource, user or feature. Inside a named
  item it is a tuple, from the outside in: (topic, partition), or (group, topic, partition). A topic whose id has no
  known name stands as its 16 bytes. Where the reply names an item by nothing, its place in the array counts.
- Only codes other than 0 are there; `done` has the keys of code 0. A reply that cannot be read has no codes, and
  `unread` says why.
- Each array element and tagged field costs element budget, so that a broker cannot make a read endless.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from struct import error as struct_error
from typing import TYPE_CHECKING, Final, TypeAlias

from wire.codec import response_shape
from wire.errors import WireError
from wire.primitives import (
    REPLY_ELEMENT_BUDGET,
    Buffer,
    array_count,
    compact_count,
    compact_length,
    int16_at,
    int32_at,
    skip,
    spend,
    spend_tags,
    string_length,
)
from wire.reply_steps import ReplySteps, steps_of
from wire.schema import FieldShape, check_field

if TYPE_CHECKING:
    from wire.apis import Api

ErrorKey: TypeAlias = str | bytes | int | tuple[str | bytes | int, ...] | None

_ZERO_ID: Final = bytes(16)
_ENDED: Final = "it was read after its hook had returned"


class ReplyErrors(Mapping[ErrorKey, int]):
    """The error codes of one reply, read when they are first used, and not after the hook that got them has returned.

    `name_of`: topic names by id.
    """

    __slots__ = ("_api", "_buf", "_codes", "_end", "_name_of", "_start", "_unread")

    def __init__(
        self, api: Api, buf: Buffer, start: int, end: int, name_of: Mapping[bytes, str]
    ) -> None:
        self._api = api
        self._buf: Buffer | None = buf
        self._start = start
        self._end = end
        self._name_of = name_of
        self._codes: dict[ErrorKey, int] | None = None
        self._unread = ""

    @property
    def unread(self) -> str:
        """Why the reply cannot be read; empty if it can. Then no code is here."""
        self._read()
        return self._unread

    def done(self) -> list[ErrorKey]:
        """Return what the reply says was done: the keys whose code is 0. Reads the reply once more."""
        if self._read() is None or self._unread or self._buf is None:
            return []
        codes = _read_codes(
            self._api,
            self._buf,
            self._start,
            self._end,
            self._name_of,
            REPLY_ELEMENT_BUDGET,
            zero=True,
        )
        return [key for key, code in codes.items() if not code]

    def close(self) -> None:
        """Read no more of the reply: its bytes are about to change."""
        self._buf = None

    def __getitem__(self, key: ErrorKey) -> int:
        return self._read()[key]

    def __iter__(self) -> Iterator[ErrorKey]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return f"ReplyErrors({self.unread or self._read()})"

    def _read(self) -> dict[ErrorKey, int]:
        if self._codes is None:
            self._codes = {}
            if self._buf is None:
                self._unread = _ENDED
                return self._codes
            try:
                self._codes = read_errors(
                    self._api, self._buf, self._start, self._end, self._name_of
                )
            except WireError as error:
                self._unread = str(error)
        return self._codes


def read_errors(
    api: Api,
    buf: Buffer,
    start: int,
    end: int,
    name_of: Mapping[bytes, str],
    budget: int = REPLY_ELEMENT_BUDGET,
) -> dict[ErrorKey, int]:
    """Return the error codes of the response body in buf[start:end]. `name_of`: topic names by id.

    Of several codes for one key the first counts. Raises `WireError` if the body is malformed or the codec does not
    know the version, and `BudgetError` if it has more than `budget` array elements and tagged fields.
    """
    return _read_codes(api, buf, start, end, name_of, budget, zero=False)


def _read_codes(
    api: Api,
    buf: Buffer,
    start: int,
    end: int,
    name_of: Mapping[bytes, str],
    budget: int,
    *,
    zero: bool,
) -> dict[ErrorKey, int]:
    """Return the codes as `read_errors` does; with `zero` also those of code 0, unless another code has their key."""
    steps = steps_of(response_shape(api))
    reader = _ErrorReader(buf, end, budget, name_of, zero=zero)
    try:
        pos, _ = reader.struct(steps, start)
    except (IndexError, struct_error) as error:
        raise WireError(f"{api.name} response ends inside its fields") from error
    except UnicodeDecodeError as error:
        raise WireError(f"{api.name} response has a name that is not valid UTF-8") from error
    if pos != end:
        raise WireError(f"{end - pos} bytes follow the last field of the {api.name} response")
    codes: dict[ErrorKey, int] = {}
    for code, labels in reader.found:
        key = tuple(reversed(labels))
        label = key if len(key) > 1 else key[0] if key else None
        codes[label] = codes.get(label) or code
    return codes


class _ErrorReader:
    """Reads one body. `found` has each code, and the labels of the items around it, the innermost first."""

    def __init__(
        self, buf: Buffer, end: int, budget: int, name_of: Mapping[bytes, str], *, zero: bool
    ) -> None:
        self._buf = buf
        self._end = end
        self._zero = zero
        self._budget = budget
        self._name_of = name_of
        self.found: list[tuple[int, list[str | bytes | int]]] = []

    def struct(self, steps: ReplySteps, pos: int) -> tuple[int, str | bytes | int | None]:
        """Read a struct. Return the offset after it, and what names it; None if it has no name."""
        buf, end = self._buf, self._end
        code, has_code = 0, False
        label: str | bytes | int | None = None
        for kind, field, inner in steps.steps:
            if kind == "other":
                pos, self._budget = check_field(
                    field, steps.is_flexible, buf, pos, end, self._budget
                )
            elif kind == "code":
                code = code or int16_at(buf, pos)[0]
                has_code = True
                pos = skip(pos, 2, end)
            elif kind == "partition":
                label = int32_at(buf, pos)[0]
                pos = skip(pos, 4, end)
            elif kind == "id":
                topic_id, pos = bytes(buf[pos : pos + 16]), skip(pos, 16, end)
                if not label and topic_id != _ZERO_ID:
                    label = self._name_of.get(topic_id, topic_id)
            elif kind == "name":
                length = compact_length if steps.is_flexible else string_length
                size, pos = length(buf, pos, end)
                if size > 0:
                    label = label or str(memoryview(buf)[pos : pos + size], "utf-8")
                    pos += size
            elif inner is not None:
                pos = self._items(steps, inner, field, pos)
        if steps.is_flexible:
            pos, self._budget = spend_tags(buf, pos, end, self._budget)
        if code or (has_code and self._zero):
            self.found.append((code, []))
        return pos, label

    def _items(self, steps: ReplySteps, inner: ReplySteps, field: FieldShape, pos: int) -> int:
        count, pos = (compact_count if steps.is_flexible else array_count)(
            self._buf, pos, self._end
        )
        if count < 0 and not field.is_nullable:
            raise WireError(f"array {field.name} is null, expected 0 or more elements")
        self._budget = spend(self._budget, count)
        for place in range(count):
            first = len(self.found)
            pos, label = self.struct(inner, pos)
            for _, labels in self.found[first:]:
                labels.append(place if label is None else label)
        return pos
