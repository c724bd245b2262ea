"""Shapes and the load generator's arguments."""

from bench.shapes import Shape


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
