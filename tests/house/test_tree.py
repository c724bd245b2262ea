"""The files of the project: where they lie, how long they are, what must not stand in them.

ruff, mypy and import-linter check what they can. Each test here looks at all files and names those that break its rule.
"""

import ast
import re

from tests.support.house.house import FILES, MODULES, ROOT, SOURCES, TEXT_FILES, files_below, name

TOP_LEVEL = {
    *(
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
        "Makefile",
        "Dockerfile",
    ),
    *("sluice", "wire", "policies", "proxy", "pipeline", "helm", "tests", "bench", "docs"),
    *("examples", "requirements"),
}
LONGEST, LONGEST_WHOLE = 400, 600
STATE_MACHINES = {
    "proxy/shell/event_loop.py",
    "proxy/core/session/reply_stream.py",
    "proxy/core/session/request_stream.py",
    "proxy/core/session/session.py",
    "tests/support/model/reference_model.py",
}
"""To split one of these would cut one thought."""
TABLES = {"proxy/telemetry/metrics/names.py", "wire/apis.py"}
"""They grow by an entry with each metric, and with each API of Kafka."""
# Written in parts, so that this file does not find itself.
MACHINE = "|".join(("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/t" + "mp/"))
REGISTRY = "|".join(
    ("index-" + "url", r"pypi\." + "org", "python" + "hosted", r"repo1?\." + "maven", "npm" + "js")
)


def test_the_top_level_is_fixed() -> None:
    """Only what the design names lies in the top folder, and dotfiles."""
    assert {path.relative_to(ROOT).parts[0] for path in files_below(ROOT)} == TOP_LEVEL


def test_no_file_is_long() -> None:
    """A source file has at most 400 lines, a state machine or a table 600."""
    lines = {
        name(path): len(path.read_text("utf-8").splitlines())
        for path in FILES
        if path.suffix in SOURCES
    }
    limits = dict.fromkeys(lines, LONGEST) | dict.fromkeys(STATE_MACHINES | TABLES, LONGEST_WHOLE)

    assert not {path: n for path, n in lines.items() if n > limits[path]}


def test_no_file_names_a_machine_or_a_registry() -> None:
    """The project runs wherever it is cloned: no path of one machine, no package index."""
    banned = re.compile(f"{MACHINE}|{REGISTRY}")
    found = {name(path): banned.findall(path.read_text("utf-8")) for path in TEXT_FILES}

    assert not {path: words for path, words in found.items() if words}


def test_each_test_says_what_must_hold() -> None:
    """Every test has a sentence. ruff's D103 would ask every helper for one."""
    tests = [
        (path, node)
        for path in MODULES
        if path.name.startswith("test_")
        for node in ast.parse(path.read_text("utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    ]

    assert tests
    assert not [f"{name(path)}::{node.name}" for path, node in tests if not ast.get_docstring(node)]
