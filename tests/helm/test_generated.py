"""The files made from the charts are up to date: run `make helm` after a change of a chart or of a setting."""

from pathlib import Path

import pytest

from tests.support.house.house import name
from tests.support.kubernetes.chart_files import GOLDEN, made

MADE = dict(made())


@pytest.mark.parametrize("file", MADE, ids=name)
def test_a_made_file_is_up_to_date(file: Path) -> None:
    """`make helm` would not change it."""
    assert file.read_text("utf-8") == MADE[file]


def test_no_golden_file_is_left_over() -> None:
    """Each golden file belongs to a set of values that exists."""
    assert set(GOLDEN.rglob("*.yaml")) <= MADE.keys()
