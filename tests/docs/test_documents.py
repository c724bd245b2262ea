"""Documents: their commands can be typed, their links lead somewhere, and their configurations are valid."""

import ast
import importlib.util
import os
import re
import shlex
import subprocess
import sys
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
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent != FRAGMENTS),
]
FIRST_POLICY = ROOT / "docs" / "policies" / "first-policy.md"
"""Its files are made and run one after another by tests/docs/test_first_policy.py."""
FENCE = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
MAX_MEAN_WORDS = 25
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    """The sentences of a page have 25 words at most in the mean."""
    lines = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL).splitlines()
    text = "\n".join(line for line in lines if not line.startswith(("|", "#")))
    sentences = [each.split() for each in re.split(r"(?<=[.!?:])\s+", text) if " " in each]

    assert sum(map(len, sentences)) <= MAX_MEAN_WORDS * len(sentences)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    """A relative link names a file of the project."""
    targets = [found[1] for found in LINK.finditer(page.read_text("utf-8"))]

    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]

    assert not missing


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_can_be_read_and_imported(block: Block) -> None:
    """Python code parses, and what it imports exists."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            name = node.module
            if (ROOT / "examples" / name).is_dir():
                continue  # the example's own module
            assert importlib.util.find_spec(name), name


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
@pytest.mark.parametrize("block", blocks("yaml"), ids=str)
def test_configuration_is_valid(block: Block, tmp_path: Path) -> None:
    """YAML that configures Sluice is accepted by it; any other is YAML at least."""
    assert yaml.safe_load(block.text) is not None
    if not re.search(r"^upstream:", block.text, re.MULTILINE):
        return
    file = tmp_path / "sluice.yaml"
    file.write_text(block.text, "utf-8")

    load(file, {}, {})


@pytest.mark.parametrize(
    ("page", "arguments"),
    commands("sluice"),
    ids=lambda each: each.name if isinstance(each, Path) else " ".join(each),
)
def test_commands_are_understood(
    page: Path, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every `sluice ...` that is shown names a command and options that exist."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sluice.yaml").write_text("upstream: {bootstrap_servers: [kafka-1:9092]}\n")

    assert isinstance(main, click.Group)
    name, command, rest = main.resolve_command(click.Context(main), arguments)

    assert command is not None
    command.make_context(name, list(rest))


@pytest.mark.parametrize(
    ("page", "arguments"),
    commands("sluice-pipeline"),
    ids=lambda each: each.name if isinstance(each, Path) else " ".join(each),
)
def test_commands_of_the_pipeline_are_understood(page: Path, arguments: list[str]) -> None:
    """Every `sluice-pipeline ...` that is shown names a command and options that exist."""
    assert isinstance(pipeline, click.Group)
    name, command, rest = pipeline.resolve_command(click.Context(pipeline), arguments)

    assert command is not None
    command.make_context(name, list(rest))


def test_every_make_target_exists() -> None:
    """Every `make ...` that is shown is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    shown = {words[0] for _, words in commands("make")}

    assert shown
    assert shown <= targets


def test_the_changelog_can_be_made() -> None:
    """Every fragment is of a kind that towncrier knows, and its text is in the next entry."""
    fragments = sorted((ROOT / "docs" / "changelog.d").glob("*.*.md"))

    drafted = subprocess.run(
        [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert drafted.returncode == 0, drafted.stderr
    for fragment in fragments:
        assert fragment.read_text("utf-8").splitlines()[0] in drafted.stdout, fragment.name
