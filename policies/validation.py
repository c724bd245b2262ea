"""Converts plain data (as YAML gives it) into typed settings, and finds every mistake at once.

- Strict: no text becomes a number, no unknown key is skipped. A mistake is a value (`Problem`) that names its key
  path; a mistake in one place never hides one in another.
- Expectations come from the types: msgspec's `Meta` bounds, `Literal` values, field names. A
  `Meta(extra={"expected": words, "check": check})` adds words, and a `Check` of one value.
- A Struct may check its fields against each other in `mistakes()`, called once they fit their types.
- A caller that cannot continue with problems raises `SettingsError`, which carries all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import (
    Annotated,
    Final,
    Protocol,
    TypeVar,
    get_args,
    get_origin,
    runtime_checkable,
)

import msgspec
from msgspec import inspect

from policies.api import PolicyConfigError
from policies.field_types import FieldTypes, types_of
from policies.type_names import (
    choices,
    convert_units,
    describe_type,
    describe_value,
    extra,
    join_words,
    nearest,
    strip,
)

T = TypeVar("T")
UNKNOWN_KEY: Final = "an unknown key"
"""The `found` of a Problem with a key that is none of the mapping's."""
Check = Callable[[object], "tuple[str, str] | None"]
"""Returns None if the value is valid, else what was expected in words, and the nearest valid value or ''."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake. `path` is a key path such as `policies[0].config.forbidden_apis[1]`."""

    path: str
    found: str
    """The present value in words; the whole complaint when `expected` is empty."""
    expected: str = ""
    nearest: str = ""
    """The valid key or value that looks most similar, or ''."""
    origin: str = ""
    """Where the value was given (`sluice.yaml:4`, `SLUICE_LISTEN_PORT`, `--nodes`), if known."""
    excerpt: str = ""
    """The lines of a file that show it, each indented; '' when the path is enough."""

    def __str__(self) -> str:
        place = " ".join(filter(None, (self.path, f"({self.origin})" if self.origin else "")))
        text = f"{place}: " if place else ""
        text += f"found {self.found}, expected {self.expected}" if self.expected else self.found
        text = f"{text}; did you mean {self.nearest}?" if self.nearest else text
        return f"{text}\n{self.excerpt}" if self.excerpt else text


def with_origin(problem: Problem, origins: Mapping[str, str]) -> Problem:
    """Return the problem with the origin of its path, or of the closest path above it that has one.

    An origin that the problem has already stays.
    """
    path = problem.path
    while path and path not in origins:
        path = path[: max(path.rfind("."), path.rfind("["), 0)]
    return replace(problem, origin=problem.origin or origins.get(path, ""))


class SettingsError(ValueError):
    """Settings that cannot be used; `problems` is never empty."""

    __module__ = "sluice.testing"  # where others import it: a traceback says so

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)  # as they were given, so that it can be pickled

    def __str__(self) -> str:
        """Return a line for each problem."""
        return "\n".join(map(str, self.problems))


@runtime_checkable
class Checked(Protocol):
    """A Struct whose fields must fit each other."""

    def mistakes(self) -> Iterable[Problem]:
        """Yield a problem for each misfit; paths are relative to the Struct."""


def try_convert(kind: type[T], data: object, path: str = "") -> tuple[T | None, list[Problem]]:
    """Convert `data` to `kind`. Returns the value and no problem, or None and every problem."""
    problems: list[Problem] = []
    _walk(kind, data, path, problems, types_of(kind))
    if problems:
        return None, problems
    return msgspec.convert(data, type=kind), problems


def join_path(path: str, key: str) -> str:
    """Return `a.b.c` for `a.b` and `c`; an index (`[0]`) and an empty part need no dot."""
    return f"{path}.{key}" if path and key and not key.startswith("[") else path + key


# -- one walk over the types and the data together -------------------------------------------


