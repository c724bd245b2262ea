"""Rows: columns, sequence numbers, and the families `entity`, `topic` and `capture`."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from policies.api import EffectiveQuota, Hold, Throttle
from proxy.core.stats.capture import Capture
from proxy.core.stats.topic_usage import TopicUsage
from proxy.core.stats.usage import UsageRow
from proxy.telemetry.usage_log.rows import (
    MAX_NAME_CHARS,
    AccessRow,
    ApiRow,
    CaptureRow,
    EntityRow,
    InstanceRow,
    Row,
    Sequencer,
    TopicRow,
    capture_rows,
    cut_name,
    entity_rows,
    topic_rows,
)
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f

USED = UsageRow(5000, "alice", "app", 7, 6, 1, 700, 600, 100, 900, 2, 3, 450, 200, 80, 9)
FAMILIES = {
    "entity": EntityRow,
    "api": ApiRow,
    "instance": InstanceRow,
    "topic": TopicRow,
    "access": AccessRow,
    "capture": CaptureRow,
}


def test_an_entity_row_has_the_counts_and_the_limit() -> None:
    """An entity row has every column of the UsageRow under its own name, and the limit in force."""
    sequencer = Sequencer("pod-7", "b1")
    limit = EffectiveQuota("entity", "user=alice", 50.0, "r1")

    first, second = map(
        msgspec.to_builtins,
        entity_rows(sequencer, [USED, USED._replace(user="bob")], [limit, None]),
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


def test_seq_has_gaps_only_for_lost_rows() -> None:
    """Each family counts from 1, and `skip` leaves a gap."""
    sequencer = Sequencer("a", "b")

    assert [sequencer.next_seq("entity") for _ in range(3)] == [1, 2, 3]
    assert sequencer.next_seq("api") == 1
    sequencer.skip("entity", 5)
    assert sequencer.next_seq("entity") == 9


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_begins_with_the_same_columns(family: str) -> None:
    """All families share the first columns, and the tag is the family's name."""
    columns = [field.encode_name for field in msgspec.structs.fields(FAMILIES[family])]

    assert FAMILIES[family].__struct_config__.tag == family
    assert columns[:5] == [field.name for field in msgspec.structs.fields(Row)]
    assert len(set(columns)) == len(columns)


def test_names_are_cut_and_escaped() -> None:
    """A row is one line of JSON for any characters in a client id."""
    assert cut_name("a" * 5000) == "a" * MAX_NAME_CHARS
    assert cut_name("app") == "app"

    nasty = 'a"\n\\\u2028\x00{'
    (row,) = entity_rows(Sequencer("a", "b"), [USED._replace(client_id=nasty)], [None])

    lines = msgspec.json.Encoder().encode_lines([row])

    assert lines.count(b"\n") == 1
    assert json.loads(lines)["client_id"] == nasty


PAGE = Path(__file__).resolve().parents[4] / "docs" / "operate" / "usage-log.md"


@pytest.mark.parametrize("family", FAMILIES)
def test_the_documentation_has_every_column_and_no_other(family: str) -> None:
    """docs/operate/usage-log.md has a table of columns for each family, and one for the shared columns."""
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


def test_each_user_and_topic_has_a_row() -> None:
    """A topic row has both directions, and `seq` counts the rows."""
    book = TopicUsage()
    for topic in ("orders", "paid"):
        request = bytearray(f.produce(1, topic=topic, size_bytes=200))
        book.produced_whole("alice", 3, request, 19)

    rows = list(topic_rows(Sequencer("a", "b"), 7000, book.take()))

    assert [(row.topic, row.user, row.seq, row.ts_ms) for row in rows] == [
        ("orders", "alice", 1, 7000),
        ("paid", "alice", 2, 7000),
    ]
    assert [(row.produce_requests, row.produce_bytes) for row in rows] == [(1, 200)] * 2
    assert [(row.fetch_replies, row.fetch_bytes, row.fetch_records) for row in rows] == [
        (0, 0, 0)
    ] * 2


def test_a_capture_row_has_everything_for_a_replay() -> None:
    """A capture row has the request, the calls of the policies with their times, the verdicts and the outcome."""
    capture = Capture()
    verdicts = [Hold(1000, "key"), Throttle(70)]
    policy = Recorder(lambda _: verdicts.pop(0), hear=lambda _: Throttle(9))
    wire = Wire(make_engine([policy], capture=capture, now_ms=5250, fixed_user="alice"), node_id=2)
    wire.client(f.produce(1, client_id="app"))
    wire.advance(15)
    wire.wake("key")
    wire.advance(5)
    wire.broker(f.produce_reply(1, throttle_time_ms=4))

    (row,) = map(msgspec.to_builtins, capture_rows(Sequencer("pod-7", "b"), capture.take()))

    assert row == {
        "family": "capture",
        "v": 1,
        "instance": "pod-7",
        "boot": "b",
        "seq": 1,
        "ts_ms": 5000,
        "event": 1,
        "now_ms": 5250,
        "session": wire.session.peer.session_id,
        "exchange": 1,
        "user": "alice",
        "client_id": "app",
        "node": 2,
        "api_key": 0,
        "api_version": 3,
        "acks": -1,
        "size_bytes": len(f.produce(1, client_id="app")) - 4,
        "charged": True,
        "verdict": "throttle",
        "delay_ms": 70,
        "released_event": [2],
        "released_ms": [5265],
        "replied_event": 3,
        "replied_ms": 5270,
        "reply_bytes": len(f.produce_reply(1)) - 4,
        "reply_throttle_time_ms": 4,
        "reply_delay_ms": 9,
        "outcome": "replied",
        "ended_ms": 5270,
    }
