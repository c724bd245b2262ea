"""Documents: their commands can be typed, their links lead somewhere, and their configurations are valid."""

import ast
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import yaml

from pipeline.cli.main import main as pipeline
from proxy.cli.main import main
from proxy.config.sources import load

ROOT = Path(__file__).resolve().parents[2]
FRAGMENTS = ROOT / "docs" / "changelog.d"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != FRAGMENTS),
]
FIRST_POLICY = ROOT / "docs" / "extend" / "first-policy.md"
"""Its files are made and run one after another by tests/docs/test_first_policy.py."""
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
ANY_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`([\w.-]+/[\w./-]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


class Block(NamedTuple):
    """A piece of code in a document."""

    page: Path
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.name}: {self.text.strip().splitlines()[0][:40]}"


def blocks(*languages: str) -> list[Block]:
    """Return the documents' code in these languages."""
    return [
        Block(page, found[2], found[3])
        for page in PAGES
        for found in FENCE.finditer(page.read_text("utf-8"))
        if found[2] in languages and (page != FIRST_POLICY or found[2] == "console")
    ]


def commands(program: str) -> list[tuple[Path, list[str]]]:
    """Return what is typed at `$ ` prompts for this program, without its name."""
    return [
        (block.page, shlex.split(line.removeprefix("$ "))[1:])
        for block in blocks("console")
        for line in block.text.splitlines()
        if re.match(rf"\$ (\.venv/bin/)?{program} ", line)
    ]


def test_every_link_leads_somewhere() -> None:
    """A relative link of a page names a file of the project."""
    missing = [
        (page.name, found[1])
        for page in PAGES
        for found in LINK.finditer(page.read_text("utf-8"))
        if "://" not in found[1] and not (page.parent / found[1]).exists()
    ]

    assert not missing


def test_every_file_that_is_named_exists() -> None:
    """A path of the project in inline code is a file, a folder, or a module without its suffix."""
    made = {line.strip("/") for line in (ROOT / ".gitignore").read_text("utf-8").splitlines()}
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir()} - made
    named = {
        (page.name, path)
        for page in PAGES
        for path in PATH.findall(ANY_FENCE.sub("", page.read_text("utf-8")))
        if path.partition("/")[0] in rooms and "NAME" not in path
    }

    assert named
    assert not [
        each
        for each in named
        if not (ROOT / each[1]).exists() and not (ROOT / f"{each[1]}.py").exists()
    ]


def test_prose_is_at_most_100_characters_wide() -> None:
    """Rows of tables, blocks of code and pictures may be wider."""
    wide = [
        f"{page.name}: {line[:40]}"
        for page in PAGES
        for line in ANY_FENCE.sub("", page.read_text("utf-8")).splitlines()
        if len(line) > 100 and not line.lstrip().startswith(("|", "![", "<!--"))
    ]

    assert not wide


def test_python_can_be_read_and_imported() -> None:
    """Python code parses, and what it imports exists."""
    imported = {
        (block.page.name, node.module)
        for block in blocks("python")
        for node in ast.walk(ast.parse(block.text, str(block)))
        if isinstance(node, ast.ImportFrom) and node.module
    }
    named = {each for each in imported if not (ROOT / "examples" / each[1]).is_dir()}

    assert named
    assert [each for each in named if not importlib.util.find_spec(each[1])] == []


def test_what_pages_include_of_files_is_said_as_the_site_reads_it() -> None:
    """In a block of `python` the formatter would take the words for an expression, and the site would show them."""
    told = [
        (page.name, line)
        for page in PAGES
        for line in page.read_text().splitlines()
        if "--8" in line
    ]

    assert told
    assert not [each for each in told if not re.fullmatch(r' *--8<-- "[\w./-]+"', each[1])]


def test_the_clients_take_the_settings_that_are_shown() -> None:
    """Each keyword and setting given to a Kafka client in the documents is one it knows."""
    from confluent_kafka import Producer as Confluent  # noqa: PLC0415 - loads a native library
    from kafka import KafkaConsumer, KafkaProducer  # noqa: PLC0415 - same reason, and it is slow

    known = {
        "KafkaProducer": KafkaProducer.DEFAULT_CONFIG,
        "KafkaConsumer": KafkaConsumer.DEFAULT_CONFIG,
    }
    calls = [
        node
        for block in blocks("python")
        for node in ast.walk(ast.parse(block.text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    ]
    checked = 0
    for call in calls:
        name = ast.unparse(call.func)
        for keyword in call.keywords if name in known else []:
            assert keyword.arg in known[name]
            checked += 1
        if name in {"Producer", "Consumer"}:
            Confluent(ast.literal_eval(call.args[0]))
            checked += 1

    assert checked >= 6


@pytest.fixture
def _example_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example policy's package, as pip would have left it."""
    folder = ROOT / "examples" / "client_ids"
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    about = tmp_path / "installed" / "sluice_client_ids-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["sluice.policies"]
    lines = [f"{name} = {target}\n" for name, target in points.items()]
    (about / "entry_points.txt").write_text("[sluice.policies]\n" + "".join(lines))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.syspath_prepend(about.parent)


@pytest.mark.usefixtures("_example_installed")
def test_configurations_are_valid(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """YAML that configures Sluice is accepted by it; any other is YAML at least."""
    file = tmp_path / "sluice.yaml"
    for block in blocks("yaml"):
        with subtests.test(str(block)):
            assert yaml.safe_load(block.text) is not None
            if re.search(r"^upstream:", block.text, re.MULTILINE):
                file.write_text(block.text, "utf-8")
                load(file, {}, {})


@pytest.mark.parametrize("program", [main, pipeline], ids=["sluice", "sluice-pipeline"])
def test_commands_are_understood(
    program: click.Group,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every command line that is shown names a command and options that exist."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sluice.yaml").write_text("upstream: {bootstrap_servers: [kafka-1:9092]}\n")
    shown = commands(request.node.callspec.id)
    wrong = []
    for page, arguments in shown:
        try:
            name, command, rest = program.resolve_command(click.Context(program), arguments)
            assert command is not None
            command.make_context(name, list(rest))
        except click.ClickException as error:
            wrong.append((page.name, arguments, error.format_message()))

    assert shown
    assert not wrong


def test_every_make_target_exists() -> None:
    """Every `make ...` that is shown is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {words[0] for _, words in commands("make")}

    assert shown
    assert shown <= targets
