"""Kafka's message definitions: the requests and replies of one release, field by field.

- A release is Kafka's jar `kafka-clients`, any other zip, or a folder, such as a checkout of Kafka.
- Definitions are its files `*Request.json` and `*Response.json`: JSON with comments. The format is explained in the
  README of Kafka's folder `common/message`.
- Versions are a `range`: "4-18", "9+" and "none" are read once, and `version in versions` asks.
- A struct stands where it is used, also one that is defined once for several fields (`commonStructs`).
"""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Kind = Literal["request", "response"]
KINDS: tuple[Kind, Kind] = ("request", "response")
FIXED_BYTES = {
    "bool": 1, "int8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip
_END = 1 << 15
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DEFINITION = re.compile(r"(\w+)(Request|Response)\.json")


class DefinitionError(Exception):
    """A release cannot be read: no definitions, or one that is malformed."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message or struct, as the newest version has it."""

    name: str
    type: str
    """Of one element, if it is an array."""
    is_array: bool
    versions: range
    nullable: range
    tagged: range
    tag: int | None
    entity: str
    """Kafka's `entityType`: `topicName`, `groupId`, ...; empty for most fields."""
    default: str | None
    """None: that of the type, which is 0, false, empty or null."""
    about: str
    fields: tuple[Field, ...]
    """Of a struct; empty for any other type."""


@dataclass(frozen=True, slots=True)
class Message:
    """One request or reply, in every version that the release accepts."""

    key: int
    name: str
    """Without `Request` or `Response`."""
    kind: Kind
    versions: range
    flexible: range
    is_unstable: bool
    """Whether a broker announces the newest version only if it is told to (`latestVersionUnstable`)."""
    listeners: frozenset[str]
    """Which kinds of servers accept this request; empty for a reply."""
    fields: tuple[Field, ...]

    def walk(self, version: int | None = None) -> Iterator[tuple[str, Field]]:
        """Yield each field with its path, `Topics/Partitions/Index`, outermost first; by default of every version."""
        yield from _walk("", self.fields, version)


@dataclass(frozen=True, slots=True)
class Release:
    """All messages of a release, and its other files."""

    version: str
    messages: Mapping[tuple[int, Kind], Message]
    files: Files

    @property
    def minor(self) -> str:
        """Return `4.4` for 4.4.0."""
        return ".".join(self.version.split(".")[:2])

    def requests(self) -> list[Message]:
        """Return the requests that the release accepts in some version, by key."""
        return [each for (_, kind), each in sorted(self.messages.items()) if kind == "request"]

    def reply_to(self, request: Message) -> Message:
        """Return the reply of a request."""
        return self.messages[request.key, "response"]


class Files:
    """The files of a jar, a zip or a folder, each found by its name in any folder."""

    def __init__(self, place: Path | None) -> None:
        self._found: dict[str, Path | zipfile.Path] = {}
        if place is None:
            return
        if place.is_dir():
            self._found = {path.name: path for path in sorted(place.rglob("*.*"))}
        elif zipfile.is_zipfile(place):
            packed = zipfile.ZipFile(place)
            self._found = {
                PurePosixPath(name).name: zipfile.Path(packed, name) for name in packed.namelist()
            }
        else:
            raise DefinitionError(f"{place} is neither a folder nor a zip")

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._found))

    def find(self, name: str) -> bytes | None:
        """Return the content of the file of this name; None if there is none."""
        path = self._found.get(name)
        return None if path is None else path.read_bytes()


NOTHING = Release("nothing", {}, Files(None))
"""A release without any API: beside it, all of another one is new."""


def read_release(version: str, place: Path) -> Release:
    """Return the release in this jar, zip or folder. Raises DefinitionError."""
    files = Files(place)
    messages: dict[tuple[int, Kind], Message] = {}
    for name in filter(_DEFINITION.fullmatch, files):
        try:
            message = read_message((files.find(name) or b"").decode())
        except (ValueError, KeyError, TypeError) as error:
            raise DefinitionError(f"{name} is no message definition: {error!r}") from error
        if message is not None:
            messages[message.key, message.kind] = message
    unanswered = [key for key, kind in messages if (key, KINDS[kind == "request"]) not in messages]
    if not messages or unanswered:
        raise DefinitionError(f"{place}: no definitions, or half of one; keys {sorted(unanswered)}")
    return Release(version, messages, files)


def read_message(text: str) -> Message | None:
    """Return the message that a definition describes; None if no version of it is left. Raises ValueError, KeyError."""
    said = json.loads(_COMMENT.sub(lambda found: found[1] or "", text))
    versions = range_of(said["validVersions"])
    if not versions:
        return None
    kind: Kind = said["type"]
    structs = {each["name"]: each for each in said.get("commonStructs", ())}
    return Message(
        key=said["apiKey"],
        name=said["name"].removesuffix(kind.capitalize()),
        kind=kind,
        versions=versions,
        flexible=range_of(said["flexibleVersions"]),
        is_unstable=bool(said.get("latestVersionUnstable", False)),
        listeners=frozenset(said.get("listeners", ())),
        fields=tuple(_field(each, structs) for each in said["fields"]),
    )


def _field(said: dict[str, Any], structs: dict[str, dict[str, Any]]) -> Field:
    type_ = said["type"].removeprefix("[]")
    inner = said.get("fields") or structs.get(type_, {}).get("fields", ())
    versions = range_of(said["versions"])
    tagged = range_of(said.get("taggedVersions", "none"))
    return Field(
        name=said["name"],
        type=type_,
        is_array=said["type"].startswith("[]"),
        versions=versions,
        nullable=range_of(said.get("nullableVersions", "none")),
        tagged=tagged,
        tag=said.get("tag"),
        entity=said.get("entityType", ""),
        default=None if "default" not in said else str(said["default"]),
        about=said.get("about", ""),
        fields=tuple(_field(each, structs) for each in inner),
    )


def _walk(path: str, fields: Iterable[Field], version: int | None) -> Iterator[tuple[str, Field]]:
    for field in fields:
        if version is None or version in field.versions:
            yield path + field.name, field
            yield from _walk(f"{path}{field.name}/", field.fields, version)


def range_of(text: str) -> range:
    """Return the versions that "4-18", "9+", "3" or "none" contains. Raises ValueError for any other text."""
    if text == "none":
        return range(0)
    first, dash, last = text.partition("-")
    if text.endswith("+"):
        return range(int(text[:-1]), _END)
    return range(int(first), int(last if dash else first) + 1)


def both(one: range, other: range) -> range:
    """Return the versions that are in both ranges."""
    return range(max(one.start, other.start), min(one.stop, other.stop))


def text_of(versions: range) -> str:
    """Return a range as Kafka writes it."""
    if not versions:
        return "none"
    if versions.stop >= _END:
        return f"{versions.start}+"
    last = versions.stop - 1
    return f"{versions.start}-{last}" if last > versions.start else str(last)
