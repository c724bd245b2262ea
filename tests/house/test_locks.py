"""The lock files: every requirement is pinned with hashes, and the locks agree."""

import re
import tomllib

from tests.support.house.house import ROOT

FOLDER = ROOT / "requirements"


def plain(requirement: str) -> str:
    """Return a requirement's bare name, as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\[<>=;~ ]", requirement)[0]).lower()


def lines(text: str) -> list[str]:
    """Return the requirements of a list, one a line, without comments."""
    joined = re.sub(r"\\\n", " ", text).splitlines()
    return [line for each in joined if (line := each.partition(" #")[0].strip()) and line[0] != "#"]


def pins(lock: str) -> dict[str, str]:
    """Return what a lock file pins, name to version; every line must be a pin with hashes."""
    found: dict[str, str] = {}
    for requirement in lines((FOLDER / f"{lock}.txt").read_text("utf-8")):
        pinned = re.match(r"([A-Za-z0-9._-]+)==(\S+)", requirement)
        assert pinned, f"{lock}: not pinned: {requirement[:60]}"
        assert "--hash=sha256:" in requirement, f"{lock}: no hash: {pinned[1]}"
        found[plain(pinned[1])] = pinned[2]
    return found


def test_what_is_asked_for_is_locked_with_hashes_and_the_locks_agree() -> None:
    """Each lock has what its list and the wheel's metadata ask for; a wider one has the versions of a narrower one."""
    locked = {path.stem: pins(path.stem) for path in FOLDER.glob("*.txt")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {"run": project["dependencies"], **project["optional-dependencies"]}

    assert locked["run"].items() <= locked["demo"].items() <= locked["test"].items()
    assert locked["run"].items() <= locked["pipeline"].items() <= locked["test"].items()
    assert locked["build"].items() <= locked["test"].items()
    for lock, pinned in locked.items():
        listed = lines((FOLDER / f"{lock}.in").read_text("utf-8")) + asked.get(lock, [])
        assert {plain(each) for each in listed if each[0] != "-"} <= pinned.keys()
    assert asked.keys() <= locked.keys()
