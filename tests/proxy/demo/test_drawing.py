"""Drawing: each value is a mark at its place, and nothing is drawn of nothing."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.drawing import LABEL, RIGHT, WIDTH, Strip, course, marks, places, strips

VALUES = st.floats(min_value=0, max_value=1e7)


def xs(drawn: str, kind: str) -> list[float]:
    """Return where the circles of a kind stand."""
    return [float(x) for x in re.findall(rf'<circle class="{kind}" cx="([\d.]+)"', drawn)]


@given(st.lists(VALUES, min_size=1, max_size=20), st.lists(VALUES, max_size=20))
def test_every_value_stands_inside_and_in_its_order(dots: list[float], rings: list[float]) -> None:
    """However far apart, all marks are on the axis, a larger value never left of a smaller one."""
    drawn = strips([Strip("one", dots, rings)], "ms", "words")

    found = xs(drawn, "dot")
    assert len(found) == len(dots)
    assert len(xs(drawn, "ring")) == len(rings)
    assert all(LABEL <= x <= WIDTH - RIGHT for x in (*found, *xs(drawn, "ring")))
    in_order = [x for _, x in sorted(zip(dots, found, strict=True))]
    assert in_order == sorted(in_order)


def test_equal_ratios_are_equal_distances() -> None:
    """The axis is logarithmic: from 1 to 10 is as far as from 10 to 100."""
    one, ten, hundred = xs(strips([Strip("", [1, 10, 100])], "ms", ""), "dot")

    assert ten - one == pytest.approx(hundred - ten, abs=0.11)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(4, 25, [5, 10, 20]), (0.9, 11_000, [1, 10, 100, 1000, 10_000])],
)
def test_marks_are_round_and_few(first: float, last: float, expected: list[float]) -> None:
    """A short axis is marked at 1, 2 and 5, a long one at powers of ten."""
    assert marks(first, last) == pytest.approx(expected)


def test_a_bound_is_drawn_where_its_value_would_be() -> None:
    """The stroke of a quota and a sample that meets it stand at the same place."""
    drawn = strips([Strip("held", [10, 50], bounds=[50])], "requests/s", "words")

    (bound,) = re.findall(r'<path class="bound" d="M([\d.]+) ', drawn)
    assert float(bound) == xs(drawn, "dot")[1]


def test_a_course_begins_left_ends_right_and_touches_its_ground() -> None:
    """Time is even; nought is at the bottom, the highest at the top."""
    drawn = course([(100, 0), (101, 8), (104, 4)], "words")

    (line,) = re.findall(r'<path class="line" d="M([^"]+)"', drawn)
    points = [tuple(map(float, place.split())) for place in line.split("L")]
    assert [x for x, _ in points] == [0, 69, 276]
    assert points[0][1] > points[2][1] > points[1][1]


def test_drawings_are_whole_and_named() -> None:
    """Each is XML by itself, with its words; a name with markup is text."""
    for drawn in (
        strips([Strip("<b>", [1])], "ms", "a < b"),
        course([(1, 1)], "a < b"),
        places([("<b>", {"p"})], ["p"], ["q"]),
    ):
        root = ET.fromstring(drawn)  # noqa: S314 - our own
        assert root.get("aria-label")


def test_nothing_is_drawn_of_nothing() -> None:
    """An axis without a value would be a lie."""
    with pytest.raises(ValueError, match="nothing"):
        strips([Strip("one", [])], "ms", "")
    with pytest.raises(ValueError, match="nothing"):
        course([], "")
