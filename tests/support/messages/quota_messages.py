"""Bodies of the quota APIs (48, 49), written and read by the codec as a client does."""

from collections.abc import Iterable
from typing import NamedTuple, get_args, get_type_hints

from kio.index import load_request_schema

from tests.support.messages.kafka_messages import api_of
from wire import codec
from wire.apis import ApiKey

DESCRIBE = ApiKey.DESCRIBE_CLIENT_QUOTAS
ALTER = ApiKey.ALTER_CLIENT_QUOTAS

Named = tuple[tuple[str, str | None], ...]


class Answer(NamedTuple):
    """The reply to one alteration."""

    entity: Named
    code: int
    message: str | None


class Description(NamedTuple):
    """The reply to a description."""

    code: int
    message: str | None
    values: dict[Named, dict[str, float]] | None


def alter_body(
    entries: Iterable[tuple[Named, dict[str, float | None] | list[tuple[str, float | None]]]],
    *,
    validate_only: bool = False,
    version: int = 1,
) -> bytes:
    """Return an AlterClientQuotas; a value of None removes the key."""
    request = load_request_schema(ALTER, version)
    entry_type = _item(request, "entries")
    entity_type, op_type = _item(entry_type, "entity"), _item(entry_type, "ops")
    return codec.encode(
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
    """Return a DescribeClientQuotas; a component has the type, the match (0, 1, 2) and the name."""
    request = load_request_schema(DESCRIBE, version)
    item = _item(request, "components")
    made = (item(entity_type=t, match_type=how, match=name) for t, how, name in components)
    return codec.encode(request(components=tuple(made), strict=strict))


def read_alter_reply(body: bytes, version: int = 1) -> list[Answer]:
    """Return every entry of the reply."""
    told = codec.decode_response(api_of(ALTER, version), body)
    return [Answer(_named(e.entity), int(e.error_code), e.error_message) for e in told.entries]


def read_describe_reply(body: bytes, version: int = 1) -> Description:
    """Return the whole reply."""
    told = codec.decode_response(api_of(DESCRIBE, version), body)
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
