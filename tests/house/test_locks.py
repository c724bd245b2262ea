"""The lock files: every requirement of pyproject.toml is pinned with hashes, and the locks agree."""

import re
import tomllib

from packaging.requirements import Requirement

from tests.support.house.house import ROOT

FOLDER = ROOT / "requirements"
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def plain(name: str) -> str:
    """Return a name as PEP 503 writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(lock: str) -> dict[str, str]:
    """Return what a lock file pins, name to version; every line must be a pin with hashes."""
    text = (FOLDER / f"{lock}.txt").read_text("utf-8").replace("\\\n", " ")
    found: dict[str, str] = {}
    for line in text.splitlines():
        requirement = line.partition(" #")[0].strip()
        if not requirement or requirement[0] == "#":
            continue
        pinned = re.match(r"([A-Za-z0-9._-]+)==(\S+)", requirement)
        assert pinned, f"{lock}: not pinned: {requirement[:60]}"
        assert "--hash=sha256:" in requirement, f"{lock}: no hash: {pinned[1]}"
        found[plain(pinned[1])] = pinned[2]
    return found


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group and of those that it includes."""
    found = []
    for each in SETTINGS["dependency-groups"][name]:
        found += [each] if isinstance(each, str) else group(each["include-group"])
    return found


def asked(options: str) -> list[str]:
    """Return the requirements that the Makefile has `uv pip compile` pin with these options."""
    project = SETTINGS["project"]
    found = list(project["dependencies"]) if "pyproject.toml" in options else []
    for extra in re.findall(r"--extra (\S+)", options):
        found += project["optional-dependencies"][extra]
    for name in re.findall(r"--group (\S+)", options):
        found += group(name)
    return found


def test_what_is_asked_for_is_locked_with_hashes_and_the_locks_agree() -> None:
    """Each lock has a version within the bounds of pyproject.toml; a wider one has the versions of a narrower one."""
    locked = {path.stem: pins(path.stem) for path in FOLDER.glob("*.txt")}
    makefile = (ROOT / "Makefile").read_text("utf-8")
    options = dict(re.findall(r"^LOCK_(\w+) +:= (.+)$", makefile, re.MULTILINE))

    assert options.keys() == locked.keys()
    for lock, wanted in options.items():
        assert asked(wanted)
        for each in map(Requirement, asked(wanted)):
            assert each.specifier.contains(locked[lock][plain(each.name)]), (lock, each)
    assert locked["run"].items() <= locked["demo"].items() <= locked["test"].items()
    assert locked["run"].items() <= locked["pipeline"].items() <= locked["test"].items()
    assert locked["run"].items() <= locked["msk"].items() <= locked["test"].items()
    assert locked["build"].items() <= locked["test"].items()
