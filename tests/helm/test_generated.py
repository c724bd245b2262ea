"""The files made from the charts are up to date: run `make helm` after a change of a chart or of a setting."""

from tests.support.house.house import name
from tests.support.kubernetes.chart_files import GOLDEN, made


def test_the_made_files_are_up_to_date() -> None:
    """`make helm` would change none of them, and each golden file is one of them."""
    texts = dict(made())

    assert not [name(file) for file in texts if file.read_text("utf-8") != texts[file]]
    assert set(GOLDEN.rglob("*.yaml")) <= texts.keys()
