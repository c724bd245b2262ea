"""The SVG writer."""

import re
from xml.etree import ElementTree as ET

from bench.chart import Group, chart
from bench.harness.figures import Spread

NS = "{http://www.w3.org/2000/svg}"


def bars(text: str) -> list[ET.Element]:
    """The bars of a picture, without the legend."""
    found = ET.fromstring(text).iter(f"{NS}rect")  # noqa: S314  our own output
    return [rect for rect in found if rect.get("height") == "13"]


def test_the_picture_is_well_formed_and_escaped() -> None:
    """Names with markup in them stay text."""
    text = chart("a < b & c", "note", [Group("x<y", {"a&b": Spread(1.0, 1.0, 1.0)})])
    words = [element.text for element in ET.fromstring(text).iter(f"{NS}text")]  # noqa: S314  our own output
    assert {"a < b & c", "x<y", "a&b"} <= set(words)


def test_a_bar_is_as_long_as_its_figure() -> None:
    """Half the figure is half the length, in every group."""
    groups = [
        Group("one", {"a": Spread(1.0, 1.0, 1.0)}),
        Group("two", {"a": Spread(0.5, 0.4, 0.6)}),
    ]
    long, short = (float(bar.get("width", "0")) for bar in bars(chart("t", "n", groups)))
    assert abs(long - 2 * short) < 0.2


def test_nothing_is_drawn_outside() -> None:
    """Every bar ends inside the view box, the longest too."""
    text = chart("t", "n", [Group("one", {"a": Spread(3.9, 3.0, 4.4), "b": Spread(0.1, 0.1, 0.1)})])
    width = float(re.findall(r'viewBox="0 0 (\d+)', text)[0])
    for bar in bars(text):
        assert float(bar.get("x", "0")) + float(bar.get("width", "0")) < width


def test_a_variant_keeps_its_colour() -> None:
    """The same name has the same class in each group, and a dark page has colours of its own."""
    one = Spread(1.0, 1.0, 1.0)
    text = chart("t", "n", [Group("x", {"a": one, "b": one}), Group("y", {"b": one})])
    assert [bar.get("class") for bar in bars(text)] == ["c0", "c1", "c1"]
    assert "prefers-color-scheme: dark" in text
