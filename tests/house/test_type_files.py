"""The type files of the compiled build agree with their modules, and follow the import contracts.

Cython reads them only when the compiled wheel is built; these tests need neither Cython nor a compiler.
"""

import re
import tomllib
from fnmatch import fnmatchcase

from tests.support.house.house import ROOT
from tests.support.house.type_files import (
    LIBRARIES,
    TypeFile,
    annotated,
    declared_fields,
    read,
    type_files,
)

BASE_CALL = re.compile(r"\bsuper\(\)\.(?!__init__)\w+")
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


def faults(file: TypeFile) -> list[str]:
    """Return what is wrong with a type file or its module.

    Fields that differ from the module's, cimports that a contract forbids, and `super()` in a method: where the base's
    method is a C function, so is this one, and `super()` fails in it.
    """
    source = file.path.with_suffix(".py")
    classes, names_by_class = declared_fields(source), annotated(source)
    inherited = {
        field for each in type_files() for fields in each.fields.values() for field in fields
    }
    found = [f"not `cdef public TYPE NAME, NAME`: {line}" for line in file.strange]
    found += [f"{call}: name the base" for call in BASE_CALL.findall(source.read_text("utf-8"))]
    for name, fields in file.fields.items():
        here = classes.get(name, set())
        found += [f"{name}: add `cdef public object {each}`" for each in here - set(fields)]
        found += [f"{name}: the module has no {each}" for each in set(fields) - here]
        strange = names_by_class.get(name, set()) - set(fields) - inherited
        found += [f"{name}: {each} is annotated, and no field" for each in sorted(strange)]
        found += [f"{name}: {each} stands twice" for each in fields if fields.count(each) > 1]
    for cimported in file.cimports:
        if cimported.partition(".")[0] not in LIBRARIES:
            module = module_of(cimported)
            if not (ROOT / module.replace(".", "/")).with_suffix(".pxd").is_file():
                found.append(f"{cimported} has no type file")
            found += [f"{cimported}: {contract}" for contract in breaches(file.module, module)]
    return found


def test_type_files_agree_with_their_modules_and_follow_the_import_contracts(tmp_path) -> None:
    """No type file has a fault; a missing field, one that is not typed, `super()` and forbidden imports are found."""
    made = tmp_path / "made.pxd"
    made.write_text("cdef class Made:\n    cdef public long long a, b\n    cdef int c\n")
    made.with_suffix(".py").write_text(
        "class Made:\n    __slots__ = ('a', 'd')\n    old_name: int\n"
        "    def end(self):\n        super().end()\n"
    )

    assert faults(read(made)) == [
        "not `cdef public TYPE NAME, NAME`:     cdef int c",
        "super().end: name the base",
        "Made: add `cdef public object d`",
        "Made: the module has no b",
        "Made: old_name is annotated, and no field",
    ]
    assert breaches("wire.header", "proxy.core.engine")
    assert breaches("proxy.core.session.session", "trio")
    assert breaches("proxy.shell.event_loop", "wire.header")
    assert breaches("proxy.core.engine", "pipeline.session")
    assert len(type_files()) > 10
    assert not {file.module: found for file in type_files() if (found := faults(file))}
