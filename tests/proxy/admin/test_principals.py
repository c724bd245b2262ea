"""The principals of a state: the binding limit of each, its bucket's use, and those that share a bucket."""

import json
from itertools import count

import trio

from policies.chain import Chain, Entry
from policies.quota.entity import PRODUCER_BYTE_RATE, REQUEST_RATE
from proxy.admin.live_quotas import BindingLimit
from proxy.admin.live_state import LiveState
from proxy.admin.principals import SLICE, grouped, principals
from proxy.admin.schemas import PrincipalRow, Quantiles
from proxy.core.stats.usage import UsageRow
from tests.support.core.task_steps import task_steps
from tests.support.messages import frames as f
from tests.support.processes.admin_room import quota_entry, roomy

NOTHING = Quantiles(None, None)


def row(name: str, bucket: int | None) -> PrincipalRow:
    return PrincipalRow(name, name, 1, 0.0, 0.0, 0.0, NOTHING, 0, bucket, 0, NOTHING, 0, 0)


def step(room, times: int = 20) -> None:
    for _ in range(times):
        room.event_loop.step(0.005)


async def state_of(room):
    room.engine.advance(room.engine.usage.ends_ms)
    step(room)
    return json.loads(await LiveState(room.service, room.loop_lag).state())


def test_principals_of_one_bucket_are_listed_together():
    """They stand at the place of the first of them; their own order and that of the others is kept."""
    rows = [row("a", None), row("b", 1), row("c", 0), row("d", None), row("e", 1), row("f", 0)]
    assert [each.user for each in grouped(rows)] == ["a", "b", "e", "c", "f", "d"]


async def test_a_client_that_its_byte_rate_limits_is_shown_full_by_bytes():
    """Its request rate is far below the limit."""
    quotas = [{"client_id": "tests", "request_rate": 1000, "producer_byte_rate": 1000}]
    with roomy(policies=(quota_entry(quotas=quotas),)) as room:
        client, _, _ = room.link(1)
        for ident in range(1, 4):
            client.sendall(f.produce(ident, size_bytes=20_000))
            step(room, 5)
        state = await state_of(room)
    (principal,) = state["principals"]
    bucket = state["buckets"][principal["bucket"]]
    assert (bucket["quota"], bucket["limit"]) == (PRODUCER_BYTE_RATE, 1000.0)
    assert bucket["used_percent"] == 100.0
    assert bucket["wait_ms"] > 1000


async def test_clients_that_share_a_bucket_show_the_buckets_use():
    """Seven client ids of one user share one bucket, which is full for all of them."""
    quotas = [{"user": "<default>", "request_rate": 5}]
    with roomy(policies=(quota_entry(quotas=quotas),)) as room:
        for n in range(7):
            client, _, _ = room.link(1)
            client.sendall(b"".join(f.heartbeat(ident, f"c{n}") for ident in range(1, 5)))
            step(room, 5)
        state = await state_of(room)
    (bucket,) = state["buckets"]
    assert {each["bucket"] for each in state["principals"]} == {0}
    assert (bucket["entity"], bucket["principals"]) == ("user=ANONYMOUS", 7)
    assert bucket["used_percent"] == 100.0
    assert bucket["waiting"] >= 1


async def test_a_limited_client_never_shows_more_than_100_percent():
    """The requests that wait are reported separately."""
    quotas = [{"client_id": "tests", "request_rate": 2}]
    with roomy(policies=(quota_entry(quotas=quotas),)) as room:
        for _ in range(3):
            client, _, _ = room.link(1)
            client.sendall(b"".join(f.heartbeat(ident) for ident in range(1, 500)))
            step(room, 3)
        state = await state_of(room)
    (bucket,) = state["buckets"]
    assert bucket["used_percent"] == 100.0
    assert bucket["waiting"] >= 1
    assert 0 < bucket["rate"] < 20


async def test_a_limit_without_a_bucket_is_compared_with_the_rate_of_requests(monkeypatch):
    """The policy reports a limit only."""
    with roomy() as room:
        now_ms = room.engine.now_ms
        counts = (1, 1, 0, 50, 46, 0, 90, 1, 0, 0, 0, 0, 0)
        rows = [UsageRow(now_ms - 1000, "alice", name, *counts) for name in ("a", "b")]
        room.principals.on_second(now_ms - 1000, rows)
        monkeypatch.setattr(
            room.service.live_quotas,
            "binding_limit",
            lambda *_: BindingLimit("every user", REQUEST_RATE, 4.0),
        )
        shown, (bucket,) = await principals(room.service, {}, now_ms, lambda *_: None)
    assert [(each.bucket, each.bytes_in_per_s, each.bytes_out_per_s) for each in shown] == [
        (0, 50.0, 90.0),
        (0, 50.0, 90.0),
    ]
    assert (bucket.rate, bucket.used_percent, bucket.principals) == (2.0, 50.0, 2)


async def test_an_exempt_principal_has_no_limit():
    """Other principals of the same default have one."""
    quotas = [{"user": "<default>", "request_rate": 5}]
    entry = quota_entry(quotas=quotas, cluster_principals=["mirror"])
    with roomy(policies=(entry,)) as room:
        now_ms = room.engine.now_ms
        assert room.service.live_quotas.binding_limit("mirror", "m", now_ms) is None
        assert room.service.live_quotas.binding_limit("alice", "m", now_ms) is not None


async def test_only_an_enforcing_policy_has_a_binding_limit():
    """In mode `observe` there is none; a new chain is used from the next call on."""
    quotas = [{"user": "<default>", "request_rate": 5}]
    with roomy(policies=(quota_entry(quotas=quotas),)) as room:
        now_ms = room.engine.now_ms
        (enforced,) = room.engine.chain.entries
        found = room.service.live_quotas.binding_limit("alice", "a", now_ms)
        assert found is not None
        assert found.limit == 5.0
        observed = Entry(enforced.name, enforced.policy, "observe")
        room.engine.adopt_chain(Chain([observed], room.watcher))
        assert room.service.live_quotas.binding_limit("alice", "a", now_ms) is None
        room.engine.adopt_chain(Chain([enforced], room.watcher))
        assert room.service.live_quotas.binding_limit("alice", "a", now_ms) == found


async def test_other_tasks_run_between_slices_of_rows():
    """The number of steps grows with the clients; a client may leave between two slices."""
    with roomy() as room:
        for n in range(4 * SLICE):
            room.engine.usage.join("alice", f"c{n}", room.engine.now_ms)

        async def leave() -> None:
            for n in count(SLICE):
                room.engine.usage.keys.pop(("alice", f"c{n}"), None)
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            with task_steps() as steps:
                rows, buckets = await principals(
                    room.service, {}, room.engine.now_ms, lambda *_: None
                )
            nursery.cancel_scope.cancel()
    assert (len(rows), buckets) == (4 * SLICE, [])
    assert steps.count >= 4
