"""The lock files: every requirement is pinned with hashes, and the locks agree."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.support.house.house import ROOT, files_below, name

LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


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


def pinned(lock: str) -> dict[str, str]:
    """Return what the lock of this name pins."""
    return pins(ROOT / "requirements" / f"{lock}.txt")


def plain(requirement: str) -> str:
    """Return a requirement's bare name, as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=;~ ]", requirement)[0]).lower()


@pytest.mark.parametrize("lock", LOCKS, ids=name)
def test_locks_carry_hashes(lock: Path) -> None:
    """Every requirement has a version and hashes, and everything asked for is there."""
    locked = pins(lock)
    asked = [
        plain(line)
        for line in lock.with_suffix(".in").read_text("utf-8").splitlines()
        if line and not line.startswith(("#", "-"))
    ]

    assert asked
    assert not set(asked) - locked.keys()


def test_locks_agree() -> None:
    """A wider lock pins what a narrower one pins, at the same version."""
    run, demo, pipeline, test, build = map(pinned, ("run", "demo", "pipeline", "test", "build"))

    assert run.items() <= demo.items() <= test.items()
    assert run.items() <= pipeline.items() <= test.items()
    assert build.items() <= test.items()


def test_every_dependency_is_locked() -> None:
    """Every dependency that the wheel declares is in the lock file that installs it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert {plain(each) for each in project["dependencies"]} <= pinned("run").keys()
    for extra, wanted in project["optional-dependencies"].items():
        assert {plain(each) for each in wanted} <= pinned(extra).keys()


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
    """Each lock list of the tests is opened by its name in a helper."""
    lists = files_below(ROOT / "tests" / "support" / "kafka" / "locks")
    named = [
        pattern
        for path in files_below(ROOT / "tests" / "support")
        if path.suffix == ".py"
        for pattern in named_files(ast.parse(path.read_text("utf-8")))
    ]

    assert lists
    assert not [each.name for each in lists if not any(p.fullmatch(each.name) for p in named)]
