"""How types and values are put in words."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

import pytest
from msgspec import Meta, inspect

from policies.type_words import describe, found, nearest


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
    """Each kind of type says what it expects."""
    assert describe(inspect.type_info(kind)) == words


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
    """A value is shown as its writer knows it, and never at great length."""
    assert found(value) == words


def test_nearest_ignores_case_and_knows_when_nothing_is_near() -> None:
    """The most alike is offered as it must be written; nothing alike gives ''."""
    assert nearest("deletetopic", ["DeleteTopics", "CreateTopics"]) == "DeleteTopics"
    assert not nearest("zzz", ["DeleteTopics"])
