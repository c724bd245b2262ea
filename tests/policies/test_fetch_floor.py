"""`fetch_floor`: whose fetches are raised, how far, and their effect in the core."""

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.api import FORWARD, Forward, Need, Patch
from policies.fetch_floor import FetchFloor, FetchFloorConfig, FloorRule
from policies.testing import BenchHost, PolicyBench
from policies.validation import try_convert
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.apis import OFFERED, ApiKey
from wire.fetch import FetchHead, head_offsets, read_head

FLOOR = {"client_id": "bench", "min_bytes": 1000, "max_wait_ms": 2000}
INT32 = struct.Struct(">i").pack
RECORDS = b"as many as there are"


def ask(head, version=11, rules=(FLOOR,), **peer):
    bench = PolicyBench(FetchFloor, {"consumers": list(rules)})
    request = bench.request("Fetch", version)
    request.head = head
    return bench.ask(request, replace(bench.peer, **peer))


def patched(*fields, version=11):
    offsets = head_offsets(version)
    return Forward(tuple(Patch(getattr(offsets, name), INT32(value)) for name, value in fields))


@pytest.mark.parametrize("version", [0, 3, 11, 15])
def test_values_below_the_floor_are_raised_to_it(version):
    """Wait and size are raised separately, at their place in that version."""
    both = patched(("max_wait_ms", 2000), ("min_bytes", 1000), version=version)
    assert ask(FetchHead(500, 1), version) == both
    assert ask(FetchHead(0, 0), version) == both
    assert ask(FetchHead(500, 1000), version) == patched(("max_wait_ms", 2000), version=version)
    assert ask(FetchHead(2000, 1), version) == patched(("min_bytes", 1000), version=version)


def test_values_at_the_floor_or_above_stay():
    """No value is lowered or raised beyond max_bytes; a consumer that is about to leave waits for its answer."""
    assert ask(FetchHead(2000, 1000)) is FORWARD
    assert ask(FetchHead(30_000, 1 << 20)) is FORWARD

    assert ask(FetchHead(2000, 1, max_bytes=600)) == patched(("min_bytes", 600))
    assert ask(FetchHead(2000, 700, max_bytes=600)) is FORWARD

    assert ask(FetchHead(500, 1, session_id=7, session_epoch=-1)) is FORWARD
    assert ask(FetchHead(500, 1, session_id=0, session_epoch=-1)) is not FORWARD


def test_the_first_rule_that_fits_counts():
    """A rule fits by user, by client id, or by both."""
    rules = [
        {"user": "ann", "client_id": "bench", "max_wait_ms": 3000},
        {"user": "ann", "max_wait_ms": 4000},
        {"client_id": "bench", "min_bytes": 5000},
    ]
    head = FetchHead(500, 1)
    assert ask(head, rules=rules, user="ann") == patched(("max_wait_ms", 3000))
    assert ask(head, rules=rules, user="ann", client_id="x") == patched(("max_wait_ms", 4000))
    assert ask(head, rules=rules, user="bob") == patched(("min_bytes", 5000))
    assert ask(head, rules=rules, user="bob", client_id="x") is FORWARD


def test_only_fetches_are_seen_and_none_without_rules():
    """All other requests stream as without the policy."""
    hooks = PolicyBench(FetchFloor, {"consumers": [FLOOR]}).chain.hooks
    assert hooks(ApiKey.FETCH).need is Need.HEAD
    assert hooks(ApiKey.FETCH).on_complete is None
    assert hooks(ApiKey.PRODUCE).on_request is None
    assert PolicyBench(FetchFloor).chain.hooks(ApiKey.FETCH).on_request is None


