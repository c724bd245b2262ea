"""Plain technical English: banned turns of speech are counted by folder, and pages have a length."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.house.house import FILES, ROOT, TEXTS, name
from tests.support.house.plain_words import count

# How often banned turns stand in each folder. The figures may only go down; the target is 0.
CEILINGS = {
    "README.md": 0,
    "docs": 0,
    "examples": 0,
    "wire": 0,
    "policies": 0,
    "proxy": 0,
    "proxy/admin": 0,
    "proxy/core": 0,
    "proxy/demo": 0,
    "proxy/telemetry": 0,
    "bench": 0,
    "tests": 0,
    "": 0,
}
"""A file counts for the longest entry that its path begins with; "" is the top folder."""
READ = TEXTS | {".html", ".js", ".css", ".conf"}
NOT_OURS = {"LICENSE", "tests/support/house/plain_words.py", "tests/house/test_words.py"}
MAX_PAGE_WORDS = 1200
LONG_PAGES = {
    "docs/architecture.md": 1500,
}
"""Pages that are longer still. The figures may only go down."""
MAX_README_LINES = 150
PAGES = [path for path in FILES if path.suffix == ".md" and path.is_relative_to(ROOT / "docs")]


def folder(path: str) -> str:
    """Return the entry of CEILINGS that a path counts for."""
    return max(
        (each for each in CEILINGS if f"{path}/".startswith(f"{each}/" if each else "")), key=len
    )


def test_banned_turns_of_speech_become_fewer() -> None:
    """No folder has more of them than its ceiling."""
    found: Counter[str] = Counter()
    for path in FILES:
        if path.suffix in READ and name(path) not in NOT_OURS and "golden" not in path.parts:
            found[folder(name(path))] += sum(count(path.read_text("utf-8")).values())

    assert not {each: n for each, n in found.items() if n > CEILINGS[each]}


@pytest.mark.parametrize(
    "text",
    [
        "Who announces 100 MB is closed.",
        '"""What is held stays."""',
        "told to whoever asks",
        "so nobody waits",
        "def test_it_goes_on(): ...",
        "begins anew",
        "the bytes behind it",
        "3 µs were wanted",
    ],
)
def test_a_banned_turn_is_found(text: str) -> None:
    """Each pattern finds an example of its turn of speech."""
    assert count(text)


@pytest.mark.parametrize(
    "text",
    [
        "Who is throttled?",
        "clients who authenticate",
        "Shows what is throttled.",
        "a proxy behind a load balancer",
        "runs on Linux",
        "1. Who: connections by user.",
    ],
)
def test_plain_english_is_not_banned(text: str) -> None:
    """Questions, relative clauses and places are not counted."""
    assert not count(text)


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_no_page_is_long(path: Path) -> None:
    """A page has at most 1,200 words."""
    longest = LONG_PAGES.get(name(path), MAX_PAGE_WORDS)

    assert len(path.read_text("utf-8").split()) <= longest


def test_the_readme_is_short() -> None:
    """It has no more lines than its ceiling."""
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= MAX_README_LINES
