"""Generated parts of the site come from the sources, and a page with an unknown marker fails the build."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.house.house import ROOMS

ROOT = Path(__file__).resolve().parents[2]
HOOKS = ROOT / "docs" / "hooks"
PACKAGES = [path.parent for room in ROOMS for path in (ROOT / room).rglob("__init__.py")]


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The hook, imported as mkdocs imports it."""
    monkeypatch.syspath_prepend(HOOKS)
    import generated  # noqa: PLC0415 - found only by the path above

    return generated


def test_the_table_of_rooms_names_every_room() -> None:
    """A package of the first or second level that docs/extend/architecture.md does not explain is found here."""
    text = (ROOT / "docs" / "extend" / "architecture.md").read_text("utf-8")
    rooms = {".".join(path.relative_to(ROOT).parts) for path in PACKAGES}

    named = set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE))

    explained = {room for room in rooms if room.count(".") < 2 and not room.startswith("pipeline.")}
    assert named == explained - {"proxy"}


def test_the_answers_of_the_architecture_name_what_exists() -> None:
    """Each file of the table "Where to look first" exists, and contains the names that follow it."""
    text = (ROOT / "docs" / "extend" / "architecture.md").read_text("utf-8")
    cells = re.findall(r"^\| [^|]+\? \| ([^|]+) \| [^|]+ \|$", text, re.MULTILINE)
    missing = []
    for answer in (each for cell in cells for each in cell.split("; ")):
        path, *names = re.findall(r"`([^`]+)`", answer)
        source = (ROOT / path).read_text("utf-8")
        missing += [(path, name) for name in names if not re.search(rf"\b{name}\b", source)]

    assert len(cells) >= 20
    assert not missing


def test_figures_are_taken_from_the_results(generated: ModuleType) -> None:
    """A marker is replaced by the tables below that heading of bench/RESULTS.md."""
    page = generated.on_page_markdown(
        "before\n\n<!-- generated: results: Benchmark results > Goals -->\n\nafter\n"
    )

    assert "| goal | must | aim | measured |" in page
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")


def test_a_file_of_the_top_folder_is_shown_as_a_page(generated: ModuleType) -> None:
    """Its text is there, and its links to pages are those of a page in one of the three folders."""
    page = generated.on_page_markdown("<!-- generated: file: CONTRIBUTING.md -->\n")

    assert page.startswith("# Contributing\n")
    assert "](../extend/architecture.md)" in page
    assert "](docs/" not in page


def test_inline_code_and_cells_are_marked_for_narrow_screens(generated: ModuleType) -> None:
    """Each word of inline code is a key, each cell has its column's heading; blocks of code stay as they are."""
    page = generated.on_page_content(
        "<pre><code>a b\n</code></pre><table><tr><th>key</th><th>use</th></tr>"
        "<tr><td><code>a b</code></td><td>c</td></tr></table>"
    )

    assert "<pre><code>a b\n</code></pre>" in page
    assert (
        '<td data-label="key"><code><span class="key">a</span> <span class="key">b</span>' in page
    )
    assert '<td data-label="use">c</td>' in page


@pytest.mark.parametrize("marker", ["nonsense", "results: Nonsense", "results: Goals"])
def test_what_cannot_be_generated_fails_the_build(generated: ModuleType, marker: str) -> None:
    """An unknown marker, and an unknown or ambiguous heading, raise instead of leaving a gap in the page."""
    with pytest.raises(LookupError):
        generated.on_page_markdown(f"<!-- generated: {marker} -->")