def test_rules_without_an_effect_are_mistakes():
    """Each is named by its path, and so is a wait longer than clients accept."""
    rules = [
        {"min_bytes": 1},
        {"user": "a"},
        {"user": "a", "max_wait_ms": 10_001},
        {"user": "a", "min_bytes": 0},
    ]
    _, problems = try_convert(FetchFloorConfig, {"consumers": rules}, "")
    assert [each.path for each in problems] == [
        "consumers[0]",
        "consumers[1]",
        "consumers[2].max_wait_ms",
        "consumers[3].min_bytes",
    ]


# -- in the core -------------------------------------------------------------------------------


def fetch(correlation_id, max_wait_ms, min_bytes, max_bytes=1 << 20, version=11):
    """Return a Fetch without topics; from v15 on the rest is not read."""
    body = struct.pack(">iiibii", max_wait_ms, min_bytes, max_bytes, 0, 0, -1)
    if version < 15:
        body = INT32(-1) + body
    return f.request(f.FETCH, version, correlation_id, body + b"\x00" * 9, tagged=version >= 12)


def floored(**rule):
    rule = FloorRule(client_id="tests", **rule)
    return Wire(make_engine([FetchFloor(FetchFloorConfig((rule,)), BenchHost())]))


@given(
    version=st.integers(3, OFFERED[ApiKey.FETCH][1]),
    asked=st.tuples(*[st.integers(0, 5000)] * 3),
    floor=st.tuples(*[st.integers(1, 5000)] * 2),
    chunk=st.sampled_from([3, 20, 1 << 18]),
)
def test_the_broker_gets_the_raised_fetch_and_nothing_else_has_changed(
    version, asked, floor, chunk
):
    """In every version, and in any chunks."""
    max_wait_ms, min_bytes, max_bytes = asked
    wire = floored(max_wait_ms=floor[0], min_bytes=floor[1])
    wire.client(fetch(1, max_wait_ms, min_bytes, max_bytes, version), chunk)
    expected = max(max_wait_ms, floor[0]), max(min_bytes, min(floor[1], max_bytes))
    assert wire.to_broker == fetch(1, *expected, max_bytes, version)
    body_at = 14 + len("tests") + (version >= 12)
    head = read_head(wire.to_broker, body_at, len(wire.to_broker), version)
    assert head == FetchHead(*expected, max_bytes)


@pytest.mark.parametrize(("max_wait_ms", "min_bytes"), [(100, 1), (0, 1), (500, 0)])
def test_a_raised_fetch_is_waited_for_as_long_as_the_broker_may_take(max_wait_ms, min_bytes):
    """Sluice's deadline is the raised wait plus the grace."""
    wire = floored(max_wait_ms=5000, min_bytes=1000)
    wire.client(fetch(1, max_wait_ms, min_bytes))
    for _ in range(59):
        wire.advance(100)
    assert wire.to_client == b""
    wire.broker(f.reply(1, RECORDS))
    assert wire.to_client == f.reply(1, RECORDS)


@pytest.mark.parametrize("max_wait_ms", [0, 100])
def test_a_raised_fetch_that_the_broker_forgets_is_answered_here(max_wait_ms):
    """After its own deadline and the grace it is answered empty, so that the client fetches again."""
    wire = floored(max_wait_ms=5000)
    wire.client(fetch(1, max_wait_ms, 1))
    for _ in range(61):
        wire.advance(100)
    assert f.correlation_id(wire.to_client) == 1
    wire.broker(f.reply(1, RECORDS))
    assert len(f.split(wire.to_client)) == 1


def test_the_highest_floor_is_the_largest_int32():
    """min_bytes is an int32: 2,147,483,647 is valid, one more is a mistake."""
    rule = {"user": "reports", "min_bytes": 2_147_483_647}
    settings, problems = try_convert(FetchFloorConfig, {"consumers": [rule]})
    assert not problems
    assert settings.consumers[0].min_bytes == 2_147_483_647
    _, problems = try_convert(
        FetchFloorConfig, {"consumers": [{**rule, "min_bytes": 2_147_483_648}]}
    )
    assert [problem.path for problem in problems] == ["consumers[0].min_bytes"]
