"""Documents, examples and the template of `sluice new-policy` import from the door, and from nothing behind it."""

import ast
import importlib
import re
from collections.abc import Iterator
from importlib.util import find_spec
from string import Template

import msgspec
import pytest

import sluice
from sluice import Policy, listings, messages, testing
from sluice.testing import PolicyContract
from tests.support.house.house import ROOMS, ROOT

INTERNAL = {*ROOMS, "bench", "tests"} - {"sluice"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOR_MAINTAINERS = {"architecture.md", "contributing.md"}
"""Pages about the house itself."""
DOOR = {*sluice.__all__, "listings", "messages"}
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^( *)```python\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
WORDS = re.compile(r"`([a-z_]+(?:\.\w+)+)[^`]*`")
TEMPLATES = sorted((ROOT / "proxy" / "cli" / "policy_template").glob("*.py.tmpl"))
MADE_UP = {"name": "guard", "class_name": "Guard", "distribution": "sluice-guard"}


def sources() -> Iterator[tuple[str, str]]:
    """Yield all Python that other people copy, with where it stands."""
    for page in PAGES:
        for found in PYTHON.finditer(page.read_text("utf-8")):
            yield page.name, found[2]
    for file in sorted((ROOT / "examples").rglob("*.py")):
        yield file.name, file.read_text("utf-8")
    for file in TEMPLATES:
        yield file.name, Template(file.read_text("utf-8")).substitute(MADE_UP)


SHOWN = [(page, source) for page, source in sources() if "(Policy):" in source and ".md" in page]
LEFT_OUT = re.compile(r"^ +Config = (\w+)$", re.MULTILINE)
"""The settings of a policy whose page shows none."""


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a policy that needs none."""


def imports(source: str) -> Iterator[tuple[str, str]]:
    """Yield each name that is imported, with its module; "" for the module itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names)


def top(dotted: str) -> str:
    """Return the package of a module."""
    return dotted.partition(".")[0]


IMPORTED = [(place, *each) for place, source in sources() for each in imports(source)]


def test_every_documented_import_is_at_the_door() -> None:
    """A name that a page, an example or the template imports is one that its module of the door lists."""
    named = {(module, name) for _, module, name in IMPORTED if top(module) == "sluice"}

    assert len(named) > 15
    for module, name in named:
        door = importlib.import_module(module)
        assert name in door.__all__ or find_spec(f"{module}.{name}"), f"{module} has no {name}"


def test_no_document_imports_what_is_behind_the_door() -> None:
    """Neither a page nor an example nor the template imports an internal package."""
    assert not [each for each in IMPORTED if top(each[1]) in INTERNAL]


def test_a_policy_that_is_shown_imports_what_it_uses() -> None:
    """Its code can be copied as it stands: no name of the door is left to be guessed."""
    policies = [each for each in sources() if "(Policy):" in each[1]]

    assert len(policies) > 10
    for place, source in policies:
        used = {node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)}
        missing = used & DOOR - {name for _, name in imports(source)}
        assert not missing, f"{place}: {missing}"


@pytest.mark.parametrize(("page", "source"), SHOWN)
def test_a_policy_that_a_page_shows_keeps_the_contract(page: str, source: str) -> None:
    """It runs as it stands, once it has the settings and the function that its page leaves out."""
    given = dict.fromkeys(LEFT_OUT.findall(source), NoSettings)
    scope: dict[str, object] = {**given, "without_secrets": lambda _, body: body}
    exec(compile(source, page, "exec"), scope)  # noqa: S102 - our own pages
    (policy,) = [
        each for each in scope.values() if isinstance(each, type) and Policy in each.__bases__
    ]
    config = {"allowed_prefix": "night-"} if "allowed_prefix" in source else {}
    settings = getattr(policy, "Config", NoSettings)
    contract = type(
        "Shown",
        (PolicyContract,),
        {"policy": type(policy.__name__, (policy,), {"Config": settings}), "config": config},
    )()

    for name in vars(PolicyContract):
        if name.startswith("test_"):
            getattr(contract, name)()


def test_no_page_for_users_names_a_module_behind_the_door() -> None:
    """Its inline code names no internal module."""
    named = {
        (page.name, words)
        for page in PAGES
        if page.name not in FOR_MAINTAINERS
        for words in WORDS.findall(FENCE.sub("", page.read_text("utf-8")))
        if top(words) in INTERNAL
    }

    assert not [each for each in named if is_module(each[1])]


def is_module(dotted: str) -> bool:
    """Return whether the first two names are those of a module: a setting may begin with the same word."""
    return find_spec(".".join(dotted.split(".")[:2])) is not None


def test_the_reference_has_every_name_of_the_door() -> None:
    """The page of the policy API documents each name once, and no other module."""
    (page,) = (ROOT / "docs").rglob("policy-api.md")
    documented = re.findall(r"^::: ([\w.]+)$", page.read_text("utf-8"), re.MULTILINE)
    each_name = [
        f"{module.__name__}.{name}" for module in (sluice, testing) for name in module.__all__
    ]
    whole = [module.__name__ for module in (listings, messages, testing)]

    assert sorted(documented) == sorted(each_name + whole)
