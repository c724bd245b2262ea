"""The names of types and values in messages."""

from enum import Enum
from typing import Annotated, Literal

import msgspec
import pytest
from msgspec import Meta, Struct, inspect

from policies.field_types import types_of
from policies.type_names import convert_units, describe_type, describe_value, nearest, struct_of


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (int, "an integer"),
        (Annotated[int, Meta(ge=1, le=5)], "an integer from 1 to 5"),
        (Annotated[int, Meta(ge=1)], "an integer at least 1"),
        (Annotated[float, Meta(gt=0, lt=1)], "a number above 0 and below 1"),
        (bool, "true or false"),
        (str, "a text"),
        (Annotated[str, Meta(min_length=1)], "a text that is not empty"),
        (Literal["a", "b"], "one of a, b"),
        (Colour, "one of red"),
        (int | None, "an integer or nothing"),
        (tuple[int, ...], "a list, each an integer"),
        (Annotated[list[str], Meta(min_length=1)], "a list that is not empty, each a text"),
        (dict[str, int], "a mapping"),
        (Annotated[int, Meta(extra={"expected": "a prime"})], "a prime"),
        (bytes, "a value of another kind"),
    ],
)
def test_a_type_in_words(kind: object, words: str) -> None:
    """Each kind of type is named by what it accepts."""
    assert describe_type(inspect.type_info(kind)) == words


def test_a_struct_is_one_also_if_it_may_be_none() -> None:
    """Other unions and types are no section of settings."""

    class Section(Struct):
        pass

    for kind in (Section, Section | None, Annotated[Section | None, Meta(title="t")]):
        struct = struct_of(inspect.type_info(kind))
        assert struct is not None
        assert struct.cls is Section
    for other in (int, int | None, int | str | None, tuple[Section, ...]):
        assert struct_of(inspect.type_info(other)) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "nothing"),
        (True, "true"),
        (7, "7"),
        ("a", "'a'"),
        ({}, "a mapping"),
        ([1], "a list"),
        ("x" * 99, "'" + "x" * 59 + "..."),
    ],
)
def test_a_value_in_words(value: object, words: str) -> None:
    """A value is shown as its author wrote it, and cut if it is long."""
    assert describe_value(value) == words


def test_nearest_returns_a_similar_name_or_nothing() -> None:
    """As it must be written, in any case; comparing a megabyte with every key would take minutes."""
    assert nearest("deletetopic", ["DeleteTopics", "CreateTopics"]) == "DeleteTopics"
    assert not nearest("zzz", ["DeleteTopics"])

    assert nearest("limits" * 200_000, ["limits"]) == ""


@pytest.mark.parametrize(
    ("path", "value", "meant"),
    [
        ("a.timeout_ms", "10s", "10000"),
        ("a.timeout_ms", "1.5 h", "5400000"),
        ("a.timeout_ms", "250ms", "250"),
        ("a.keep_bytes", "100MB", "104857600"),
        ("a.keep_bytes", "16 KiB", "16384"),
        ("a.window_seconds", "2m", "120"),
        ("a.window_seconds", "10ms", ""),
        ("a.timeout_ms", "10 parsecs", ""),
        ("a.timeout_ms", "100MB", ""),
        ("a.port", "10s", ""),
    ],
)
def test_a_quantity_with_a_unit_is_the_number_that_the_key_wants(path, value, meant):
    """The unit at the end of the key decides."""
    assert convert_units(path, inspect.type_info(int), value) == meant


class _Kept(msgspec.Struct):
    names: tuple[str, ...] | None = None


def test_a_class_and_a_type_are_described_once():
    """A subclass has types of its own; another type is described each time."""
    assert types_of(_Kept) is types_of(_Kept)
    assert types_of(tuple[str, ...]) is not types_of(tuple[str, ...])
    assert types_of(msgspec.defstruct("Below", [], bases=(_Kept,))) is not types_of(_Kept)

    types = types_of(_Kept)
    kind = types.fields["names"].type
    assert types.info_of(kind) is types.info_of(kind)
    assert types.present_in(kind) is types.present_in(kind)
