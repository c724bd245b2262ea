"""The table of golden cases is complete, and every proof that it names exists."""

import ast
import datetime as dt
import io
import re
from functools import cache
from pathlib import Path

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from tests.support.messages.golden import GOLDEN, Case, cases, table
from wire import fetch
from wire.apis import OFFERED, ApiKey, find

ROOT = Path(__file__).parents[1]
VERDICTS = {"holds", "broker", "reference", "open"}
SETTLED = {
    "wire",
    "apiversions",
    "client",
    "fetch_session",
    "purgatory",
    "delayed_produce",
    "delayed_fetch",
    "mempool",
    "selector.oom",
}
"""Areas whose work is done: none of their cases may be open."""

ROOM = re.compile(r"to be settled by (wire|policies|proxy/core|proxy/shell)/[a-z_/]+")


@cache
def functions_of(file: str) -> frozenset[str]:
    """Return the names of the test functions that a file defines."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def test_every_golden_case_has_a_verdict() -> None:
    """The table names each case once, none invented and none missing."""
    known = (GOLDEN / "case_ids.txt").read_text(encoding="utf-8").split("\n")
    assert [f"{case.area} {case.id}" for case in table()] == [line for line in known if line]
    assert len({case.id for case in table()}) == len(table())


@pytest.mark.parametrize("case", table(), ids=lambda case: case.id)
def test_each_verdict_is_backed(case: Case) -> None:
    """A case has a proof if it holds, a reason if it does not, and a room if it is open."""
    assert case.verdict in VERDICTS
    if case.proof:
        file, _, function = case.proof.partition("::")
        assert function in functions_of(file)
    if case.verdict == "holds":
        assert case.proof
    else:
        assert case.why
    if case.verdict == "open":
        assert case.area not in SETTLED
        assert not case.proof
        assert ROOM.fullmatch(case.why)


@pytest.mark.parametrize("area", sorted(SETTLED - {"client"}))
def test_copied_cases_are_used_by_the_tests_that_the_table_names(area: str) -> None:
    """Each case of cases.toml is in the table, with a proof."""
    proofs = {case.id: case.proof for case in table() if case.area == area}
    for case_id in cases(area):
        assert proofs[case_id]


def test_max_wait_ms_lies_where_kafka_puts_it() -> None:
    """It lies at offset 4 after the replica id, at 0 from v15 on; kio encodes it there too."""
    case = cases("wire")["wire-fetch-request-maxwait"]
    for version, offset in zip(case["versions"], case["offsets"], strict=True):
        assert fetch.head_offsets(version).max_wait_ms == offset
        if version < 4:  # older than kio's schemas
            continue
        schema = load_request_schema(ApiKey.FETCH, version)
        request = schema(
            **({"replica_id": -1} if version < 15 else {}),
            **({"forgotten_topics_data": ()} if version >= 7 else {}),
            max_wait=dt.timedelta(milliseconds=0x01020304),
            min_bytes=1,
            topics=(),
        )
        out = io.BytesIO()
        entity_writer(schema)(out, request)
        body = out.getvalue()
        assert body[offset : offset + 4] == bytes([1, 2, 3, 4])
        head = fetch.read_head(body, 0, len(body), version)
        assert head is not None
        assert head.max_wait_ms == 0x01020304


def test_sluices_own_empty_fetch_reply_ends_the_session() -> None:
    """It has error 0, session id 0, no partitions and the throttle, in every version that a client may use."""
    case = cases("fetch_session")["sess-throttled-full"]
    for version in range(4, OFFERED[ApiKey.FETCH][1] + 1):
        api = find(ApiKey.FETCH, version)
        assert api is not None
        body = fetch.empty_reply(api, 100)
        reply, size = entity_reader(load_response_schema(ApiKey.FETCH, version))(body, 0)
        assert size == len(body)
        assert reply.throttle_time == dt.timedelta(milliseconds=100)
        assert len(reply.responses) == case["partitions"]
        if version >= 7:
            assert (reply.error_code, reply.session_id) == (case["error"], case["session_id"])
