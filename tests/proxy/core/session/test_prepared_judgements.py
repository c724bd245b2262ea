"""A policy may prepare its judgement of a large request in steps; a small one is judged at once."""

from collections.abc import Iterator
from typing import Literal

import pytest

from policies.api import Need, Peer, Request, Verdict
from proxy.core.session.naming_exchange import MAX_NAMES
from tests.proxy.core.session.test_large_requests import METADATA, request
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages.large_requests import names_of
from tests.support.messages.throttled import versions
from wire.apis import ApiKey

STEPS = 7


class Preparing(Recorder):
    """Takes STEPS steps before it judges, and raises at step `fails_at`."""

    def __init__(self, fails_at: int = -1) -> None:
        super().__init__(needs=Need.TOPICS, apis=[ApiKey.METADATA])
        self.steps: list[int] = []
        self.fails_at = fails_at

    def prepare(self, request: Request, peer: Peer) -> Iterator[None]:
        for number in range(STEPS):
            if number == self.fails_at:
                raise ValueError("a bug")
            assert len(request.topics) > MAX_NAMES
            self.steps.append(number)
            yield

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        self.steps.append(-1)
        return super().on_request(request, peer, now_ms)


def test_a_large_request_is_prepared_in_steps_before_it_is_judged() -> None:
    """Between two of them other clients have their turns."""
    policy = Preparing()
    engine = make_engine([policy])
    wire, other = Wire(engine), Wire(engine)
    large = request(METADATA, names_of(MAX_NAMES + 1))
    wire.take_turn(large)
    while not policy.steps:
        wire.take_turn()
    assert wire.session.paced
    assert wire.to_broker == b""
    other.client(versions(1, 1))
    assert other.to_broker == versions(1, 1)
    wire.client(b"")
    assert policy.steps == [*range(STEPS), -1]
    assert wire.to_broker == large


def test_a_small_request_is_judged_at_once() -> None:
    """Nothing is prepared."""
    policy = Preparing()
    wire = Wire(make_engine([policy]))
    wire.client(request(METADATA, names_of(MAX_NAMES)))
    assert policy.steps == [-1]
    assert wire.to_broker


def test_a_client_that_leaves_between_two_steps_is_not_judged() -> None:
    """And nothing of its request stays."""
    policy = Preparing()
    wire = Wire(make_engine([policy]))
    wire.take_turn(request(METADATA, names_of(MAX_NAMES + 1)))
    while not policy.steps:
        wire.take_turn()
    wire.release()
    assert -1 not in policy.steps
    assert wire.held_bytes == 0


@pytest.mark.parametrize("at", [0, STEPS - 1])
@pytest.mark.parametrize("on_error", ["close", "forward"])
def test_a_fault_while_it_is_prepared_is_the_policys(
    at: int, on_error: Literal["close", "forward"]
) -> None:
    """The connection closes, or the policy judges without what it has not prepared."""
    policy = Preparing(fails_at=at)
    wire = Wire(make_engine([policy], on_error=on_error))
    large = request(METADATA, names_of(MAX_NAMES + 1))
    wire.client(large)
    if on_error == "close":
        assert wire.session.ended
        assert wire.to_broker == b""
        assert policy.asked == []
    else:
        assert wire.to_broker == large
        assert len(policy.asked) == 1
