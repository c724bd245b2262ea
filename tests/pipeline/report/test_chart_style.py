"""The look of charts: colours that both schemes can show, spaces for labels, plain SVG."""

import re
from importlib.resources import files
from itertools import pairwise

import altair as alt
import pytest

from pipeline.report.chart_style import (
    NARROW,
    SHADE_INKS,
    SHADES,
    STAGE_COLOURS,
    STEPS,
    USERS,
    WIDE,
    data_of,
    finished,
    log_marks,
    names_axis,
    share_axis,
    svg_of,
)

STYLE = (files("pipeline.report") / "page.css").read_text("utf-8")
SCHEMES = [
    dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", part))
    for part in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
]
TEXTS = {
    "--ink": "--ground", "--ink-2": "--ground", "--warn": "--warn-soft", "--ok": "--ok-soft",
    **{ink[4:-1]: shade[4:-1] for ink, shade in zip(SHADE_INKS, SHADES, strict=True)},
    # percentages are written on the bars of stages in the colour of the ground
    **{colour[4:-1]: "--ground" for colour in STAGE_COLOURS.values()},
}  # fmt: skip
GRAPHICS = ["--bound", *(each[4:-1] for each in USERS), "--u5", "--h3", "--h4"]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.2)."""

    def luminance(colour: str) -> float:
        parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colours", SCHEMES, ids=["light", "dark"])
def test_every_colour_can_be_seen(colours: dict[str, str]) -> None:
    """Text has a contrast of 4.5 at least, marks have 3, shades become stronger, neighbours differ in grey."""
    assert len(SCHEMES) == 2
    weak = {
        (ink, ground): contrast(colours[ink], colours[ground])
        for ink, ground in TEXTS.items()
        if contrast(colours[ink], colours[ground]) < 4.5
    }
    assert not weak
    faint = {
        mark: contrast(colours[mark], colours["--ground"])
        for mark in GRAPHICS
        if contrast(colours[mark], colours["--ground"]) < 3
    }
    assert not faint
    strengths = [contrast(colours[shade[4:-1]], colours["--ground"]) for shade in SHADES]
    assert all(b > a for a, b in pairwise(strengths))
    assert len(SHADES) == len(SHADE_INKS) == len(STEPS) + 1
    stack = [colours[each[4:-1]] for each in USERS]
    assert all(contrast(a, b) >= 1.25 for a, b in pairwise(stack))


def test_an_axis_of_names_has_space_for_the_longest() -> None:
    """Also in a font that is wider than the one that the drawing was measured with."""
    axis = names_axis(["Produce", "a" * 20]).to_dict()

    assert axis["minExtent"] >= 20 * 7
    assert names_axis(["订" * 10]).to_dict() == axis  # a wide character takes two columns
    assert axis["labelLimit"] == 0  # cut by us, visibly
    assert names_axis([]).to_dict()["minExtent"] > 0


def test_marks_of_a_logarithmic_axis_are_round() -> None:
    """1, 2 and 5 of each power of ten; on a long axis, or a narrow screen, the powers alone."""
    assert log_marks(3, 70, WIDE) == [5, 10, 20, 50]
    assert log_marks(3, 70, NARROW) == [10]
    assert log_marks(3, 30, NARROW) == [5, 10, 20]
    assert log_marks(0.05, 2000, WIDE) == [0.1, 1, 10, 100, 1000]
    assert len(share_axis(NARROW).to_dict()["values"]) < len(share_axis(WIDE).to_dict()["values"])


def test_svg_is_plain() -> None:
    """It scales, has one description, and no part of it is an element of its own to a screen reader."""
    rows = [{"x": 1, "y": 'a role="b" <i>'}]
    chart = alt.Chart(data_of(rows)).mark_text().encode(x="x:Q", text="y:N")

    drawn = svg_of(finished(chart, NARROW, 80), 'Rates of "a" & b', NARROW)

    opening = '<svg class="narrow" role="img" aria-label="Rates of &quot;a&quot; &amp; b" viewBox='
    assert drawn.startswith(opening)
    assert drawn.count("role=") == 2  # the drawing's own, and the one in the text
    assert 'a role="b" &lt;i&gt;' in drawn
    assert not re.findall(r"aria-roledescription|xmlns|http", drawn)
    assert f'viewBox="0 0 {NARROW.width} 80"' in drawn
