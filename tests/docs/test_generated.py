"""Generated parts of the site come from the sources, and a page with an unknown marker fails the build."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.house.house import ROOMS

ROOT = Path(__file__).resolve().parents[2]
HOOKS = ROOT / "docs" / "hooks"
PACKAGES = [path.parent for room in ROOMS for path in (ROOT / room).rglob("__init__.py")]
MAX_WORDS = 1500


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The hook, imported as mkdocs imports it."""
    monkeypatch.syspath_prepend(HOOKS)
    import generated  # noqa: PLC0415 - found only by the path above

    return generated


def test_every_module_is_on_the_page_of_modules(generated: ModuleType) -> None:
    """Each is named below its package with the first sentence of its docstring."""
    page = generated.on_page_markdown("<!-- generated: modules -->")
    sections = dict(re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))

    for package in PACKAGES:
        rows = dict(
            re.findall(
                r"^\| `(\w+)` \| (.*) \|$",
                sections[".".join(package.relative_to(ROOT).parts)],
                re.MULTILINE,
            )
        )
        assert set(rows) == {path.stem for path in package.glob("*.py")} - {"__init__"}
        assert all(rows.values())


def test_the_table_of_rooms_names_every_room() -> None:
    """A package of the first or second level that docs/architecture.md does not explain is found here."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    rooms = {".".join(path.relative_to(ROOT).parts) for path in PACKAGES}

    named = set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE))

    explained = {room for room in rooms if room.count(".") < 2 and not room.startswith("pipeline.")}
    assert named == explained - {"proxy"}


def test_the_architecture_is_short() -> None:
    """It has at most 1,500 words, one diagram and one table."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")

    assert len(text.split()) <= MAX_WORDS
    assert text.count("```") == 2
    assert len(re.findall(r"^\|---", text, re.MULTILINE)) == 1


def test_every_command_is_in_the_reference(generated: ModuleType) -> None:
    """Each command of `sluice` has a section, and each of its options a row."""
    from proxy.cli.main import COMMANDS, main  # noqa: PLC0415 - it loads the program

    page = generated.on_page_markdown("<!-- generated: commands -->")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)

    assert {f"sluice {name}" for name in main.commands | COMMANDS} <= set(headings)
    assert "--config FILE" in page


def test_every_command_of_the_pipeline_is_in_its_reference(generated: ModuleType) -> None:
    """Each command of `sluice-pipeline` has a section, though it is imported when it is asked for."""
    from pipeline.cli.main import COMMANDS  # noqa: PLC0415 - it loads the program

    page = generated.on_page_markdown("<!-- generated: pipeline_commands -->")
    headings = re.findall(r"^## (.+)$", page, re.MULTILINE)

    assert {f"sluice-pipeline {name}" for name in COMMANDS} <= set(headings)
    assert "--master TEXT" in page


def test_every_name_of_the_contract_is_in_the_reference(generated: ModuleType) -> None:
    """Each public class and constant of `policies.api` has a section, and each hook of `Policy` a row."""
    from policies import api  # noqa: PLC0415 - beside what is compared with it

    page = generated.on_page_markdown("<!-- generated: policy_api -->")
    headings = set(re.findall(r"^## (.+)$", page, re.MULTILINE))

    assert {
        name for name, each in vars(api).items() if getattr(each, "__module__", "") == api.__name__
    } <= headings
    assert all(f"| `{hook}(" in page for hook in vars(api.Policy) if hook.startswith("on_"))


def test_figures_are_taken_from_the_results(generated: ModuleType) -> None:
    """A marker is replaced by the tables below that heading of bench/RESULTS.md."""
    page = generated.on_page_markdown(
        "before\n\n<!-- generated: results: Benchmark results > Goals -->\n\nafter\n"
    )

    assert "| goal | must | aim | measured |" in page
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")


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


def test_an_example_is_shown_whole(generated: ModuleType) -> None:
    """As a block of its language; a file that does not exist fails the build."""
    file = ROOT / "examples" / "security" / "sidecar.yaml"

    page = generated.on_page_markdown("<!-- generated: example: security/sidecar.yaml -->")

    assert page == f"```yaml\n{file.read_text('utf-8')}```"
    with pytest.raises(LookupError, match="there is no example"):
        generated.on_page_markdown("<!-- generated: example: nothing.yaml -->")
