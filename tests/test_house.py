"""The house itself: where things lie, how big they are, and that each has its test.

What ruff, mypy and import-linter can say is said to them; here is the rest.
"""

from __future__ import annotations

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest
from setuptools import find_packages

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("wire", "policies", "proxy")
TOP_LEVEL = {
    *("pyproject.toml", "README.md", "LICENSE", "Makefile", "Dockerfile", "requirements"),
    *("wire", "policies", "proxy", "pipeline", "helm", "tests", "bench", "docs", "examples"),
}
MADE = {"__pycache__", "build", "dist", "site", "reports", "bin"}
"""Folders that tools make; dotfiles and *.egg-info are passed over too."""
LONGEST = 400
LONGEST_MACHINE = 600
STATE_MACHINES = {
    "proxy/shell/hub.py",
    "proxy/core/requests.py",
    "proxy/core/state.py",
    "tests/support/reference_model.py",
}
"""To split one of these would cut one thought."""
SOURCES = {".py", ".c", ".h", ".sh"}
TEXTS = {*SOURCES, ".md", ".toml", ".yml", ".yaml", ".txt", ".in", ".cfg", ".json", ".jinja", ""}

# Written in parts, so that this file does not find itself.
MACHINE = re.compile("|".join(("/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/t" + "mp/")))
REGISTRY = re.compile(
    "|".join(
        (
            "index-" + "url",
            "pypi" + r"\.org",
            "python" + "hosted",
            "repo1?" + r"\.maven",
            "npm" + "js",
        )
    )
)


def files_below(folder: Path) -> list[Path]:
    """Return every file that someone wrote, sorted."""
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.name in MADE or path.name.startswith(".") or path.name.endswith(".egg-info"):
            continue
        found.extend(files_below(path) if path.is_dir() else [path])
    return found


FILES = [*files_below(ROOT), *(path for path in (ROOT / ".ci").iterdir() if path.is_file())]
TEXT_FILES = [path for path in FILES if path.suffix in TEXTS]
MODULES = [path for path in FILES if path.suffix == ".py"]
ROOM_MODULES = [path for path in MODULES if path.relative_to(ROOT).parts[0] in ROOMS]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


def name(path: Path) -> str:
    """Return the path as a reader of the project knows it."""
    return path.relative_to(ROOT).as_posix()


def test_the_top_level_is_fixed() -> None:
    """Nothing lies in the top folder but what the design names, and dotfiles."""
    there = {path.relative_to(ROOT).parts[0] for path in files_below(ROOT)}

    assert there <= TOP_LEVEL
    assert there >= TOP_LEVEL - {"pipeline", "helm"}


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix in SOURCES], ids=name)
def test_no_file_is_long(path: Path) -> None:
    """A source file has at most 400 lines, a state machine 600."""
    longest = LONGEST_MACHINE if name(path) in STATE_MACHINES else LONGEST
    assert len(path.read_text("utf-8").splitlines()) <= longest


@pytest.mark.parametrize("path", ROOM_MODULES, ids=name)
def test_each_module_has_its_test_file(path: Path) -> None:
    """`room/part/name.py` has `tests/room/part/test_name.py`; packages' own files are exempt."""
    if path.stem in {"__init__", "__main__"}:
        return
    inside = path.relative_to(ROOT)

    assert (ROOT / "tests" / inside.parent / f"test_{inside.name}").is_file()


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_each_module_says_what_it_is(path: Path) -> None:
    """Every module that has a line of code opens with a docstring."""
    tree = ast.parse(path.read_text("utf-8"))

    assert not tree.body or ast.get_docstring(tree)


@pytest.mark.parametrize("path", [p for p in MODULES if p.name.startswith("test_")], ids=name)
def test_each_test_says_what_must_hold(path: Path) -> None:
    """Every test has a sentence."""
    silent = [
        node.name
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]

    assert not silent


def sleeps(tree: ast.Module) -> list[int]:
    """Return the lines that call `time.sleep`, under whatever name it was imported."""
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "time"
        for alias in node.names
        if alias.name == "sleep"
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func) == "time.sleep"
            or (isinstance(node.func, ast.Name) and node.func.id in names)
        )
    ]


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if p.name.startswith("test_") and "integration" not in p.parts],
    ids=name,
)
def test_unit_tests_do_not_sleep(path: Path) -> None:
    """No unit test waits for the wall clock."""
    assert not sleeps(ast.parse(path.read_text("utf-8")))


def test_sleeping_is_found_under_any_name() -> None:
    """The check above sees both ways of calling it, and nothing else."""
    code = "import time\nfrom time import sleep as nap\ntime.sleep(1)\nnap(1)\ntrio.sleep(1)\n"

    assert sleeps(ast.parse(code)) == [3, 4]


