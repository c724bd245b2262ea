"""Each threat has a test file of its own, and a row in docs/use/threats.md that says what was measured."""

import ast
import re

from tests.support.house.house import ROOT

ROW = re.compile(r"^\| T(\d+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


def test_each_row_of_the_threats_page_has_a_figure_and_its_test_file() -> None:
    """The rows are in order; each `tests/threats/test_tNN_*.py` begins with `TNN: `, has a test, and has a row."""
    rows = ROW.findall((ROOT / "docs" / "use" / "threats.md").read_text("utf-8"))
    files = {path.name[6:8]: path for path in (ROOT / "tests" / "threats").glob("test_*.py")}

    assert [int(number) for number, _ in rows] == list(range(1, len(rows) + 1))
    assert files.keys() == {f"{int(number):02}" for number, _ in rows}
    for number, measured in rows:
        text = files[f"{int(number):02}"].read_text("utf-8")
        assert re.search(r"\d", measured), number
        assert (ast.get_docstring(ast.parse(text)) or "").startswith(f"T{number}: ")
        assert re.search(r"^(async )?def test_", text, re.MULTILINE), number
