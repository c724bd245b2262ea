"""The strict conversion of settings."""

from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.api import PolicyConfigError
from policies.validation import Problem, SettingsError, join_path, try_convert

Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Door(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    port: Port
    colour: Literal["red", "green"] = "red"

    def mistakes(self) -> Iterator[Problem]:
        if self.port == 13:
            yield Problem("port", "13", "a lucky port")
            yield Problem("", "a door that is locked")


class House(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    doors: Annotated[tuple[Door, ...], msgspec.Meta(min_length=1)]
    ports: dict[str, Port] = msgspec.field(default_factory=dict)
    extra: dict[str, object] = msgspec.field(default_factory=dict)
    spare: Door | None = None
    number: Annotated[int, msgspec.Meta(ge=0)] | None = None
    even: Annotated[
        int,
        msgspec.Meta(extra={"check": lambda value: ("an even one", "2") if value % 2 else None}),
    ] = 0
    names: frozenset[str] = frozenset()


class Proud(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    size: int = 1

    def __post_init__(self) -> None:
        if self.size == 0:
            raise PolicyConfigError("size", "nothing is too small")
        if self.size < 0:
            raise ValueError("no such size")


class Nest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    proud: Proud


def problems_of(kind: type, data: object, path: str = "") -> list[Problem]:
    value, problems = try_convert(kind, data, path)
    assert value is None
    return problems


def test_valid_data_becomes_its_type() -> None:
    """Data that fits gives the value, nested types included, and no problem."""
    data = {"doors": [{"port": 1}], "spare": None, "extra": {"a": [1, {}]}, "names": ["x"]}
    value, problems = try_convert(House, data)
    assert value == House((Door(1),), extra={"a": [1, {}]}, names=frozenset({"x"}))
    assert problems == []


def test_every_mistake_is_found_at_once() -> None:
    """A mistake in one place hides none in another, and each has its own path."""
    found = problems_of(
        House,
        {
            "doors": [{"port": 0}, {"colour": "gren"}, 7, {"port": 1, "kolour": "red"}],
            "ports": {"a": 1, "b": "2"},
            "spare": {"port": True},
            "number": -1,
            "even": 3,
            "names": "x",
        },
    )
    assert [each.path for each in found] == [
        "doors[0].port",
        "doors[1].colour",
        "doors[1].port",
        "doors[2]",
        "doors[3].kolour",
        "ports.b",
        "spare.port",
        "number",
        "even",
        "names",
    ]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"doors": [{"port": "1"}]}, "found '1', expected an integer from 1 to 65535"),
        (
            {"doors": [{"port": 1, "colour": "gren"}]},
            "found 'gren', expected one of green, red; did you mean green?",
        ),
        (
            {"doors": [{"port": 1, "prt": 1}]},
            "found an unknown key, expected a key: port, colour; did you mean port?",
        ),
        ({"doors": []}, "found a list, expected a list that is not empty, each a mapping"),
        ({"doors": [{}]}, "found nothing, expected an integer from 1 to 65535"),
        (
            {"doors": [{"port": 1}], "spare": []},
            "found a list, expected a mapping with port, colour",
        ),
        ({"doors": [{"port": 1}], "even": 1}, "found 1, expected an even one; did you mean 2?"),
        ({"doors": [{"port": 13}]}, "found 13, expected a lucky port"),
    ],
)
def test_a_problem_says_what_was_expected(data: object, expected: str) -> None:
    """The words come from the type, its bounds, its values or its own check."""
    assert str(problems_of(House, data)[0]).partition(": ")[2] == expected


def test_a_struct_reports_its_own_mistakes_under_its_path() -> None:
    """`mistakes` may report several, each relative to the struct."""
    found = problems_of(House, {"doors": [{"port": 1}, {"port": 13}]}, "root")
    assert [each.path for each in found] == ["root.doors[1].port", "root.doors[1]"]


@pytest.mark.parametrize(
    ("size", "text"), [(0, "p.proud.size: nothing is too small"), (-1, "p.proud: no such size")]
)
def test_what_post_init_refuses_has_a_path(size: int, text: str) -> None:
    """A refusal raised while building is a problem at that very struct."""
    assert [str(each) for each in problems_of(Nest, {"proud": {"size": size}}, "p")] == [text]


def test_one_mistake_is_one_problem_at_the_key_that_is_wrong() -> None:
    """A mistyped key is not reported as missing too; an absent section leads to the keys that are required in it."""
    assert [each.path for each in problems_of(Door, {"prot": 1})] == ["prot"]

    class Shell(msgspec.Struct, frozen=True):
        door: Door

    assert [each.path for each in problems_of(Shell, {})] == ["door.port"]


def test_problems_have_their_paths_and_origins() -> None:
    """Keys are joined by dots, indexes are not; the error's text has a line for each problem."""
    error = SettingsError([Problem("a", "1", "2", origin="f:3"), Problem("", "x", origin="f")])
    assert str(error) == "a (f:3): found 1, expected 2\n(f): x"

    assert [join_path("a", "b"), join_path("a", "[0]"), join_path("", "b"), join_path("a", "")] == [
        "a.b",
        "a[0]",
        "b",
        "a",
    ]


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["doors", "port", "colour", "ports", "spare", "extra", "x"]), inner
        )
        | st.dictionaries(st.integers(), inner, max_size=2)
    ),
    max_leaves=12,
)


@settings(deadline=None)  # a busy machine is no mistake
@given(plain)
def test_agrees_with_msgspec_on_any_data(data: object) -> None:
    """The walk finds a problem exactly when msgspec (or a check of ours) would refuse."""
    value, problems = try_convert(House, data)
    try:
        plainly = msgspec.convert(data, House)
    except msgspec.ValidationError:
        assert problems
        return
    ours = any(door.port == 13 for door in plainly.doors) or plainly.even % 2
    ours = ours or (plainly.spare is not None and plainly.spare.port == 13)
    assert bool(problems) == bool(ours)
    assert value == (None if ours else plainly)
