"""The picture."""

from dataclasses import replace
from xml.etree import ElementTree as ET

from bench.purgatory.figures import CANDIDATES, PAPER, Found, Run
from bench.purgatory.plot import COLOURS, plot

SVG = "{http://www.w3.org/2000/svg}"


def found():
    """Two candidates under both loads at two rates; the higher one not held."""
    return Found(
        [
            Run(
                name,
                load,
                rate,
                1000,
                1.2 * rate,
                rate / 3 if rate > 99_000 else rate * 1.2,
                0.4,
                4.0,
                2e7,
                gc_ms=12.5,
            )
            for name in ("heap", "wheel")
            for load in ("low", "high")
            for rate in (400_000, 40_000)
        ]
    )


def test_it_is_a_drawing_with_one_line_for_each_candidate_in_each_panel():
    """Six panels; the points of a line go from left to right."""
    root = ET.fromstring(plot(found()))  # noqa: S314 - our own text
    lines = root.findall(f"{SVG}polyline")
    assert sorted(line.get("class") for line in lines) == ["l heap"] * 6 + ["l wheel"] * 6
    for line in lines:
        xs = [float(point.split(",")[0]) for point in line.get("points").split()]
        assert xs == sorted(xs)


def test_what_was_not_held_is_an_empty_circle():
    """One of two, each time."""
    root = ET.fromstring(plot(found()))  # noqa: S314 - our own text
    kinds = [circle.get("class").split()[1] for circle in root.findall(f"{SVG}circle")]
    assert kinds.count("empty") == kinds.count("full") == 12


def test_a_figure_that_was_not_measured_is_not_drawn():
    """Rather than as zero."""
    runs = [replace(run, gc_ms=None) for run in found().runs]
    lines = ET.fromstring(plot(Found(runs))).findall(f"{SVG}polyline")  # noqa: S314 - our own text
    assert sorted(line.get("class") for line in lines) == ["l heap"] * 4 + ["l wheel"] * 4


def test_the_saturation_of_the_papers_designs_is_marked():
    """A dashed line for each of its three rates."""
    text = plot(found())
    assert text.count("stroke-dasharray=") == len(PAPER) == 3


def test_everything_lies_inside():
    """No point, no text beyond the edge."""
    root = ET.fromstring(plot(found()))  # noqa: S314 - our own text
    width, height = (float(part) for part in root.get("viewBox").split()[2:])
    for circle in root.findall(f"{SVG}circle"):
        assert 0 < float(circle.get("cx")) < width
        assert 0 < float(circle.get("cy")) < height
    for text in root.findall(f"{SVG}text"):
        assert 0 <= float(text.get("x")) < width
        assert 0 < float(text.get("y")) < height


def test_every_candidate_has_a_colour():
    """Two: for light and dark pages."""
    assert set(COLOURS) == {each.name for each in CANDIDATES}


def test_nothing_found_is_still_a_drawing():
    """With empty panels."""
    assert ET.fromstring(plot(Found())).tag == f"{SVG}svg"  # noqa: S314 - our own text
