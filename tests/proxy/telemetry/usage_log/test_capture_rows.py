"""The family `capture`: a row for each request that has ended."""

from __future__ import annotations

import msgspec

from policies.api import Hold, Throttle
from proxy.core.capture import Capture
from proxy.telemetry.usage_log.capture_rows import capture_rows
from proxy.telemetry.usage_log.rows import Stamp
from tests.support import frames as f
from tests.support.policies import Recorder
from tests.support.sessions import Wire, make_engine


def test_a_row_has_all_that_a_replay_needs() -> None:
    """Who, what, when it was asked, what was said, and how it ended."""
    capture = Capture()
    verdicts = [Hold(1000, "key"), Throttle(70)]
    policy = Recorder(lambda _: verdicts.pop(0), hear=lambda _: Throttle(9))
    wire = Wire(make_engine([policy], capture=capture, now_ms=5250, fixed_user="alice"), node_id=2)
    wire.client(f.produce(1, client_id="app"))
    wire.advance(15)
    wire.wake("key")
    wire.advance(5)
    wire.broker(f.produce_reply(1, throttle_time_ms=4))

    (row,) = map(msgspec.to_builtins, capture_rows(Stamp("pod-7", "b"), capture.take()))

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
