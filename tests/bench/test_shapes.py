"""Shapes and the load generator's arguments."""

import pytest

from bench.shapes import SHAPES, Shape, choose


def test_nothing_named_means_all() -> None:
    """An empty list is the whole table."""
    assert choose("") == list(SHAPES)


def test_named_shapes_come_in_the_order_of_the_table() -> None:
    """The order given does not matter."""
    assert [shape.name for shape in choose("kb-16,small-1")] == ["small-1", "kb-16"]


def test_an_unknown_shape_is_named() -> None:
    """The message tells the wrong name and the right ones."""
    with pytest.raises(ValueError, match=r"unknown shape smal; known: .*small-1"):
        choose("smal,small-1")


def test_names_are_unique() -> None:
    """Results are kept by name."""
    assert len({shape.name for shape in SHAPES}) == len(SHAPES)


def test_arguments_carry_every_field() -> None:
    """Each field of a shape is an argument of `load`."""
    shape = Shape("x", "x", 7, depth=3, kind="fetch", value_bytes=9, rate=100)
    given = shape.arguments(1234, 0.5, 0.1, 11)
    assert dict(zip(given[:-1:2], given[1::2], strict=True)) == {
        "-p": "1234",
        "-k": "fetch",
        "-n": "7",
        "-d": "3",
        "-b": "9",
        "-r": "100",
        "-s": "0.5",
        "-w": "0.1",
        "-v": "11",
    }
