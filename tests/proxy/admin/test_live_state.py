"""The state of a proxy for the dashboard and the API, and how often it is collected."""

import json

import msgspec
import pytest

from proxy.admin import live_state
from proxy.admin.live_state import KEPT_MS, LiveState, memory_limit_bytes
from proxy.admin.schemas import Event, State
from proxy.config import budget, container
from proxy.config.container import MemoryLimit
from tests.support.messages import frames as f
from tests.support.processes.admin_room import quota_entry, roomy


@pytest.fixture
def room():
    with roomy(policies=(quota_entry(quotas=[{"client_id": "tests", "request_rate": 1}]),)) as made:
        yield made


def live(room) -> LiveState:
    return LiveState(room.service, room.loop_lag, "http://traces/{trace_id}")


def step(room, times: int = 20) -> None:
    for _ in range(times):
        room.event_loop.step(0.005)


async def test_a_state_has_the_shape_of_its_schema(room):
    """A state has the history and no point; an event has the point and no history."""
    watching = live(room)
    state = json.loads(await watching.state())
    assert msgspec.convert(state, State)
    event = json.loads(await watching.event())
    assert msgspec.convert(event, Event)
    assert state.keys() ^ event.keys() == {"history", "point"}
    assert state["now"]["trace_url"] == "http://traces/{trace_id}"
    assert state["now"]["config_hash"] == room.reloader.config_hash
    assert state["now"]["last_reload"] is None


async def test_a_throttled_client_is_shown_in_each_part_of_a_state(room):
    """It appears as a principal with its limit, a muted connection, and a decision with its reason."""
    client, _, session = room.link(1)
    for ident in range(1, 6):
        client.sendall(f.heartbeat(ident))
        step(room, 3)
    room.engine.advance(room.engine.usage.ends_ms)
    step(room)
    state = json.loads(await live(room).state())
    (principal,) = state["principals"]
    assert (principal["client_id"], principal["connections"]) == ("tests", 1)
    (bucket,) = state["buckets"]
    assert principal["bucket"] == 0
    assert (bucket["entity"], bucket["quota"], bucket["limit"]) == (
        "client-id=tests",
        "request_rate",
        1.0,
    )
    assert bucket["used_percent"] == 100.0
    assert bucket["wait_ms"] > 0
    assert principal["throttled_now"] == 1
    (connection,) = state["connections"]
    assert connection["id"] == session.peer.session_id
    assert set(connection["muted"]) & {"THROTTLED", "HELD"}
    assert state["connections_total"] == state["now"]["connections"] == 1
    assert sum(state["now"]["muted"].values()) >= 1
    assert [node["node"] for node in state["nodes"]] == [None, 1]
    assert sum(point["requests_per_s"] for point in state["history"]) >= 1


async def test_a_connected_client_without_requests_is_listed_too(room):
    """It is listed after the clients that sent requests."""
    room.link()
    (principal,) = json.loads(await live(room).state())["principals"]
    assert (principal["user"], principal["requests_per_s"]) == ("ANONYMOUS", 0.0)
    assert principal["throttle_ms"] == {"p50": None, "p99": None}


async def test_viewers_of_one_second_share_one_snapshot(room, monkeypatch):
    """Connections are visited once a second for any number of viewers."""
    taken = []
    take_snapshot = live_state.take_snapshot

    async def counted(*args):
        taken.append(1)
        return await take_snapshot(*args)

    monkeypatch.setattr(live_state, "take_snapshot", counted)
    watching = live(room)
    now_ms = [room.clock()]
    monkeypatch.setattr(room.service, "now_ms", lambda: now_ms[0])
    events = [await watching.event() for _ in range(50)]
    await watching.state()
    assert len(taken) == 1
    assert all(event is events[0] for event in events)
    now_ms[0] += KEPT_MS
    assert await watching.event() is not events[0]
    assert len(taken) == 2


async def test_the_list_of_connections_is_made_for_each_request(room):
    """An operator closes connections from this list, so it must not be a second old."""
    watching = live(room)
    room.link()
    assert (await watching.connections(10)).total == 1
    room.link()
    found = await watching.connections(1)
    assert (found.total, len(found.connections)) == (2, 1)


def test_a_pool_is_shown_with_the_share_of_time_that_it_was_depleted(room, monkeypatch):
    """The share is of the time since the oldest snapshot that is kept."""
    pool = room.engine.request_pool
    pool.resize(100)
    watching = live(room)
    now_ms = [room.engine.now_ms]
    monkeypatch.setattr(room.service, "now_ms", lambda: now_ms[0])
    spent_ms = [0]
    monkeypatch.setattr(type(pool), "depleted_ms", lambda *_: spent_ms[0])
    request, reply = watching.pools()
    assert (request.size_bytes, request.available_bytes, request.depleted_percent) == (100, 100, 0)
    assert reply.size_bytes is None
    now_ms[0], spent_ms[0] = now_ms[0] + 1000, 250
    request, _ = watching.pools()
    assert (request.depleted_percent, request.depleted_ms) == (25.0, 250)


@pytest.mark.parametrize("limit_bytes", [268435456, None])
def test_the_dashboard_shows_the_limit_that_the_memory_budget_is_made_for(monkeypatch, limit_bytes):
    """Both use the smallest limit on the way to the root cgroup."""
    found = None if limit_bytes is None else MemoryLimit(limit_bytes, "here")
    monkeypatch.setattr(live_state, "memory_limit", lambda: found)
    memory_limit_bytes.cache_clear()
    assert memory_limit_bytes() == limit_bytes
    memory_limit_bytes.cache_clear()
    assert budget.memory_limit is container.memory_limit


async def test_a_broker_that_owes_replies_and_sends_nothing_is_shown_silent(room, monkeypatch):
    """A silent broker is shown with the time of silence, another one with the time since its last reply."""
    now_ms = room.engine.now_ms
    monkeypatch.setattr(room.service, "now_ms", lambda: now_ms)
    nodes = room.engine.topology.nodes
    silent, heard = nodes.health(1), nodes.health("10.0.0.1:9092")
    silent.on_answered_here(now_ms - 4000)
    heard.heard_ms = now_ms - 70
    room.link(1)
    watching = live(room)
    bootstrap, node = json.loads(await watching.state())["nodes"]
    assert (bootstrap["silent_ms"], bootstrap["heard_ago_ms"]) == (0, 70)
    assert (node["silent_ms"], node["heard_ago_ms"]) == (4000, None)
    del heard  # its last connection is gone
    now_ms += KEPT_MS
    assert json.loads(await watching.state())["nodes"][0]["heard_ago_ms"] == 70 + KEPT_MS
