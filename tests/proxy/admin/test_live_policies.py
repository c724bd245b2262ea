"""Live changes of policies, by the name of their entry: over the API, and what a faulty policy costs."""

import json

import pytest
import structlog

from policies.api import Policy, PolicyConfigError
from policies.chain import Chain, Entry
from policies.testing import BenchHost
from proxy.config.model import PolicyEntry
from tests.support.processes.admin_room import everything, quota_entry, roomy
from tests.support.processes.asgi import ask

MAINTENANCE = PolicyEntry(use="maintenance", name="pauses")


class Switch(Policy):
    """Shows and takes what a test says."""

    Config = dict

    def __init__(self, shown: object, fault: Exception | None = None) -> None:
        super().__init__({}, BenchHost())
        self.shown = shown
        self.fault = fault

    def live_state(self) -> object:
        return self.shown

    def change_live(self, change: dict[str, object], now_ms: int) -> None:
        if self.fault is not None:
            raise self.fault
        self.shown = {"changed": change, "now_ms": now_ms}


@pytest.fixture
def room():
    with (
        roomy(policies=(MAINTENANCE, quota_entry())) as made,
        structlog.testing.capture_logs(),
    ):
        yield made


@pytest.fixture
def app(room):
    return everything(room)


def change(app, name: str, body: object):
    return ask(app, f"/v1/policies/{name}", "PUT", json.dumps(body).encode())


def chained(room, policy: Policy) -> None:
    room.engine.chain = Chain([Entry("switch", policy)], room.watcher)


async def test_an_operator_pauses_writes_and_sees_the_pauses(app):
    """A further change replaces the live pauses."""
    pause = {"topic": "orders", "user": None}
    answer = await change(app, "pauses", {"pauses": [{"topic": "orders"}]})
    assert answer.status == 200
    assert answer.said == {
        "name": "pauses",
        "state": {"pauses": [pause], "settings": [], "file": []},
    }
    assert (await ask(app, "/v1/policies/pauses")).said == answer.said
    assert (await change(app, "pauses", {})).said["state"]["pauses"] == []


@pytest.mark.parametrize(
    ("name", "body", "status", "words"),
    [
        ("pauses", {"pauses": [{"topic": "a*b"}]}, 400, "pauses[0].topic: "),
        ("pauses", {"paused": []}, 400, "paused: found an unknown key"),
        ("pauses", [], 400, "the body: "),
        ("pause", {}, 404, "did you mean pauses?"),
        ("quota", {}, 409, "policy quota takes no live changes"),
    ],
)
async def test_a_refused_change_names_the_mistake(app, name, body, status, words):
    """And changes nothing."""
    answer = await change(app, name, body)
    assert (answer.status, words in answer.said["error"]) == (status, True), answer.said


@pytest.mark.parametrize(
    "shown", [["a list"], object(), {"long": "x" * 300_000}], ids=["list", "no JSON", "long"]
)
async def test_a_policy_that_shows_nonsense_is_blamed_and_serving_continues(room, app, shown):
    """The answer is 500, and the log names the policy and the method."""
    chained(room, Switch(shown))
    answer = await ask(app, "/v1/policies/switch")
    assert (answer.status, answer.said["error"]) == (
        500,
        "policy switch failed in live_state; the log has more",
    )
    assert room.watcher.policy_errors == [("switch", "live_state")]


async def test_a_policy_gets_the_change_and_the_time_and_is_blamed_if_it_raises(room, app):
    """In ms since the epoch. A PolicyConfigError is the operator's mistake, any other exception the policy's."""
    chained(room, Switch({}))
    before_ms = room.service.now_ms()
    state = (await change(app, "switch", {"on": True})).said["state"]
    assert state["changed"] == {"on": True}
    assert before_ms <= state["now_ms"] <= room.service.now_ms()

    chained(room, Switch({}, ZeroDivisionError()))
    assert (await change(app, "switch", {})).status == 500
    assert room.watcher.policy_errors == [("switch", "change_live")]
    chained(room, Switch({}, PolicyConfigError("rate", "found -1, expected 0 or more")))
    answer = await change(app, "switch", {})
    assert (answer.status, answer.said["error"]) == (400, "rate: found -1, expected 0 or more")
