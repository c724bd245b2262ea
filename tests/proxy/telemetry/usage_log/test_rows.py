"""The columns of the usage log."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from policies.api import EffectiveQuota
from proxy.core.usage import UsageRow
from proxy.telemetry.usage_log.rows import (
    NAME_MOST_CHARS,
    ApiRow,
    CaptureRow,
    EntityRow,
    InstanceRow,
    Row,
    Stamp,
    TopicRow,
    cut,
    entity_rows,
)

USED = UsageRow(5000, "alice", "app", 7, 6, 1, 700, 600, 100, 900, 2, 3, 450, 200, 80, 9)
FAMILIES = {
    "entity": EntityRow,
    "api": ApiRow,
    "instance": InstanceRow,
    "topic": TopicRow,
    "capture": CaptureRow,
}


def test_a_row_has_what_the_core_counted_and_what_was_in_force() -> None:
    """Every column of a UsageRow is in the entity row under its own name, and so is the limit."""
    stamp = Stamp("pod-7", "b1")
    limit = EffectiveQuota("entity", "user=alice", 50.0, "r1")

    first, second = map(
        msgspec.to_builtins, entity_rows(stamp, [USED, USED._replace(user="bob")], [limit, None])
    )

    assert USED._asdict().items() <= first.items()
    assert first["family"] == "entity"
    assert (first["v"], first["instance"], first["boot"], first["window_ms"]) == (
        1,
        "pod-7",
        "b1",
        1000,
    )
    assert (first["enforcement"], first["quota_entity"]) == ("entity", "user=alice")
    assert (first["quota_rate"], first["quota_rev"]) == (50.0, "r1")
    assert second["user"] == "bob"
    assert second["quota_rate"] is second["quota_entity"] is second["enforcement"] is None


def test_seq_has_no_gaps_unless_something_is_lost() -> None:
    """Each family counts for itself from 1; what is skipped is missed."""
    stamp = Stamp("a", "b")

    assert [stamp.next_seq("entity") for _ in range(3)] == [1, 2, 3]
    assert stamp.next_seq("api") == 1
    stamp.skip("entity", 5)
    assert stamp.next_seq("entity") == 9


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_says_who_wrote_it_when_and_which(family: str) -> None:
    """The first columns are the same everywhere, and the tag is the family."""
    columns = [field.encode_name for field in msgspec.structs.fields(FAMILIES[family])]

    assert FAMILIES[family].__struct_config__.tag == family
    assert columns[:5] == [field.name for field in msgspec.structs.fields(Row)]
    assert len(set(columns)) == len(columns)


def test_a_name_that_is_a_novel_is_cut() -> None:
    """A client may call itself whatever it likes; the row stays short."""
    assert cut("a" * 5000) == "a" * NAME_MOST_CHARS
    assert cut("app") == "app"


def test_a_hostile_name_stays_one_line() -> None:
    """Newlines and control characters in a client id are escaped: a row is one line of JSON."""
    nasty = 'a"\n\\\u2028\x00{'
    (row,) = entity_rows(Stamp("a", "b"), [USED._replace(client_id=nasty)], [None])

    lines = msgspec.json.Encoder().encode_lines([row])

    assert lines.count(b"\n") == 1
    assert json.loads(lines)["client_id"] == nasty


PAGE = Path(__file__).resolve().parents[4] / "docs" / "usage-log.md"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_page_explains_every_column_and_no_other(family: str) -> None:
    """`docs/usage-log.md` has a table for each family, and one for what all rows begin with."""
    page = PAGE.read_text("utf-8")
    everywhere = {"family", "window_ms", *msgspec.structs.asdict(_any_row())}
    section = page.partition(f"### {family}\n")[2].partition("\n#")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    explained = {word for cell in cells for word in re.findall(r"`(\w+)`", cell)}
    columns = {field.name for field in msgspec.structs.fields(FAMILIES[family])} - everywhere

    if family == "instance":  # the second pool is named with three dots
        explained |= {
            column.replace("request_pool", "response_pool")
            for column in explained
            if column.startswith("request_pool")
        }
    assert explained == columns
    assert all(f"`{column}`" in page for column in everywhere)


def _any_row() -> Row:
    return Row(instance="", boot="", seq=1, ts_ms=0)
