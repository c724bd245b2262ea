"""The description of the machine."""

from bench.harness.machine import describe, processor


def test_the_processor_is_named_by_its_model() -> None:
    """The first model line counts; without one the architecture is told."""
    assert processor("processor: 0\nmodel name\t: A 9000\nmodel name: B\n") == "A 9000"
    assert processor("nothing here")


def test_every_line_says_something() -> None:
    """No empty value reaches the report."""
    assert all(describe().values())
