"""How a reply is read for its error codes: the fields of each struct, by what they are for (`wire.reply_errors`)."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from wire.codec import response_shape
from wire.errors import WireError

if TYPE_CHECKING:
    from wire.apis import Api
    from wire.schema import FieldShape, Shape

_CODES: Final = frozenset({"error_code", "partition_error_code", "acknowledge_error_code"})
_NAMES: Final = frozenset(
    {
        "name",
        "topic",
        "topic_name",
        "group_id",
        "key",
        "resource_name",
        "transactional_id",
        "user",
        "feature",
        "member_id",
        "group_instance_id",
        "log_dir",
    }
)
_PARTITIONS: Final = frozenset({"partition_index", "index", "partition", "partition_id"})


def prepare(api: Api) -> None:
    """Make now what reads this API and version, which takes milliseconds, and not with the first reply."""
    with suppress(WireError):  # a version that the codec does not know: its replies have `unread`
        steps_of(response_shape(api))


class ReplyStep(NamedTuple):
    """How one field of a struct is read."""

    kind: str
    """`code`, `name`, `id`, `partition`, `items` (structs with codes inside), or `other`."""
    field: FieldShape
    inner: ReplySteps | None = None


class ReplySteps(NamedTuple):
    """How one struct is read."""

    is_flexible: bool
    steps: tuple[ReplyStep, ...]


@cache
def steps_of(shape: Shape) -> ReplySteps:
    """Return how a struct of this shape is read."""
    return ReplySteps(shape.is_flexible, tuple(map(_step, shape.untagged)))


def _step(field: FieldShape) -> ReplyStep:
    if field.is_array:
        if field.shape is not None and _has_codes(field.shape):
            return ReplyStep("items", field, steps_of(field.shape))
        return ReplyStep("other", field)
    if field.name in _CODES:
        return ReplyStep("code", field)
    if field.name in _NAMES and field.kafka_type == "string":
        return ReplyStep("name", field)
    if field.name == "topic_id" and field.kafka_type == "uuid":
        return ReplyStep("id", field)
    if field.name in _PARTITIONS and field.kafka_type == "int32":
        return ReplyStep("partition", field)
    return ReplyStep("other", field)


def _has_codes(shape: Shape) -> bool:
    return any(
        each.name in _CODES or (each.is_array and each.shape is not None and _has_codes(each.shape))
        for each in shape.untagged
    )
