"""Join the configuration from all sources, and keep the source of each value.

- A flag overrides an environment variable, a variable the file, the file the default. A list is replaced
  whole, never joined; `policies` too.
- Each setting has one variable, SLUICE_<SECTION>_<KEY>; lists are comma separated, SLUICE_POLICIES
  takes YAML. An empty variable counts as not set. A variable of an optional section creates the section.
- An unknown SLUICE_ variable is no error, because Kubernetes sets some; one that resembles a setting
  gives a hint.
- All problems of all sources are in one `SettingsError`, before anything is bound or dialled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import msgspec
from msgspec import inspect

from policies.registry import PolicyEntry, discard, transfer
from policies.registry import hints as policy_hints
from policies.registry import inspect as inspect_policies
from policies.type_names import extra, nearest, strip, struct_of
from policies.validation import (
    UNKNOWN_KEY,
    Problem,
    SettingsError,
    join_path,
    try_convert,
    with_origin,
)
from proxy.config import Config
from proxy.config.container import VARIABLE
from proxy.config.hints import hints
from proxy.config.kafka_names import find as kafka_name
from proxy.config.small_files import CLIENT_SECRET_VARIABLE, PASSWORD_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

PREFIX = "SLUICE_"
DEFAULT = "default"
CONFIG_VARIABLE = "SLUICE_CONFIG"
"""The variable with the path of the file, as `--config`."""


_KUBERNETES = re.compile(r"_SERVICE_(HOST|PORT)|_(TCP|UDP)(_|=)|=(tcp|udp)://")
"""The variables of a pod for a Service called `sluice...`."""


@dataclass(frozen=True, slots=True)
class Effective:
    """The configuration in effect, and the source of each value."""

    config: Config
    origins: Mapping[str, str]
    """Key path to `file:line`, a variable, a flag, or `default`; every value of `config` has one."""
    hints: tuple[str, ...] = ()
    """Warnings about probable oversights that are no errors."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The environment variable of one setting."""

    name: str
    path: str
    kind: inspect.Type
    """With its metadata."""
    default: object
    """`msgspec.NODEFAULT` if the setting is required in its section."""


NOT_EXPANDED = "Sluice expands no variables in the file: leave it out, and set the SLUICE_ variable of this setting"


@cache
def variables() -> Mapping[str, Variable]:
    """Return the variable of every setting, by its name."""
    return {each.name: each for each in _variables_below(inspect.type_info(Config), "")}


def _variables_below(info: inspect.Type, path: str) -> Iterator[Variable]:
    struct = struct_of(info)
    for each in struct.fields if struct else ():
        below = join_path(path, each.encode_name)
        if struct_of(each.type):
            yield from _variables_below(each.type, below)
        else:
            yield Variable(PREFIX + below.replace(".", "_").upper(), below, each.type, each.default)


def load(
    file: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, tuple[str, str]],
    look: Callable[[Config], Iterable[Problem | str]] | None = None,
    *,
    keep_policies: bool = False,
) -> Effective:
    """Read, join and check all sources. `flags`: key path to (text, name of the flag).

    The policies are made to check them; `keep_policies` keeps them in `config.policies` for `registry.build`, else they
    are closed.

    `look` finds further problems, of files and folders that the settings name, and hints (texts). It gets defaults in
    place of settings that are wrong.

    Raises SettingsError with every problem, those of the policies' settings included.
    """
    merge = _Merge()
    if file is not None:
        merge.take_file(file)
    known = variables()
    for name, variable in known.items():
        if environ.get(name):
            merge.take_text(variable, environ[name], name)
    by_path = {variable.path: variable for variable in known.values()}
    for path, (text, flag) in flags.items():
        merge.take_text(by_path[path], text, flag)
    config = merge.finish(look)
    if not keep_policies:
        discard(config.policies)
    warnings = (*_hints(environ), *hints(config), *policy_hints(config.policies), *merge.hints)
    return Effective(config, _complete(config, merge.origins), warnings)


