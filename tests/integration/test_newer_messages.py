"""Messages that the codec library lacks are those of Kafka's own definitions, in the jar of its clients."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal
from zipfile import ZipFile

import pytest

from tests.support.kafka.java import Java
from tests.support.kafka.kafka_jars import kafka_jars
from wire import newer_messages
from wire.apis import name_of
from wire.schema import Shape, shape_of

Schema = Mapping[str, Any]
CASES = [(*each, kind) for each in sorted(newer_messages.versions()) for kind in ("request", "response")]  # fmt: skip
TIMES = "_ms"
"""The codec library leaves it out of a field's name, and gives the field a type of its own."""


@cache
def definitions() -> dict[str, Schema]:
    """Return Kafka's message definitions by name."""
    (jar,) = kafka_jars().glob("org.apache.kafka_kafka-clients-*.jar")
    found = {}
    with ZipFile(jar) as archive:
        for path in archive.namelist():
            if path.startswith("common/message/") and path.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", archive.read(path).decode(), flags=re.MULTILINE)
                message = json.loads(text)
                found[message["name"]] = message
    return found


def has(versions: str, version: int) -> bool:
    """Return whether Kafka's range of versions has this one."""
    first, dash, last = versions.rstrip("+").partition("-")
    if not first.isdigit():  # "none"
        return False
    if versions.endswith("+"):
        return version >= int(first)
    return int(first) <= version <= int(last if dash else first)


def told_by_kafka(fields: list[Schema], structs: Schema, version: int) -> Iterator[tuple[object, ...]]:  # fmt: skip
    """Yield name, type, whether it is an array, whether it may be null, tag, and the fields inside."""
    for each in fields:
        if not has(each["versions"], version):
            continue
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", each["name"]).lower()
        kind = each["type"].removeprefix("[]")
        inner: object = None
        if kind[0].isupper():
            kind, inside = "", each.get("fields") or structs[kind]
            inner = tuple(told_by_kafka(inside, structs, version))
        if name.endswith(TIMES):
            name, kind = name.removesuffix(TIMES), "timedelta_i32"
        yield (
            name,
            kind,
            each["type"].startswith("[]"),
            has(each.get("nullableVersions", "none"), version),
            each["tag"] if has(each.get("taggedVersions", "none"), version) else None,
            inner,
        )


def told_by_class(shape: Shape) -> Iterator[tuple[object, ...]]:
    """Yield the same of a class."""
    tags = {id(field): tag for tag, field in shape.tagged.items()}
    for field in (*shape.untagged, *shape.tagged.values()):
        inner = None if field.shape is None else tuple(told_by_class(field.shape))
        may_be_null = field.is_nullable and field.kafka_type != "uuid"  # the zero id is None
        yield field.name, field.kafka_type, field.is_array, may_be_null, tags.get(id(field)), inner


@pytest.mark.parametrize(("key", "version", "kind"), CASES)
def test_a_newer_message_is_kafkas(
    java: Java, key: int, version: int, kind: Literal["request", "response"]
):
    """Field by field: names, types, what may be null, and tags, in Kafka's order."""
    assert java
    schema = definitions().get(f"{name_of(key)}{kind.title()}")
    if schema is None or not has(schema["validVersions"], version):
        pytest.skip("the Kafka of these tests is older")
    structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", ())}
    made = newer_messages.class_of(key, version, kind)
    assert made is not None
    assert has(schema["flexibleVersions"], version)
    assert schema["apiKey"] == key
    assert list(told_by_class(shape_of(made))) == list(
        told_by_kafka(schema["fields"], structs, version)
    )
