"""The parts that all charts share."""

import xml.etree.ElementTree as ET

from bench.harness import svg


def test_a_document_is_well_formed_and_has_its_title() -> None:
    """Text is escaped."""
    root = ET.fromstring(  # noqa: S314 - our own text
        svg.document("a < b & c", "note", (10, 20), [svg.text(1, 2, "axis", "x < y")])
    )
    assert root.get("viewBox") == "0 0 10 20"
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a < b & c", "note", "x < y"]
