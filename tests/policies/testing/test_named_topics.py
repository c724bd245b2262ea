"""A bench's request tells a policy with Need.TOPICS what it names, as the core does."""

from policies.api import FORWARD, Need
from policies.denial import Deny
from policies.testing import PolicyBench
from tests.support.plugins.topic_guard import TopicGuard
from wire.errors import ErrorCode
from wire.topic_refs import TopicRef


def test_a_guard_is_tested_by_names_and_by_ids() -> None:
    """Produce v13 and Fetch carry ids; the bench tells the host their names."""
    bench = PolicyBench(TopicGuard, {"denied": ["secret"]})
    refused = Deny({"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED})
    for api in ("Produce", "Fetch"):
        assert bench.ask(bench.request(api, topics=["orders"])) is FORWARD
        assert bench.ask(bench.request(api, topics=["orders", "secret"])) == refused
    request = bench.request("Produce", topics={"orders": [3, 4]})
    assert request.topics == (TopicRef("orders", bench.topic_id("orders"), (3, 4)),)


def test_an_id_is_unknown_until_it_is_told() -> None:
    """A guard must refuse it: it may be the id of a denied topic."""
    bench = PolicyBench(TopicGuard, {"denied": ["secret"]})
    bench.request("Produce", topics=["secret"])
    bench.host.topics.clear()
    body = bench.request("Produce", topics=["secret"]).sent_body
    bench.host.topics.clear()
    assert bench.policy.needs is Need.TOPICS
    unknown = Deny({bench.topic_id("secret"): ErrorCode.UNKNOWN_TOPIC_ID})
    bench.host.topics.clear()
    assert bench.ask(bench.request("Produce", body=body)) == unknown