def _walk(
    kind: object, data: object, path: str, problems: list[Problem], types: FieldTypes
) -> None:
    if _strip_annotation(kind) is object:
        return
    info = types.info_of(kind)
    bare, kind_bare = strip(info), _strip_annotation(kind)
    match bare:
        case inspect.UnionType(types=parts) if inspect.NoneType() in parts:
            if data is not None:
                _walk(types.present_in(kind_bare), data, path, problems, types)
        case inspect.StructType():
            _walk_struct(bare.cls, data, path, problems)
        case inspect.ListType() | inspect.VarTupleType() | inspect.FrozenSetType():
            _walk_items(kind, get_args(kind_bare)[0], data, path, problems, types)
        case inspect.DictType() if get_args(kind_bare):
            _walk_dict(kind, kind_bare, data, path, problems, types)
        case _:
            _check_leaf(kind, info, data, path, problems)


def _walk_struct(
    kind: type[msgspec.Struct], data: object, path: str, problems: list[Problem]
) -> None:
    types = types_of(kind)
    fields = types.fields
    if not isinstance(data, Mapping):
        problems.append(Problem(path, describe_value(data), f"a mapping with {join_words(fields)}"))
        return
    before = len(problems)
    meant: set[str] = set()
    for key, value in data.items():
        if key in fields:
            _walk(fields[key].type, value, join_path(path, key), problems, types)
        else:
            words = f"a key: {join_words(fields)}" if fields else "no key at all"
            near = nearest(str(key), fields)
            meant.add(near)
            problems.append(Problem(join_path(path, str(key)), UNKNOWN_KEY, words, near))
    for name, field in fields.items():
        if field.required and name not in data and name not in meant:
            _walk_missing(field.type, join_path(path, name), problems, types)
    if len(problems) == before:
        _ask_struct(kind, data, path, problems)


def _walk_missing(kind: object, path: str, problems: list[Problem], types: FieldTypes) -> None:
    """Name the required key, not the mapping that contains it."""
    info = types.info_of(kind)
    if isinstance(strip(info), inspect.StructType):
        _walk(kind, {}, path, problems, types)
    else:
        problems.append(Problem(path, "nothing", describe_type(info)))


def _ask_struct(
    kind: type[msgspec.Struct], data: object, path: str, problems: list[Problem]
) -> None:
    try:
        made = msgspec.convert(data, type=kind)
    except msgspec.ValidationError as error:  # its __post_init__ refused
        cause = error.__cause__
        if isinstance(cause, PolicyConfigError):
            problems.append(Problem(join_path(path, cause.path), cause.message))
        else:
            problems.append(Problem(path, str(cause or error)))
        return
    if isinstance(made, Checked):
        problems += [replace(each, path=join_path(path, each.path)) for each in made.mistakes()]


def _walk_items(
    kind: object, item: object, data: object, path: str, problems: list[Problem], types: FieldTypes
) -> None:
    if not isinstance(data, list | tuple):
        problems.append(Problem(path, describe_value(data), describe_type(types.info_of(kind))))
        return
    before = len(problems)
    for place, value in enumerate(data):
        _walk(item, value, f"{path}[{place}]", problems, types)
    if len(problems) == before:
        _check_leaf(kind, types.info_of(kind), data, path, problems)


def _walk_dict(
    kind: object,
    kind_bare: object,
    data: object,
    path: str,
    problems: list[Problem],
    types: FieldTypes,
) -> None:
    if not isinstance(data, Mapping):
        problems.append(Problem(path, describe_value(data), "a mapping"))
        return
    before = len(problems)
    key_kind, value_kind = get_args(kind_bare)
    for key, value in data.items():
        _walk(key_kind, key, join_path(path, str(key)), problems, types)
        _walk(value_kind, value, join_path(path, str(key)), problems, types)
    if len(problems) == before:
        _check_leaf(kind, types.info_of(kind), data, path, problems)


def _check_leaf(
    kind: object, info: inspect.Type, data: object, path: str, problems: list[Problem]
) -> None:
    try:
        msgspec.convert(data, type=kind)
    except msgspec.ValidationError:
        near = nearest(str(data), choices(info)) or convert_units(path, info, data)
        problems.append(Problem(path, describe_value(data), describe_type(info), near))
        return
    check = extra(info).get("check")
    wrong = check(data) if callable(check) else None
    if wrong is not None:
        problems.append(Problem(path, describe_value(data), *wrong))


def _strip_annotation(kind: object) -> object:
    return _strip_annotation(get_args(kind)[0]) if get_origin(kind) is Annotated else kind
