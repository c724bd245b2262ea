"""The door: its names are all that an author of policies needs, and it costs little to open."""

import ast
import builtins
import collections.abc
import importlib
import inspect
import json
import pickle
import subprocess
import sys
import typing
from pathlib import Path
from types import ModuleType

import pytest

import sluice
from policies.validation import Problem
from sluice import listings, messages, testing
from tests.support.house.type_files import type_files

MODULES = [sluice, messages, listings, testing]
HEAVY = {"trio", "kio", "pytest", "opentelemetry", "structlog", "starlette", "proxy"}
INTERNAL = ("wire", "policies", "proxy")
CONTRACT = ("Policy", "Request", "Response", "Result", "Host", "Peer", "Hold", "Throttle", "Reject")
ERRORS = (
    sluice.PolicyConfigError("rates[2].limit", "no good"),
    sluice.UnreadableRequestError(sluice.ErrorCode.INVALID_RECORD, "a batch of 3 bytes"),
    sluice.TooManyCallsError("16 calls wait"),
    sluice.WireError("a string of -2 bytes"),
    testing.SettingsError([Problem("listen.port", "0", "1..65535")]),
)
LANGUAGE = {*vars(builtins), *typing.__all__, *collections.abc.__all__}
ALIASES = {"T", "TopicKey"}
"""Names for readers of the source: a type variable, and `str | bytes`."""


def said(*command: str) -> str:
    """Return the output of a Python that succeeds."""
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_module_of_the_door_has_names_and_no_logic(module: ModuleType) -> None:
    """It is a docstring, imports, and the list of all that it imports."""
    docstring, *imports, names = ast.parse(inspect.getsource(module)).body
    imported = [
        each.name for node in imports if isinstance(node, ast.ImportFrom) for each in node.names
    ]

    assert isinstance(docstring, ast.Expr)
    assert all(isinstance(node, ast.ImportFrom) for node in imports)
    assert isinstance(names, ast.Assign)
    assert sorted(imported) == sorted(module.__all__)


def test_the_door_is_light() -> None:
    """Importing it loads nothing of the machine, no heavy library, and of what a build compiles only codecs."""
    loaded = json.loads(said("-c", "import json, sys, sluice; print(json.dumps([*sys.modules]))"))
    compiled = {file.module for file in type_files() if not file.module.startswith("wire.")}

    assert "sluice" in loaded
    assert HEAVY.isdisjoint(name.partition(".")[0] for name in loaded)
    assert compiled
    assert compiled.isdisjoint(loaded)


def annotated(kind: type) -> set[str]:
    """Return the names in the annotations of a class and its public members, with those of our base classes."""
    ours = [base for base in kind.__mro__ if base.__module__.partition(".")[0] in INTERNAL]
    members = [
        member
        for base in ours
        for node in ast.parse(inspect.getsource(base)).body
        if isinstance(node, ast.ClassDef)
        for member in node.body
    ]
    annotations = []
    for member in members:
        if isinstance(member, ast.AnnAssign):
            annotations.append(member.annotation)
        elif isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            annotations += [member.returns, *(each.annotation for each in member.args.args)]
    return {
        node.id
        for annotation in annotations
        if annotation is not None
        for node in ast.walk(annotation)
        if isinstance(node, ast.Name)
    }


@pytest.mark.parametrize("name", CONTRACT)
def test_the_types_of_the_contract_are_at_the_door(name: str) -> None:
    """An author can write down the type of each argument, result and field with names from the door."""
    public = {*sluice.__all__, *messages.__all__}

    assert annotated(getattr(sluice, name)) - public - LANGUAGE <= ALIASES


def errors() -> dict[type[BaseException], tuple[str, str]]:
    """Return the errors at the door, each with the module and the name by which it is imported."""
    return {
        found: (module.__name__, name)
        for module in MODULES
        for name in module.__all__
        if isinstance(found := getattr(module, name), type) and issubclass(found, BaseException)
    }


def test_a_traceback_names_an_error_as_it_is_imported() -> None:
    """`sluice.PolicyConfigError: ...`, and not the internal module that defines it."""
    for found, imported in errors().items():
        assert (found.__module__, found.__qualname__) == imported


def test_every_error_survives_the_way_to_another_process() -> None:
    """A pool of processes and a test runner pickle the errors of their workers: text and attributes stay the same."""
    for error in ERRORS:
        error.add_note("in a worker")
        arrived = pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
        assert (type(arrived), str(arrived), vars(arrived)) == (
            type(error),
            str(error),
            vars(error),
        )

    assert {type(error) for error in ERRORS} == errors().keys()


def test_the_module_runs_the_command() -> None:
    """`python -m sluice` is `sluice`."""
    assert "Usage: sluice " in said("-m", "sluice", "--help")
    assert said("-m", "sluice", "version") == said("-m", "proxy", "version")


@pytest.mark.parametrize("name", INTERNAL)
def test_a_package_behind_the_door_says_that_it_is_internal(name: str) -> None:
    """Its docstring sends authors of policies to the door."""
    package = importlib.import_module(name)

    assert "Internal: authors of policies import `sluice`." in str(package.__doc__)


def test_the_door_is_typed() -> None:
    """Type checkers read its annotations where it is installed."""
    assert (Path(str(sluice.__file__)).parent / "py.typed").is_file()
