"""Drawing: each value is a mark at its place."""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.demo.report import LABEL, RIGHT, WIDTH, Strip, axis_marks, course, draw

VALUES = st.floats(min_value=0, max_value=1e7)


def xs(drawn: str, kind: str) -> list[float]:
    """Return the x of each circle of a kind."""
    return [float(x) for x in re.findall(rf'<circle class="{kind}" cx="([\d.]+)"', drawn)]


@given(st.lists(VALUES, min_size=1, max_size=20), st.lists(VALUES, max_size=20))
def test_every_value_is_drawn_inside_and_in_its_order(
    dots: list[float], rings: list[float]
) -> None:
    """However different, all values are on the axis, a larger one never left of a smaller one."""
    drawn = draw([Strip("one", "", dots, rings)], "ms", "description")

    found = xs(drawn, "dot")
    assert len(found) == len(dots)
    assert len(xs(drawn, "ring")) == len(rings)
    assert all(LABEL <= x <= WIDTH - RIGHT for x in (*found, *xs(drawn, "ring")))
    in_order = [x for _, x in sorted(zip(dots, found, strict=True))]
    assert in_order == sorted(in_order)


def test_equal_ratios_are_equal_distances() -> None:
    """The axis is logarithmic: from 1 to 10 is as far as from 10 to 100."""
    one, ten, hundred = xs(draw([Strip("", "", [1, 10, 100])], "ms", ""), "dot")

    assert ten - one == pytest.approx(hundred - ten, abs=0.11)


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(4, 25, [5, 10, 20]), (0.9, 11_000, [1, 10, 100, 1000, 10_000])],
)
def test_axis_marks_are_round_and_few(first: float, last: float, expected: list[float]) -> None:
    """A short axis is marked at 1, 2 and 5, a long one at powers of ten."""
    assert axis_marks(first, last) == pytest.approx(expected)


def test_a_bound_is_drawn_at_its_value() -> None:
    """The stroke of a quota and a sample equal to it have the same x."""
    drawn = draw([Strip("quota", "", [10, 50])], "requests/s", "description", bound=50)

    (bound,) = re.findall(r'<path class="bound" d="M([\d.]+) ', drawn)
    assert float(bound) == xs(drawn, "dot")[1]


def test_a_course_spans_its_time_and_its_values() -> None:
    """Time is even from left to right; zero is at the bottom, the highest value at the top."""
    root = ET.fromstring(course([(100, 0), (101, 8), (104, 4)], "description"))  # noqa: S314 - our own

    assert root.get("viewBox") == "0 0 4 8"
    assert root[0].get("points") == "0,8 0.0,8 1.0,0 4.0,4 4.0,8"


def test_drawings_are_xml_with_a_description() -> None:
    """Each can be parsed by itself; a name with markup is text."""
    for drawn in (
        draw([Strip("<b>", "", [1])], "ms", "a < b"),
        course([(1, 1)], "a < b"),
    ):
        root = ET.fromstring(drawn)  # noqa: S314 - our own
        assert root.get("aria-label") == "a < b"
