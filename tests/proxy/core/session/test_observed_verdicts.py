"""Mode observe on a real session: every verdict is reported, and the bytes pass as without the policy."""

from policies.api import (
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Patch,
    Reject,
    Respond,
    Throttle,
    Verdict,
)
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.every_case import for_each
from wire.errors import ErrorCode

REFUSAL = Reject(ErrorCode.POLICY_VIOLATION)


WITHOUT_BODY = [
    REFUSAL,
    Reject(ErrorCode.POLICY_VIOLATION, close=True),
    Respond(b"here"),
    Respond(b"here", refuses=REFUSAL),
    Throttle(500),
    Throttle(500, REFUSAL),
    Hold(500, "key"),
    Hold(500, "key", then=REFUSAL),
]
CHANGES = [Forward(body=b"other"), Forward(patches=(Patch(0, b"\0"),))]


@for_each(
    [
        *((verdict, Need.HEADER) for verdict in WITHOUT_BODY),
        *((verdict, Need.BODY) for verdict in (*WITHOUT_BODY, *CHANGES)),
    ]
)
def test_a_verdict_is_reported_and_nothing_else(verdict: Verdict, need: Need) -> None:
    """The request reaches the broker at once, its reply the client, and it completes as replied."""
    policy = Recorder(lambda _: verdict, needs=need)
    wire = Wire(make_engine([policy], mode="observe"))
    wire.client(f.heartbeat(7)).broker(f.heartbeat_reply(7))

    assert wire.watcher.observed == ["p0"]
    assert wire.to_broker == f.heartbeat(7)
    assert wire.to_client == f.heartbeat_reply(7)
    assert policy.completed == [(1, Outcome.REPLIED)]
    assert wire.watcher.refused == []
    assert not wire.session.client.muted


def test_a_throttled_reply_is_reported_and_passes() -> None:
    """The client is told nothing and is not muted."""
    policy = Recorder(lambda _: FORWARD, hear=lambda _: Throttle(500))
    wire = Wire(make_engine([policy], mode="observe"))
    wire.client(f.beat(7)).broker(f.beat_reply(7))
    assert wire.watcher.observed == ["p0"]
    assert wire.to_client == f.beat_reply(7)
    assert not wire.session.client.muted
