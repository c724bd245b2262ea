"""The schemas of the pipeline, the rows that the proxy writes and the page that describes them are the same."""

import re
from pathlib import Path

import msgspec
import pytest

from pipeline.schema import FAMILIES, KEY, VERSION, WINDOW_MS
from proxy.core.stats.usage import WINDOW_MS as WRITTEN_WINDOW_MS
from proxy.telemetry.usage_log import rows

PAGE = Path(__file__).parents[2] / "docs" / "operate" / "usage-log.md"
WRITTEN = {
    "entity": rows.EntityRow,
    "api": rows.ApiRow,
    "instance": rows.InstanceRow,
    "topic": rows.TopicRow,
    "access": rows.AccessRow,
    "capture": rows.CaptureRow,
}
KINDS = {
    "int": {"int", "bigint"},
    "int | None": {"int", "bigint"},
    "float": {"double"},
    "float | None": {"double"},
    "str": {"string"},
    "str | None": {"string"},
    "bool": {"boolean"},
    "list[int]": {"array<int>", "array<bigint>"},
}


def written_columns(family: str) -> dict[str, str]:
    """Return the columns that the proxy writes, each with its Python type."""
    kinds = {
        field.name: str(getattr(field.type, "__name__", field.type))
        if isinstance(field.type, type) and not hasattr(field.type, "__args__")
        else str(field.type)
        for field in msgspec.structs.fields(WRITTEN[family])
    }
    return {"family": "str", **kinds}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_schema_has_the_columns_that_the_proxy_writes(family: str) -> None:
    """Same names, and a type that holds each value; so no column is dropped and none is always null."""
    written = written_columns(family)
    schema = {field.name: field.dataType.simpleString() for field in FAMILIES[family]}

    assert schema.keys() == written.keys()
    assert {
        name: (kind, schema[name])
        for name, kind in written.items()
        if schema[name] not in KINDS[kind]
    } == {}


def test_the_version_and_the_window_are_those_of_the_rows() -> None:
    """The reader knows the version that this proxy writes, the length of its seconds and the columns of the key."""
    assert VERSION == rows.VERSION
    assert WINDOW_MS == WRITTEN_WINDOW_MS
    assert all(set(KEY) <= set(schema.names) for schema in FAMILIES.values())


def described_columns(family: str) -> set[str]:
    """Return the columns that the page names for a family, with those of all families."""
    text = PAGE.read_text("utf-8")
    common = text.partition("### All families")[2].partition("\n### ")[0]
    own = re.search(rf"### {family}\n(.*?)(?=\n### |\Z)", text, re.DOTALL)
    assert own
    first_cells = [
        line.split("|")[1]
        for part in (common, own[1])
        for line in part.splitlines()
        if line[:1] == "|"
    ]
    return {name for cell in first_cells for name in re.findall(r"`([a-z_0-9.]+)`", cell)}


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_names_every_column(family: str) -> None:
    """Each column of a schema stands in the first column of its family's table, and no other does."""
    described = described_columns(family)
    if "response_pool_..." in described:  # written out once, for the request pool
        described |= {
            each.replace("request_", "response_", 1) for each in described if "pool" in each
        }
        described.remove("response_pool_...")
    columns = {*FAMILIES[family].names}
    if family != "capture":
        assert "window_ms" in columns
        columns.remove("window_ms")  # described in words

    assert described == columns