@pytest.mark.parametrize("path", TEXT_FILES, ids=name)
def test_no_file_names_a_machine_or_a_registry(path: Path) -> None:
    """No path of somebody's machine, no package index: the project runs wherever it is cloned."""
    text = path.read_text("utf-8")

    assert not MACHINE.findall(text)
    assert not REGISTRY.findall(text)


EXCUSE = re.compile(r"# (noqa|type: ignore)(.*)")
REASON = re.compile(r"(: ?[A-Z]+\d+(, ?[A-Z]+\d+)*|\[[a-z-]+(, ?[a-z-]+)*\]) +(- |# )?\S")


@pytest.mark.parametrize("path", ROOM_MODULES, ids=name)
def test_every_exemption_gives_its_reason(path: Path) -> None:
    """`noqa` and `type: ignore` name the rule they break, and say why."""
    bare = [
        line.strip()
        for line in path.read_text("utf-8").splitlines()
        for excuse in [EXCUSE.search(line)]
        if excuse and not REASON.match(excuse[2])
    ]

    assert not bare


def pins(lock: Path) -> dict[str, str]:
    """Return what a lock file pins, name to version; every line must be a pin with hashes."""
    found: dict[str, str] = {}
    for entry in re.sub(r"\\\n", " ", lock.read_text("utf-8")).splitlines():
        requirement = entry.partition(" #")[0].strip()
        if not requirement or requirement.startswith("#"):
            continue
        pinned = re.match(r"([A-Za-z0-9._-]+)==(\S+)", requirement)
        assert pinned, f"{name(lock)}: not pinned: {requirement[:60]}"
        assert "--hash=sha256:" in requirement, f"{name(lock)}: no hash: {pinned[1]}"
        found[plain(pinned[1])] = pinned[2]
    return found


def plain(requirement: str) -> str:
    """Return a requirement's bare name, as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=;~ ]", requirement)[0]).lower()


@pytest.mark.parametrize("lock", LOCKS, ids=name)
def test_locks_carry_hashes(lock: Path) -> None:
    """Every requirement has a version and hashes, and everything asked for is there."""
    pinned = pins(lock)
    asked = [
        plain(line)
        for line in lock.with_suffix(".in").read_text("utf-8").splitlines()
        if line and not line.startswith(("#", "-"))
    ]

    assert asked
    assert not set(asked) - pinned.keys()


def test_locks_agree() -> None:
    """A wider lock pins what a narrower one pins, at the same version."""
    run, demo, test = (pins(ROOT / "requirements" / f"{n}.txt") for n in ("run", "demo", "test"))

    assert run.items() <= demo.items() <= test.items()


def test_every_dependency_is_locked() -> None:
    """What the wheel declares is in the lock that installs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    run, demo = (pins(ROOT / "requirements" / f"{n}.txt") for n in ("run", "demo"))

    assert {plain(each) for each in project["dependencies"]} <= run.keys()
    assert {plain(each) for each in project["optional-dependencies"]["demo"]} <= demo.keys()


def test_ci_runs_what_contributors_run() -> None:
    """`.ci/run` can be run and calls `make test`, which checks, tests and integrates."""
    script = ROOT / ".ci" / "run"
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text("utf-8")
    assert re.search(r"^test: check unit integration\b", makefile, re.MULTILINE)


def named_files(tree: ast.Module) -> list[re.Pattern[str]]:
    """Return every string of a module as a pattern; what an f-string fills in may be anything."""
    patterns = []
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        written = [
            re.escape(part.value)
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            else ".+"
            for part in parts
        ]
        if any(part != ".+" for part in written):
            patterns.append(re.compile("".join(written)))
    return patterns


def test_every_list_of_the_tests_is_used() -> None:
    """A lock list of the tests' own that no helper opens by its name would be dead weight."""
    lists = files_below(ROOT / "tests" / "support" / "locks")
    named = [
        pattern
        for path in files_below(ROOT / "tests" / "support")
        if path.suffix == ".py"
        for pattern in named_files(ast.parse(path.read_text("utf-8")))
    ]

    assert lists
    assert not [each.name for each in lists if not any(p.fullmatch(each.name) for p in named)]


def test_the_wheel_carries_every_module() -> None:
    """Every module of the rooms lies in a package that setuptools finds."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = set(find_packages(str(ROOT), include=settings["packages"]["find"]["include"]))
    lie = {".".join(path.parent.relative_to(ROOT).parts) for path in ROOM_MODULES}

    assert lie <= found
