"""The types in the fields of settings: known once for each class, and gone with it."""

import msgspec

from policies.field_types import types_of


class _Kept(msgspec.Struct):
    names: tuple[str, ...] | None = None


def test_a_class_has_its_types_once():
    """A subclass has types of its own; another type is described each time."""
    assert types_of(_Kept) is types_of(_Kept)
    assert types_of(tuple[str, ...]) is not types_of(tuple[str, ...])
    assert types_of(msgspec.defstruct("Below", [], bases=(_Kept,))) is not types_of(_Kept)


def test_a_type_is_described_once():
    """And its part without None is one object."""
    types = types_of(_Kept)
    kind = types.fields["names"].type
    assert types.info_of(kind) is types.info_of(kind)
    assert types.present_in(kind) is types.present_in(kind)
