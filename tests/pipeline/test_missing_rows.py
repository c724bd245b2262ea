"""The line about rows that are missing."""

from pipeline.tables import MissingRows


def test_the_line_names_what_is_missing() -> None:
    """Nothing is said if nothing is missing."""
    assert MissingRows(0, 0, {}).line is None
    assert MissingRows(1200, 2, {}).line == "data quality: 1,200 rows lost in 2 gaps of seq"
    assert MissingRows(0, 0, {"torn": 1, "late": 2}).line == (
        "data quality: 3 lines in quarantine (late 2, torn 1)"
    )
