"""Questions of docs/architecture.md: every file and every name that it gives as an answer exists."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| ([^|]+\?) \| ([^|]+) \| [^|]+ \|$", re.MULTILINE)
ANSWERS = ROW.findall((ROOT / "docs" / "architecture.md").read_text("utf-8"))
MAX_FILES = 2


def names_in(path: str) -> set[str]:
    """The functions, methods and classes of a source file."""
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }


def test_each_question_is_answered_in_at_most_two_files() -> None:
    """Each of the ten answers names one or two files, and functions or classes that each of them has."""
    assert len(ANSWERS) == 10
    for question, where in ANSWERS:
        files = [re.findall(r"`([^`]+)`", part) for part in where.split(";")]

        assert 1 <= len(files) <= MAX_FILES, question
        assert all(len(each) > 1 and set(each[1:]) <= names_in(each[0]) for each in files), question