@dataclass
class _Merge:
    data: object = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    unreadable: bool = False

    def take_file(self, file: Path) -> None:
        from proxy.config.small_files import read_file  # noqa: PLC0415 - start-up: only with a file

        self.data, self.origins, problems = read_file(file)
        self.problems += problems
        self.unreadable = bool(problems)

    def take_text(self, variable: Variable, text: str, origin: str) -> None:
        """Replace one setting by the value of a text."""
        value = self._parse(variable, text, origin)
        *sections, key = variable.path.split(".")
        place, path = self.data, ""
        for section in sections:
            if not isinstance(place, MutableMapping):
                return  # a problem of the file, reported there
            optional, path = bool(path), join_path(path, section)
            if section not in place or (optional and place[section] is None):
                place[section] = {}
                if optional:
                    self.origins[path] = origin
            place = place[section]
        if not isinstance(place, MutableMapping):
            return
        place[key] = value
        for path in [each for each in self.origins if _is_below(each, variable.path)]:
            del self.origins[path]
        _mark(value, variable.path, origin, self.origins)

    def finish(self, look: Callable[[Config], Iterable[Problem | str]] | None = None) -> Config:
        """Return the checked configuration. Raises SettingsError with all problems."""
        config: Config | None = None
        if not self.unreadable:
            config, problems = try_convert(Config, self.data)
            entries = self._entries()
            problems += _inspected(entries, self._directories())
            seen = config or self._usable_part(problems)
            if look is not None and seen is not None:
                known = {each.path for each in problems}
                for each in look(seen):
                    if isinstance(each, str):
                        self.hints.append(each)
                    elif each.path not in known or not each.path:
                        problems.append(each)
            self.problems += [self._at(each) for each in problems]
            if config is not None and not self.problems:
                transfer(entries, config.policies)
            discard(entries)
        if self.problems or config is None:
            raise SettingsError(self.problems)
        return config

    def _parse(self, variable: Variable, text: str, origin: str) -> object:
        is_mapping = isinstance(strip(variable.kind), inspect.DictType)
        if variable.path != "policies" and not is_mapping:
            return parse_text(variable.kind, text)
        from policies.yaml_text import read_yaml  # noqa: PLC0415 - start-up: only when it is set

        value, _, problems = read_yaml(text, origin)
        self.problems += problems
        if problems:
            return {} if is_mapping else []
        return value

    def _entries(self) -> list[PolicyEntry | None]:
        """Return the entries of the policies: each checks its settings, also if other settings are wrong."""
        raw = self.data.get("policies") if isinstance(self.data, Mapping) else None
        if not isinstance(raw, list):
            return []
        return [_readable_part(each) for each in raw]

    def _directories(self) -> tuple[str, ...]:
        raw = self.data.get("policies_path") if isinstance(self.data, Mapping) else None
        found, _ = try_convert(tuple[str, ...], raw)
        return found or ()

    def _usable_part(self, problems: list[Problem]) -> Config | None:
        """Return the settings without those that have a problem; None if the rest cannot be used either.

        Problems that show only then (two settings that do not fit each other) join the others, unless something is
        missing in a section that has a problem already.
        """
        data = _copied(self.data)
        if not isinstance(data, dict):
            return None
        wrong = list(problems)
        data.setdefault("upstream", {"bootstrap_servers": _STAND_INS["upstream.bootstrap_servers"]})
        for _ in range(4):
            for each in wrong:
                _forget(data, each.path.partition("[")[0])
            config, wrong = try_convert(Config, data)
            if config is not None:
                return config
            known = {each.path for each in problems}
            known |= {_section_of(path) for path in known}  # what is removed is missing there now
            problems += [
                each
                for each in wrong
                if each.path not in known
                and not (each.found == "nothing" and _section_of(each.path) in known)
            ]
        return None

    def _at(self, problem: Problem) -> Problem:
        if problem.expected and "${" in problem.found:
            problem = replace(problem, expected=f"{problem.expected} ({NOT_EXPANDED})")
        if problem.found == UNKNOWN_KEY and (known := kafka_name(problem.path)) is not None:
            name = f"Kafka's {known.kafka}"
            words = f"{name} is {known.ours} here" if known.ours else f"{name} has no counterpart"
            problem = replace(
                problem,
                expected=f"{words}: {known.why}" if known.why else words,
                nearest="" if ":" in known.ours else known.ours,
            )
        return with_origin(problem, self.origins)


