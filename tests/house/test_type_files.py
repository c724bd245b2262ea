"""The type files of the compiled build agree with their modules, and follow the import contracts.

Cython reads them only when the compiled wheel is built; these tests need neither Cython nor a compiler.
"""

import importlib.util
import tomllib
from fnmatch import fnmatchcase

import pytest

from tests.support.house.house import ROOT
from tests.support.house.type_files import LIBRARIES, TypeFile, declared_fields, read, type_files

FILES = type_files()
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]


def module_of(cimported: str) -> str:
    """Return the module that a cimport names, itself or by one of its members."""
    path = ROOT / cimported.replace(".", "/")
    return cimported if path.with_suffix(".pxd").is_file() else cimported.rpartition(".")[0]


def is_below(module: str, folder: str) -> bool:
    """Return whether a module is `folder`, lies below it, or is matched by it (`a.*`)."""
    return module == folder or module.startswith(f"{folder}.") or fnmatchcase(module, folder)


def layer_of(module: str, layers: list[list[str]]) -> int | None:
    """Return the layer of a module, 0 for the highest; None if it has none."""
    fits = [
        (len(name), place)
        for place, names in enumerate(layers)
        for name in names
        if is_below(module, name)
    ]
    return max(fits)[1] if fits else None


def breaches(importer: str, imported: str) -> list[str]:
    """Return the names of the contracts that forbid this import."""
    found = []
    for contract in CONTRACTS["contracts"]:
        if contract["type"] == "layers":
            layers = [[name.strip() for name in names.split(":")] for names in contract["layers"]]
            above, below = layer_of(importer, layers), layer_of(imported, layers)
            breaks = above is not None and below is not None and above > below
        elif contract["type"] == "forbidden":
            breaks = any(is_below(importer, each) for each in contract["source_modules"]) and any(
                is_below(imported, each) for each in contract["forbidden_modules"]
            )
        else:
            rooms = [each for each in contract["modules"] if is_below(importer, each)]
            others = [each for each in contract["modules"] if is_below(imported, each)]
            breaks = bool(rooms and others and rooms != others)
        if breaks:
            found.append(contract["name"])
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.module)
def test_a_type_file_declares_the_fields_of_its_classes(file: TypeFile) -> None:
    """Each `cdef class` has the fields that `__slots__` names, or its dataclass, or `__init__`; no other."""
    classes = declared_fields(file.path.with_suffix(".py"))

    assert not file.strange, "a field that is not `cdef public TYPE NAME, NAME`"
    for name, fields in file.fields.items():
        assert name in classes, f"{file.module} has no class {name}"
        where = f"class {name} of {file.path.name}"
        assert not classes[name] - set(fields), f"{where}: add `cdef public object FIELD` for these"
        assert not set(fields) - classes[name], f"{where}: the module no longer has these"
        assert len(fields) == len(set(fields)), f"{where}: a field stands there twice"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.module)
def test_type_files_follow_the_import_contracts(file: TypeFile) -> None:
    """A `cimport` is an import: what the linter forbids the module it forbids its type file."""
    for cimported in file.cimports:
        if cimported.partition(".")[0] in LIBRARIES:
            continue
        module = module_of(cimported)
        assert importlib.util.find_spec(module), f"{file.path.name} cimports {cimported}"
        assert (ROOT / module.replace(".", "/")).with_suffix(".pxd").is_file()
        assert not breaches(file.module, module), f"{file.path.name} cimports {cimported}"


def test_a_missing_field_and_a_forbidden_cimport_are_found(tmp_path) -> None:
    """The checks above fail where they should."""
    path = tmp_path / "made.pxd"
    path.write_text("cdef class Made:\n    cdef public long long a, b\n    cdef int c\n")

    assert read(path).fields == {"Made": ["a", "b"]}
    assert read(path).strange == ["    cdef int c"]
    assert breaches("wire.header", "proxy.core.engine")
    assert breaches("proxy.core.session.session", "trio")
    assert breaches("proxy.shell.event_loop", "wire.header")
    assert breaches("proxy.core.engine", "pipeline.session")
    assert not breaches("proxy.shell.event_loop", "proxy.core.session.session")


def test_each_type_file_stands_beside_its_module() -> None:
    """A type file without its module would be passed over silently."""
    assert FILES
    assert all(file.path.with_suffix(".py").is_file() for file in FILES)
