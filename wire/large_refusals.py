"""Error replies to requests of any size, made in steps: the caller lets others have their turns at each pause.

A large request is divided into its items (`wire.request_parts`), each of them is refused by itself, and all are added
to the reply to a request without items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire import codec
from wire.api_keys import ApiKey
from wire.errors import BudgetError, WireError
from wire.fetch import session_gone
from wire.primitives import compact_length, string_length
from wire.replies import MAX_REFUSED_ELEMENTS, answer, echo_of, error_body
from wire.reply_joins import Additions, add_items
from wire.request_parts import STEP_ITEMS, dividing, emptied

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

    from wire.apis import Api
    from wire.item_arrays import Item
    from wire.schema import FieldShape

_ALL: Final = 0
_SESSIONS_SINCE: Final = 7
"""The first version of Fetch with sessions."""


def refusing(
    api: Api,
    request_body: bytes,
    code: int,
    message: str | None = None,
    brokers: Iterable[tuple[int, str, int]] = (),
) -> Generator[None, None, bytes]:
    """Return `error_body` of a request of any size. Pauses after each STEP_ITEMS items of a large one.

    Raises `WireError` as `error_body`; for a large request also if its items are not in one array.
    """
    named = tuple(brokers)
    try:
        return error_body(api, request_body, code, message, named)
    except BudgetError:
        pass
    base = error_body(api, emptied(api, request_body), code, message, named)
    if api.key == ApiKey.FETCH and api.version >= _SESSIONS_SINCE and base == session_gone(api):
        return base  # the client will name all its partitions
    parts = yield from dividing(api, request_body, 0, {}, _label)
    items = yield from refusing_items(api, parts.refused.get(_ALL, []), code, message)
    added = Additions(b"".join(items), len(items))
    return add_items(api, base, 0, len(base), added, beside_code=True)


def refusing_items(
    api: Api, pieces: list[bytes], code: int, message: str | None, *, inside: bool = False
) -> Generator[None, None, list[bytes]]:
    """Return the encoded items of a reply that refuse these of a request. Pauses after each STEP_ITEMS of them.

    `inside`: they are topics of a group. Raises `WireError` as `error_body`.
    """
    echo = echo_of(api)
    shape, field = codec.response_shape(api), None
    if echo is not None:
        field = codec.request_shape(api).field(echo.asked[0])
        if inside and echo.inner is not None and field is not None and field.shape is not None:
            shape, echo = shape.item(echo.answered), echo.inner
            field = field.shape.field(echo.asked[0])
    if echo is None or field is None:
        raise WireError(f"{api.name} v{api.version} has no items to refuse")
    inner = echo.inner.asked[0] if echo.inner is not None else ""
    items: list[bytes] = []
    made = 0
    for piece in pieces:
        item = _item(field, piece, is_flexible=shape.is_flexible)
        items.append(codec.encode(answer(shape, echo, item, code, message)))
        made += 1 + len(getattr(item, inner, None) or ())
        if made >= STEP_ITEMS:
            made = 0
            yield
    return items


def _item(field: FieldShape, piece: bytes, *, is_flexible: bool) -> object:
    """Return one decoded element of an array: a struct or a string."""
    if field.shape is not None:
        return codec.decode_struct(field.shape, piece, MAX_REFUSED_ELEMENTS)
    length, at = (compact_length if is_flexible else string_length)(piece, 0, len(piece))
    return piece[at : at + max(length, 0)].decode(errors="replace")


def _label(_item: Item, _partition: int | None) -> int:
    return _ALL