def _readable_part(raw: object) -> PolicyEntry | None:
    """Return the readable part of an entry of `policies`, so that a bad mode does not hide problems of its config."""
    if not isinstance(raw, Mapping):
        return None
    fields = {key: value for key, value in raw.items() if key in PolicyEntry.__struct_fields__}
    entry, problems = try_convert(PolicyEntry, fields)
    for path in {problem.path.partition(".")[0] for problem in problems} & {"mode", "on_error"}:
        del fields[path]
        entry, _ = try_convert(PolicyEntry, fields)
    return entry


def _inspected(entries: list[PolicyEntry | None], directories: tuple[str, ...]) -> list[Problem]:
    """Return the problems of the policies. They are made, and they read their files."""
    if not entries and not directories:
        return []
    from proxy.shell import files  # noqa: PLC0415 - start-up: only with policies

    return inspect_policies(entries, files, keep=True, directories=directories)


def parse_text(kind: inspect.Type, text: str) -> object:
    """Return the value of a variable or flag as YAML has it. Text that does not fit the type is returned as text."""
    match strip(kind):
        case inspect.VarTupleType(item_type=item):
            separator = str(extra(kind).get("separator", ","))
            return [parse_text(item, part) for part in re.split(separator, text)]
        case inspect.IntType():
            return int(text) if re.fullmatch(r"\s*-?\d{1,20}\s*", text, re.ASCII) else text
        case inspect.BoolType() if text.strip().lower() in {"true", "false"}:
            return text.strip().lower() == "true"
        case inspect.FloatType() if re.fullmatch(r"\s*\d{0,9}\.?\d{1,9}\s*", text, re.ASCII):
            return float(text)
        case inspect.UnionType(types=types) if re.fullmatch(r"\d{1,10}", text, re.ASCII):
            numbers = [each for each in types if isinstance(strip(each), inspect.IntType)]
            return int(text) if numbers else text
    return text.strip()


def _copied(value: object) -> object:
    """Return a copy of the mappings inside mappings."""
    return (
        {key: _copied(each) for key, each in value.items()} if isinstance(value, Mapping) else value
    )


_STAND_INS: Mapping[str, object] = {
    "upstream.bootstrap_servers": ["localhost:9092"],
    "listen.advertised_host": "localhost",
}
"""For settings without a default of their own: without them a whole section would be forgotten."""


def _forget(data: dict[str, object], path: str) -> None:
    """Remove the setting at `path`; if there is none, the section that lacks it or is no mapping."""
    holder, name = data, ""
    value: object = data
    if path in _STAND_INS:
        section, _, key = path.partition(".")
        value = data.setdefault(section, {})
        if isinstance(value, dict):
            value[key] = _STAND_INS[path]
            return
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            break
        holder, name, value = value, key, value[key]
    holder.pop(name, None)


def _section_of(path: str) -> str:
    return path.rpartition(".")[0]


def _is_below(path: str, top: str) -> bool:
    return path == top or path.startswith((f"{top}.", f"{top}["))


def _mark(value: object, path: str, origin: str, origins: dict[str, str]) -> None:
    """Record the origin of a value and of all values inside it."""
    origins[path] = origin
    if isinstance(value, Mapping):
        for key, each in value.items():
            _mark(each, join_path(path, str(key)), origin, origins)
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            _mark(each, f"{path}[{place}]", origin, origins)


def _complete(config: Config, origins: Mapping[str, str]) -> dict[str, str]:
    """Return the origins of all values, defaults included."""
    defaults: dict[str, str] = {}
    _mark(msgspec.to_builtins(config), "", DEFAULT, defaults)
    defaults["listen.advertised_host"] = f"{DEFAULT}: listen.address"
    for place in range(len(config.policies)):
        defaults[f"policies[{place}].name"] = f"{DEFAULT}: use"
    return defaults | dict(origins)


def _hints(environ: Mapping[str, str]) -> tuple[str, ...]:
    others = (CONFIG_VARIABLE, VARIABLE, PASSWORD_VARIABLE, CLIENT_SECRET_VARIABLE)
    known = {name.removeprefix(PREFIX) for name in (*variables(), *others)}
    found: list[str] = []
    for name in sorted(environ):
        short = name.removeprefix(PREFIX)
        if short == name or short in known or _KUBERNETES.search(f"{name}={environ[name]}"):
            continue
        if near := nearest(short, known):
            found.append(f"{name} is not a setting; did you mean {PREFIX}{near}?")
    return tuple(found)
