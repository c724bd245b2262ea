"""Each threat has a test file of its own, and a row in docs/threats.md that says what was measured."""

import ast
import re

import pytest

from tests.support.house.house import ROOT

THREATS = [f"T{number}" for number in range(1, 31)]
ROW = re.compile(r"^\| (T\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
PAGE = (ROOT / "docs" / "threats.md").read_text("utf-8")
ROWS = {found[0]: found[1:] for found in ROW.findall(PAGE)}


@pytest.mark.parametrize("threat", THREATS)
def test_each_threat_has_a_test_file_that_names_it(threat: str) -> None:
    """`tests/threats/test_tNN_*.py`, one for each, whose docstring begins with the threat, and which has a test."""
    (file,) = (ROOT / "tests" / "threats").glob(f"test_t{int(threat[1:]):02d}_*.py")
    tree = ast.parse(file.read_text("utf-8"))
    names = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]

    assert (ast.get_docstring(tree) or "").startswith(f"{threat}: ")
    assert any(name.startswith("test_") for name in names)


def test_each_threat_has_a_row_with_a_measured_figure() -> None:
    """The rows are in order."""
    assert list(ROWS) == THREATS
    for threat in THREATS:
        assert re.search(r"\d", ROWS[threat][2]), threat


def test_no_other_file_is_among_the_threats() -> None:
    """Tests of faults that are no threat of the table are in tests/faults."""
    files = {path.name for path in (ROOT / "tests" / "threats").glob("test_*.py")}

    assert {f"T{int(name[6:8])}" for name in files} == set(THREATS)


def test_the_policy_says_whom_to_tell_and_when_it_is_published() -> None:
    """SECURITY.md has a contact and a time."""
    policy = (ROOT / "SECURITY.md").read_text("utf-8")

    assert "Report a vulnerability" in policy
    assert "90 days" in policy
