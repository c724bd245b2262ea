"""Where requests have the items of which some can be refused: one array of each API and version, and its fields.

The array follows from the table of `wire.replies` and the codec's schema; what its items are, from the table of
`wire.authorization`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from wire import codec
from wire.authorization import ResourceType, Scope, checks_of
from wire.errors import WireError
from wire.replies import Echo, echo_of

if TYPE_CHECKING:
    from wire.apis import Api
    from wire.authorization import Check
    from wire.schema import FieldShape, Shape

_NAMES: Final = frozenset({"name", "topic", "topic_name", "group_id", "resource_name"})
_RESOURCES: Final = {2: ResourceType.TOPIC, 32: ResourceType.GROUP}
"""Types of config resources; all others are the cluster's."""
_COORDINATORS: Final = {0: ResourceType.GROUP, 1: ResourceType.TRANSACTIONAL_ID}


class Item(NamedTuple):
    """One item that a request names."""

    kind: ResourceType | None
    """None: a part of a request that is authorized as a whole."""
    name: str | None
    """None: the id of a topic whose name is not known. Of the cluster: the act."""
    topic_id: bytes | None = None


def item_checks(api: Api) -> tuple[Check, ...]:
    """Return the rights of which some items may be refused while others pass, in Kafka's order."""
    with suppress(LookupError):  # nothing is known of the rights that this version needs
        return tuple(check for check in checks_of(api) if check.scope is not Scope.REQUEST)
    return ()


def is_divisible(api: Api) -> bool:
    """Return whether requests of this API and version can be divided."""
    return bool(item_checks(api)) and codec.is_known(api) and echo_of(api) is not None


class ItemArray(NamedTuple):
    """An array of items: how they are named, and their own array."""

    field: FieldShape
    kinds: tuple[ResourceType, ...]
    """Of its items, and then of those in its items; none if the request is authorized as a whole."""
    act: str
    """Of the cluster's config resources."""
    steps: tuple[tuple[str, FieldShape], ...]
    """The fields of an item, by what they are for: `name`, `id`, `type`, `inner`, `cut` or nothing."""
    partitions: FieldShape | None
    items: ItemArray | None
    """The named items in each item."""

    @property
    def has_names(self) -> bool:
        """Whether its items have names, and not only ids."""
        return any(what == "name" for what, _ in self.steps)

    def kind(self, resource: int, key_type: int) -> ResourceType | None:
        """Return the kind of an item; `resource` is its type as a config resource, `key_type` that of coordinators."""
        kinds = self.kinds
        if ResourceType.CLUSTER in kinds:
            return _RESOURCES.get(resource, ResourceType.CLUSTER)
        if ResourceType.TRANSACTIONAL_ID in kinds and ResourceType.GROUP in kinds:
            return _COORDINATORS.get(key_type)
        return kinds[0] if kinds else None


class Layout(NamedTuple):
    """A request: the array of items, and the fields before it."""

    shape: Shape
    before: tuple[FieldShape, ...]
    array: ItemArray


@cache
def item_layout(api: Api) -> Layout:
    """Return where requests of this API and version have their items.

    Raises WireError if they are not in one array, or the codec does not know the version.
    """
    echo = echo_of(api)
    if echo is None:
        raise WireError(f"{api.name} v{api.version} cannot be divided by its items")
    shape = codec.request_shape(api)
    checks = item_checks(api)
    kinds = tuple(dict.fromkeys(each.kind for each in checks))
    act = next((each.act for each in checks if each.act), "")
    place = [each.name for each in shape.untagged].index(echo.asked[0])
    array = _array_of(shape.untagged[place], echo, kinds, act)
    return Layout(shape, shape.untagged[:place], array)


def _array_of(
    field: FieldShape, echo: Echo, kinds: tuple[ResourceType, ...], act: str
) -> ItemArray:
    inner = echo.inner
    own = inner.asked[0] if inner is not None else ""
    steps: list[tuple[str, FieldShape]] = []
    partitions = items = None
    for each in field.shape.untagged if field.shape is not None else ():
        what = ""
        if each.name == own:
            if inner is not None and inner.inner is not None:
                what, items = "inner", _array_of(each, inner, kinds[1:], act)
            elif _begins_with_index(each):
                what, partitions = "inner", each
        elif each.is_array:
            what = "cut"
        elif each.name in _NAMES and each.kafka_type == "string":
            what = "name"
        else:
            what = {"topic_id": "id", "resource_type": "type"}.get(each.name, "")
        steps.append((what, each))
    return ItemArray(field, kinds, act, tuple(steps), partitions, items)


def _begins_with_index(field: FieldShape) -> bool:
    first = field if field.shape is None else field.shape.untagged[0]
    return first.kafka_type == "int32"


@cache
def has_arrays(shape: Shape) -> bool:
    """Return whether a struct has an array, at any depth."""
    return any(
        each.is_array or (each.shape is not None and has_arrays(each.shape))
        for each in shape.untagged
    )
