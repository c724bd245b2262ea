"""Lines and cells of names, as commands print them."""

import csv
import io
import math

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cli.options import spark_options
from pipeline.cli.printing import FORMULA, print_csv, tell
from policies.escaping import escaped


def printed(rows: list[dict[str, object]], *options: str) -> str:
    """Return the CSV of a command with these rows."""

    @click.command()
    @spark_options
    def command(**_: object) -> None:
        print_csv(["name", "figure"], rows)

    return CliRunner().invoke(command, options).stdout


@pytest.mark.parametrize("begin", [*FORMULA, "\t=", "\r=", "\n="])
def test_no_cell_begins_as_a_formula(begin: str) -> None:
    """Nor with a separator of another country, nor after a quote; figures below zero stay numbers."""
    name = f'{begin}1+1";=2+2'
    (row,) = csv.DictReader(io.StringIO(printed([{"name": name, "figure": -1.5}])))

    assert not row["name"].startswith((*FORMULA, "\t", "\r", "\n"))
    assert row["name"].removeprefix("'") == escaped(name)
    assert row["figure"] == "-1.5"
    assert printed([{"name": name, "figure": 1}]).splitlines()[1][0] == '"'


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "name": st.text(st.characters(exclude_categories=["Cs"])),
                "figure": st.none() | st.integers() | st.floats(allow_nan=False),
            }
        )
    )
)
def test_raw_csv_has_every_row_exactly(rows: list[dict[str, object]]) -> None:
    """Names with quotes, commas and line ends, too; null is empty."""
    read = csv.DictReader(io.StringIO(printed(rows, "--raw"), newline=""))
    for row, given_row in zip(read, rows, strict=True):
        assert row["name"] == given_row["name"]
        figure = given_row["figure"]
        if figure is None:
            assert row["figure"] == ""
        else:
            assert math.isclose(float(row["figure"]), float(str(figure)))


@given(st.text())
def test_a_line_stays_one_line(name: str) -> None:
    """Whatever is in it."""

    @click.command()
    def command() -> None:
        tell(f"quota of {name}")

    told = CliRunner().invoke(command).stdout
    assert told == f"quota of {escaped(name)}\n"
    assert told[:-1].isprintable()
