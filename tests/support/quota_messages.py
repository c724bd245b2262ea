"""Bodies of the quota APIs (48, 49), asked as a client asks and read as a client reads, by the codec."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, get_args, get_type_hints

from kio.index import load_request_schema

from tests.support.kafka_messages import api_of
from wire import messages
from wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable

DESCRIBE = ApiKey.DESCRIBE_CLIENT_QUOTAS
ALTER = ApiKey.ALTER_CLIENT_QUOTAS

Named = tuple[tuple[str, str | None], ...]


class Answer(NamedTuple):
    """What a client is told of one alteration."""

    entity: Named
    code: int
    message: str | None


class Description(NamedTuple):
    """What a client is told when it describes."""

    code: int
    message: str | None
    values: dict[Named, dict[str, float]] | None


def alter_body(
    entries: Iterable[tuple[Named, dict[str, float | None] | list[tuple[str, float | None]]]],
    *,
    validate_only: bool = False,
    version: int = 1,
) -> bytes:
    """An AlterClientQuotas; a value of None removes the key."""
    request = load_request_schema(ALTER, version)
    entry_type = _item(request, "entries")
    entity_type, op_type = _item(entry_type, "entity"), _item(entry_type, "ops")
    return messages.encode(
        request(
            entries=tuple(
                entry_type(
                    entity=tuple(entity_type(entity_type=t, entity_name=n) for t, n in entity),
                    ops=tuple(
                        op_type(key=key, value=value or 0.0, remove=value is None)
                        for key, value in (ops.items() if isinstance(ops, dict) else ops)
                    ),
                )
                for entity, ops in entries
            ),
            validate_only=validate_only,
        )
    )


def describe_body(
    components: Iterable[tuple[str, int, str | None]] = (),
    *,
    strict: bool = False,
    version: int = 1,
) -> bytes:
    """A DescribeClientQuotas; of a component the type, how it matches (0, 1, 2) and the name."""
    request = load_request_schema(DESCRIBE, version)
    item = _item(request, "components")
    made = (item(entity_type=t, match_type=how, match=name) for t, how, name in components)
    return messages.encode(request(components=tuple(made), strict=strict))


def read_alter_reply(body: bytes, version: int = 1) -> list[Answer]:
    """Every entry of the reply."""
    told = messages.decode_response(api_of(ALTER, version), body)
    return [Answer(_named(e.entity), int(e.error_code), e.error_message) for e in told.entries]


def read_describe_reply(body: bytes, version: int = 1) -> Description:
    """The whole reply."""
    told = messages.decode_response(api_of(DESCRIBE, version), body)
    values = None
    if told.entries is not None:
        values = {_named(e.entity): {v.key: v.value for v in e.values} for e in told.entries}
        assert len(values) == len(told.entries), "an entity came twice"
    return Description(int(told.error_code), told.error_message, values)


def _named(entity: object) -> Named:
    return tuple((part.entity_type, part.entity_name) for part in entity)


def _item(message: type, field: str) -> type:
    """The class of an array's items."""
    return get_args(get_type_hints(message)[field])[0]
