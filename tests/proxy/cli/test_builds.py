"""Which build runs is said, and can be chosen."""

import sys

import pytest

from proxy.cli import builds


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package `wire`, of which one module is beside a compiled one."""
    folder = tmp_path / "wire"
    folder.mkdir()
    for name in ("__init__", "plain", "both"):
        (folder / f"{name}.py").write_text("")
    (folder / "both.abi3.so").write_bytes(b"")
    return [str(folder)]


def test_the_source_is_found_where_a_compiled_module_is(package):
    """Python alone would find the compiled module."""
    found = builds.SourceFinder.find_spec("wire.both", package)

    assert found is not None
    assert found.origin == f"{package[0]}/both.py"


@pytest.mark.parametrize("name", ["wire.plain", "wire.missing", "other.both"])
def test_all_other_modules_are_left_to_python(package, name):
    """Modules that are not compiled, and those of other packages."""
    assert builds.SourceFinder.find_spec(name, package) is None


@pytest.mark.parametrize(
    ("value", "chosen"), [(None, False), ("", False), ("0", False), ("1", True)]
)
def test_the_variable_chooses_the_source(monkeypatch, value, chosen):
    """Unset, empty and 0 leave the choice to Python."""
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.delenv(builds.VARIABLE, raising=False)
    if value is not None:
        monkeypatch.setenv(builds.VARIABLE, value)

    builds.choose()

    assert sys.meta_path == ([builds.SourceFinder] if chosen else [])
