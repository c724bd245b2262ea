"""A policy with Need.BODY reads the message of a request, and sends another one in its place."""

import pytest

from policies import messages
from policies.api import FORWARD, Forward, Hold, Need, Request, Verdict
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages.named_topics import asked, item
from wire.apis import ApiKey


def create(replicas: int) -> bytes:
    """Return a CreateTopics of one topic with so many replicas."""
    topic = item(
        ApiKey.CREATE_TOPICS, 7, "topics", name="orders", num_partitions=1,
        replication_factor=replicas,
    )  # fmt: skip
    return asked(ApiKey.CREATE_TOPICS, 7, topics=(topic,))


def three_replicas(request: Request) -> Forward:
    """Return the verdict that asks for three replicas of each topic."""
    topics = messages.structs(request.message, "topics")
    three = [messages.changed(each, {"replication_factor": 3}) for each in topics]
    return Forward(body=messages.encode(messages.changed(request.message, {"topics": three})))


class Later(Recorder):
    """Tries to read the message when the request has ended."""

    def __init__(self, decide) -> None:
        super().__init__(decide, needs=Need.BODY, apis={ApiKey.CREATE_TOPICS})
        self.later: list[type[Exception]] = []

    def on_complete(self, request, outcome, peer, result, now_ms):
        super().on_complete(request, outcome, peer, result, now_ms)
        try:
            assert request.message
        except LookupError as error:
            self.later.append(type(error))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 18])
def test_a_changed_message_reaches_the_broker(chunk):
    """Whole, with the client's header; it is gone after the verdict."""
    policy = Later(three_replicas)
    wire = Wire(make_engine([policy]))
    wire.client(create(1), chunk)
    assert wire.to_broker == create(3)
    wire.broker(f.reply(1, b"\0" * 6, tagged=True))
    assert policy.later == [LookupError]


def test_a_held_request_is_decoded_again():
    """Nothing of it is kept twice while it waits."""
    seen = []

    def hold_once(request: Request) -> Verdict:
        seen.append(request.message)
        return Hold(1_000, "key") if len(seen) == 1 else FORWARD

    policy = Later(hold_once)
    engine = make_engine([policy])
    wire = Wire(engine)
    wire.client(create(1))
    assert wire.to_broker == b""
    wire.wake("key")
    assert wire.to_broker == create(1)
    assert seen[0] == seen[1]
    assert seen[0] is not seen[1]
