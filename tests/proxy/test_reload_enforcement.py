"""Reloads that change a quota's enforcement or limits: every held request is judged again and forwarded once."""

import struct

import pytest
import structlog

from proxy.core.session.held_moves import MOVED_AT_ONCE
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.processes.admin_room import AdminRoom, config_of, quota_entry, roomy

TEN = {"client_id": "tests", "request_rate": 10}
ENTITY = {"quotas": [TEN], "burst_seconds": 1}
CHANNEL = {"quotas": [TEN], "enforcement": "channel"}
BYTES = [{**TEN, "consumer_byte_rate": 1_000_000}]
ENTITY_BYTES, CHANNEL_BYTES = {**ENTITY, "quotas": BYTES}, {**CHANNEL, "quotas": BYTES}
BURST = 11


@pytest.fixture(autouse=True)
def quiet_log():
    with structlog.testing.capture_logs():
        yield


def fetch(correlation_id: int) -> bytes:
    """Fetch v4 of one partition, without a wait."""
    asked = struct.pack(">i", 1) + f.string("t") + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    body = struct.pack(">iiii", -1, 0, 1, 1 << 20) + b"\x00" + asked
    return f.request(f.FETCH, 4, correlation_id, body)


def held(room: AdminRoom, count: int, request: bytes | None = None) -> list[Wire]:
    """Return clients whose request waits for the quota, after others have spent the burst."""
    while Wire(room.engine).client(f.heartbeat(1)).session.held is None:
        pass
    wires = [Wire(room.engine).client(request or f.heartbeat(1)) for _ in range(count)]
    assert all(wire.session.held is not None for wire in wires)
    return wires


async def reload(room: AdminRoom, config: dict[str, object], number: int = 0) -> None:
    """Reload with this quota; `number` makes two equal ones differ."""
    room.settings = config_of(policies=(quota_entry(**config, max_default_buckets=9000 + number),))
    assert (await room.reloader.reload()).ok
    room.engine.advance(room.engine.now_ms + 1)


def await_served(room: AdminRoom, wires: list[Wire]) -> None:
    """Advance until each request was forwarded, once, within the time that the quota asks for."""
    for _ in range((len(wires) + 2 * BURST) * 100):
        room.engine.advance(room.engine.now_ms + 1)
    for wire in wires:
        wire.advance(0)
    assert sum(wire.session.held is not None for wire in wires) == 0
    assert all(len(f.split(wire.to_broker)) == 1 for wire in wires)


@pytest.mark.parametrize("way", [[CHANNEL], [CHANNEL, ENTITY], [CHANNEL, ENTITY] * 2, [ENTITY] * 2])
async def test_many_held_requests_are_forwarded_under_any_sequence_of_rules(way):
    """This holds too when the next reload comes before all of them were released."""
    with roomy(policies=(quota_entry(**ENTITY),)) as room:
        wires = held(room, 3 * MOVED_AT_ONCE)
        for number, config in enumerate(way):
            await reload(room, config, number)
        await_served(room, wires)


@pytest.mark.parametrize("way", [[ENTITY], [CHANNEL, ENTITY]])
async def test_requests_are_held_and_released_after_a_client_left_before_a_reload(way):
    """The alarm that was set for that client belongs to the old rule."""
    with roomy(policies=(quota_entry(**ENTITY),)) as room:
        (gone,) = held(room, 1)
        gone.hang_up()
        gone.release()
        for number, config in enumerate(way):
            await reload(room, config, number)
        for _ in range(3000):
            room.engine.advance(room.engine.now_ms + 1)
        await_served(room, held(room, 5))


@pytest.mark.parametrize("after", [ENTITY_BYTES, CHANNEL_BYTES])
async def test_a_held_fetch_is_forwarded_when_the_new_quota_needs_more_of_it(after):
    """It stays with the rule that held it; later clients are served too."""
    with roomy(policies=(quota_entry(**ENTITY),)) as room:
        wires = held(room, 5, fetch(1))
        await reload(room, after)
        later = [Wire(room.engine).client(f.heartbeat(1)) for _ in range(3)]
        await_served(room, [*wires, *later])


async def test_fetches_in_flight_at_a_change_of_enforcement_are_counted_out():
    """A client that leaves under enforcement `channel` returns its part of the entity's burst."""
    with roomy(policies=(quota_entry(**ENTITY_BYTES),)) as room:
        wires = [Wire(room.engine).client(fetch(1)) for _ in range(5)]
        await reload(room, CHANNEL_BYTES)
        for wire in wires:
            wire.session.client_lost(room.engine.now_ms)
            wire.release()
        await reload(room, ENTITY_BYTES)
        bucket = room.engine.chain.entries[0].policy.manager.find(
            "consumer_byte_rate", ("", "tests")
        )
        assert bucket.fetches_in_flight == 0
