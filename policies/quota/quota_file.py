"""The quota file: quotas that a tool has computed or a person has written, apart from the configuration.

    version: 1
    generated_at: '2026-11-23T08:00:00Z'
    source: {tables: file:///data/tables}
    quotas:
    - user: alice
      request_rate: 110
      evidence:
        request_rate: {p50: 12, p99: 80, p999: 100, max: 140, windows: 86400}

- `sluice-pipeline recommend` writes it. The setting `quotas_file` and `sluice quotas apply` take it as it is.
- YAML or JSON. Only `version` and `quotas` are required. `source` and `evidence` are for people and change nothing.
- A line of `quotas` is like one of the configuration's. Two lines may not set the same limit of the same entity.
- Reading is strict: a file with one mistake is refused as a whole, with every mistake. So is one of a later version.
- Text in, text out; `set_limits` reads the file by the policy's host.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import yaml

from policies.api import PolicyConfigError
from policies.quota.config import QuotaLine, repeated_limits
from policies.type_names import describe_value
from policies.validation import Problem, SettingsError, try_convert, with_origin
from policies.yaml_text import MAX_BYTES, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.api import Host
    from policies.quota.entity import ClientQuotas

VERSION: Final = 1
MAX_QUOTAS: Final = 50_000
"""Of one file."""
MAX_PROBLEMS: Final = 20
"""Mistakes of one file that are reported; more of them say nothing new."""
SETTING: Final = "quotas_file"
LINE_CHARS: Final = 120

_HEADER: Final = "# Quotas of one Sluice: for the setting quotas_file, or `sluice quotas apply`.\n"

Version = Annotated[int, msgspec.Meta(ge=1, le=VERSION, extra={"expected": str(VERSION)})]
Time = Annotated[datetime, msgspec.Meta(extra={"expected": "a time such as 2026-11-23T08:00:00Z"})]


class QuotaFileLine(QuotaLine, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limits of one entity and the reason for them."""

    evidence: dict[str, object] = msgspec.field(default_factory=dict)
    """The measurements that the limits were computed from; not read by Sluice."""


class QuotaFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The content of a quota file."""

    version: Version = VERSION
    generated_at: Time | None = None
    source: dict[str, object] = msgspec.field(default_factory=dict)
    """The origin of the quotas; not read by Sluice."""
    quotas: tuple[QuotaFileLine, ...]
    """The limits."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each limit that is given twice."""
        yield from repeated_limits(enumerate(self.quotas))


def parse_quota_file(text: str | bytes, label: str = "") -> QuotaFile:
    """Return the content of a quota file. `label` is its name for messages.

    Raises SettingsError with every problem; a path such as `quotas[3].request_rate` begins at the top of the file, and
    `label` and the line in YAML are the origin.
    """
    content = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    if len(content) > MAX_BYTES:
        found, expected = f"{len(content)} bytes", f"at most {MAX_BYTES} bytes"
        raise SettingsError([Problem("", found, expected, origin=label)])
    data, origins = _read(content, label)
    problems = list(_hopeless(data))
    file = None
    if not problems:
        file, problems = try_convert(QuotaFile, data)
    if file is None:
        raise SettingsError(with_origin(each, {"": label} | origins) for each in problems)
    return file


def render_quota_file(file: QuotaFile) -> str:
    """Return the file as YAML for people; `parse_quota_file` returns an equal one from it."""
    when = file.generated_at
    content: dict[str, object] = {"version": file.version}
    if when is not None:
        zoned = when if when.tzinfo else when.replace(tzinfo=UTC)
        content["generated_at"] = zoned.isoformat().replace("+00:00", "Z")
    if file.source:
        content["source"] = msgspec.to_builtins(file.source)
    content["quotas"] = list(map(_entry, file.quotas))
    return _HEADER + yaml.dump(
        content,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,  # the innermost mappings are on one line
        width=LINE_CHARS,
    )


def set_limits(quotas: ClientQuotas, path: str, host: Host) -> None:
    """Set the limits of the file that the setting `quotas_file` names.

    Raises PolicyConfigError if it cannot be read, SettingsError with the first MAX_PROBLEMS mistakes of its content.
    """
    try:
        content = host.read(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        words = getattr(error, "strerror", None) or error
        raise PolicyConfigError(SETTING, f"{path!r} cannot be read: {words}") from error
    try:
        file = parse_quota_file(content, path)
    except SettingsError as error:
        found = error.problems[:MAX_PROBLEMS]
        raise SettingsError(Problem(SETTING, str(each)) for each in found) from error
    for line in file.quotas:
        for key, value in line.limits():
            quotas.set(line.entity, key, value, "quotas_file")


class _Dumper(yaml.SafeDumper):
    """Writes no aliases: evidence that two lines share is written twice."""

    def ignore_aliases(self, data: object) -> bool:
        """Return True for any value."""
        return True

    def represent_text(self, text: str) -> yaml.ScalarNode:
        """Return a text; a line end or another character that is not printable is written as an escape."""
        style = None if text.isprintable() else '"'
        return self.represent_scalar("tag:yaml.org,2002:str", text, style)

    def write_double_quoted(self, text: str, split: bool = True) -> None:  # noqa: FBT001, FBT002 - as its base has it
        """Write a text in quotes; also a mark of direction, which YAML would take for a letter, as an escape."""
        unicode, self.allow_unicode = self.allow_unicode, text.isprintable()
        super().write_double_quoted(text, split)
        self.allow_unicode = unicode


_Dumper.add_representer(str, _Dumper.represent_text)


def _entry(line: QuotaFileLine) -> dict[str, object]:
    evidence = {"evidence": msgspec.to_builtins(line.evidence)} if line.evidence else {}
    return line.content() | evidence


def _read(content: bytes, label: str) -> tuple[object, dict[str, str]]:
    """Return the data and the origins of its paths, which only YAML has. Raises SettingsError."""
    if content[:100].lstrip().startswith(b"{"):
        # JSON allows what YAML does not: tabs, and characters in two escapes.
        try:
            return json.loads(content, object_pairs_hook=_unique), {}
        except (ValueError, RecursionError):
            pass  # a YAML mapping in braces, or a mistake, which YAML's reader can locate
    data, origins, problems = read_yaml(content, label)
    if problems:
        raise SettingsError(problems)
    return data, origins


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the mapping. Raises ValueError for a key that is there twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _hopeless(data: object) -> Iterator[Problem]:
    """Yield a mistake that makes it pointless to look for others."""
    if not isinstance(data, dict):
        return
    version, quotas = data.get("version"), data.get("quotas")
    if "version" not in data:
        yield Problem("version", "nothing", str(VERSION))
    elif type(version) is int and version > VERSION:
        words = f"{VERSION}, the latest that this Sluice can read"
        yield Problem("version", describe_value(version), words)
    elif isinstance(quotas, list) and len(quotas) > MAX_QUOTAS:
        yield Problem("quotas", f"{len(quotas)} entries", f"at most {MAX_QUOTAS}")
