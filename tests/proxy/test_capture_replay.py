"""A capture can be replayed exactly: the policy gives every delay again."""

from collections.abc import Callable, Hashable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.whatif.capture import recorded, replay
from policies.quota.policy import Quota
from policies.testing import BenchHost
from proxy.core.stats.capture import Capture
from tests.support.core.sessions import Wire
from tests.support.messages import frames as f
from tests.support.telemetry.usage_log import Recording

LIMITS = {"user": "ANONYMOUS", "request_rate": 20.0}
BYTES = {**LIMITS, "producer_byte_rate": 20_000.0}


class EngineHost(BenchHost):
    """A policy's host that works before the engine exists, and then wakes and sets alarms in it."""

    recording: Recording | None = None

    def wake(self, key: Hashable) -> int:
        assert self.recording is not None
        return self.recording.engine.wake(key)

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        assert self.recording is not None
        self.recording.engine.timers.arm(at_ms, call)


def capturing(folder: Path, config: dict[str, object]) -> tuple[Recording, list[Wire]]:
    """Return a recording of a capture under this quota, and four connections."""
    host = EngineHost()
    policy = Quota(msgspec.convert(config, Quota.Config), host)
    host.recording = Recording(folder, ("capture",), [policy], capture=Capture())
    return host.recording, [Wire(host.recording.engine) for _ in range(4)]


steps = st.lists(
    st.tuples(
        st.integers(0, 3),  # the connection
        st.integers(1, 6),  # the number of requests at once
        st.sampled_from(["heartbeat", "produce", "produce0"]),
        st.booleans(),  # whether the broker answers first
        st.integers(0, 400),  # ms until the next step
    ),
    min_size=5,
    max_size=60,
)


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
@pytest.mark.parametrize("limits", [LIMITS, BYTES], ids=["requests", "bytes"])
@settings(max_examples=20, deadline=None)
@given(played=steps)
def test_a_replay_gives_every_recorded_delay_again(
    tmp_path_factory: pytest.TempPathFactory, enforcement: str, limits: dict, played: list
) -> None:
    """Four connections share a quota, in any order and rhythm: the replayed rows give the recorded verdicts."""
    config = {"enforcement": enforcement, "quotas": [limits]}
    recording, wires = capturing(tmp_path_factory.mktemp("capture"), config)
    number = 0
    for place, count, kind, answer_first, pause_ms in played:
        wire = wires[place]
        if answer_first:
            answer(wire)
        for _ in range(count):
            number += 1
            if kind == "heartbeat":
                wire.client(f.beat(number))
            else:
                wire.client(f.produce(number, acks=0 if kind == "produce0" else -1, size_bytes=900))
        wire.advance(pause_ms)
    for _ in range(100):
        for wire in wires:
            answer(wire)
        wires[0].advance(1000)
    for wire in wires:
        answer(wire)
        wire.release()
    recording.stop()

    rows = recording.rows("capture")
    assert sorted(row["seq"] for row in rows) == list(range(1, number + 1))
    assert replay(rows, msgspec.convert(config, Quota.Config)) == recorded(rows)


def answer(wire: Wire) -> None:
    """Let the broker answer every request that it has."""
    for frame in f.split(wire.to_broker):
        number = int.from_bytes(frame[8:12], "big")
        if frame[5] == f.HEARTBEAT:
            wire.broker(f.beat_reply(number))
        elif not f.is_silent(frame):
            wire.broker(f.produce_reply(number))
    wire.to_broker = b""


def test_the_captures_of_these_tests_have_delays(tmp_path) -> None:
    """Under that quota requests are held and throttled, so the test above compares delays."""
    config = {"enforcement": "entity", "quotas": [LIMITS]}
    recording, wires = capturing(tmp_path, config)
    for number in range(1, 200):
        wires[number % 4].client(f.beat(number))
        wires[0].advance(10)
    for _ in range(50):
        for wire in wires:
            answer(wire)
        wires[0].advance(1000)
    recording.stop()

    rows = recording.rows("capture")
    assert any(row["released_ms"] for row in rows)
    assert any(row["delay_ms"] for row in rows)
    assert replay(rows, msgspec.convert(config, Quota.Config)) == recorded(rows)
