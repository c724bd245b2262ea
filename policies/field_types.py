"""The types in the fields of settings, as msgspec describes them.

A description needs half a millisecond, so it is kept. It belongs to its Struct: nothing else would tell when a changed
policy file has replaced the class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Union, get_args

import msgspec
from msgspec import inspect

if TYPE_CHECKING:
    from collections.abc import Mapping


class FieldTypes:
    """The known types in the fields of one Struct.

    It does not change, and msgspec needs half a millisecond for the description of a type: too long for thousands of
    lines. Types that carry a dict are not hashable, so they are found by their identity, and kept.
    """

    __slots__ = ("fields", "infos", "present")

    def __init__(self, fields: Mapping[str, msgspec.structs.FieldInfo]) -> None:
        self.fields = fields
        self.infos: dict[int, tuple[object, inspect.Type]] = {}
        self.present: dict[int, tuple[object, object]] = {}

    def info_of(self, kind: object) -> inspect.Type:
        """Return the description of a type."""
        known = self.infos.get(id(kind))
        if known is None:
            known = self.infos[id(kind)] = (kind, inspect.type_info(kind))
        return known[1]

    def present_in(self, union: object) -> object:
        """Return the union without None."""
        known = self.present.get(id(union))
        if known is None:
            rest = [each for each in get_args(union) if each is not type(None)]
            known = self.present[id(union)] = (union, Union[tuple(rest)])  # noqa: UP007 - built from parts
        return known[1]


_ATTRIBUTE: Final = "__sluice_types__"
"""The attribute of a Struct with its `FieldTypes`."""


def types_of(kind: object) -> FieldTypes:
    """Return what is known of a Struct; of another type, nothing yet."""
    if not isinstance(kind, type) or not issubclass(kind, msgspec.Struct):
        return FieldTypes({})
    known: FieldTypes | None = vars(kind).get(_ATTRIBUTE)
    if known is None:
        known = FieldTypes({each.encode_name: each for each in msgspec.structs.fields(kind)})
        setattr(kind, _ATTRIBUTE, known)
    return known
