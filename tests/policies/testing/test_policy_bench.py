"""The bench for plug-in authors behaves as the proxy does, and its clock moves only by hand."""

import msgspec
import pytest

from policies.api import (
    FORWARD,
    Forward,
    Hold,
    Need,
    Outcome,
    Peer,
    Policy,
    Reject,
    Throttle,
)
from policies.testing import BenchEntry, BenchHost, PolicyBench
from policies.validation import SettingsError
from wire.apis import OFFERED, ApiKey
from wire.errors import ErrorCode


class DiaryConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One setting."""

    refuse: str = ""


class Diary(Policy):
    """Refuses one client, and records its calls with their times."""

    Config = DiaryConfig
    apis = frozenset({ApiKey.PRODUCE, ApiKey.HEARTBEAT})
    tick_ms = 100

    def __init__(self, config, host):
        super().__init__(config, host)
        self.diary: list[tuple[str, object, int]] = []
        self.ticks: list[int] = []

    def on_request(self, request, peer, now_ms) -> Forward | Reject:
        self.diary.append(("request", request.exchange_id, now_ms))
        if peer.client_id == self.config.refuse:
            return Reject(ErrorCode.POLICY_VIOLATION)
        return FORWARD

    def on_response(self, request, response, peer, now_ms) -> Forward:
        self.diary.append(("response", response.size_bytes, now_ms))
        return FORWARD

    def on_complete(self, request, outcome, peer, result, now_ms) -> None:
        self.diary.append(("complete", outcome, now_ms))

    def on_tick(self, now_ms) -> None:
        self.ticks.append(now_ms)


class Ticks(Diary):
    """The same without a tick."""

    tick_ms = 0


def test_settings_are_checked_as_the_registry_checks_them():
    """The policy's own Config converts them strictly."""
    assert PolicyBench(Diary, {"refuse": "bench"}).policy.config == DiaryConfig("bench")
    with pytest.raises(SettingsError):
        PolicyBench(Diary, {"refuse": 1})
    with pytest.raises(SettingsError):
        PolicyBench(Diary, {"other": 1})


def test_a_request_is_made_by_kafkas_name_with_an_id_of_its_own():
    """At the newest version on offer unless the author names another; a Produce asks for all acks unless told."""
    bench = PolicyBench(Diary)
    asked = bench.request("Fetch")
    assert (asked.api_key, asked.api_version) == (ApiKey.FETCH, OFFERED[ApiKey.FETCH][1])
    assert bench.request("Fetch", 4).api_version == 4
    assert asked.api.name == "Fetch"

    bench = PolicyBench(Diary)
    assert [bench.request("Heartbeat").exchange_id for _ in range(3)] == [1, 2, 3]

    bench = PolicyBench(Diary)
    assert bench.request("Produce").acks == -1
    assert bench.request("Produce", acks=0).acks == 0
    assert bench.request("Fetch").acks is None


@pytest.mark.parametrize(
    ("name", "version", "complaint"),
    [
        ("DeleteTopic", None, "is not the name of a Kafka API"),
        ("Fetch", 99, "Fetch v99"),
        ("LeaderAndIsr", None, "LeaderAndIsr"),
    ],
)
def test_a_request_no_client_could_send_is_an_error_of_the_author(name, version, complaint):
    """A name that does not exist, a version or an API that is not offered."""
    with pytest.raises(ValueError, match=complaint):
        PolicyBench(Diary).request(name, version)


def test_a_request_gets_the_chains_decision_or_is_forwarded_unseen():
    """The peer is the bench's own unless another is given; of an unseen request the policy hears no end."""
    bench = PolicyBench(Diary, {"refuse": "bad"})
    assert bench.ask(bench.request("Heartbeat")) is FORWARD
    bad = Peer(2, "127.0.0.1", 50001, client_id="bad")
    assert bench.ask(bench.request("Heartbeat"), bad) == Reject(ErrorCode.POLICY_VIOLATION)

    bench = PolicyBench(Diary)
    asked = bench.request("Metadata")
    assert bench.ask(asked) is FORWARD
    bench.reply(asked)
    assert bench.policy.diary == []


def test_a_request_is_completed_by_its_reply_or_in_any_other_way():
    """In this order, at the bench's time."""
    bench = PolicyBench(Diary, now_ms=7)
    asked = bench.request("Heartbeat")
    bench.ask(asked)
    bench.advance(3)
    bench.reply(asked, size_bytes=44)
    assert bench.policy.diary == [
        ("request", 1, 7),
        ("response", 44, 10),
        ("complete", Outcome.REPLIED, 10),
    ]

    bench = PolicyBench(Diary)
    bench.complete(bench.request("Heartbeat"), Outcome.DISCONNECTED)
    assert bench.policy.diary == [("complete", Outcome.DISCONNECTED, 0)]


@pytest.mark.parametrize("steps", [[350], [50] * 7, [99, 1, 250], [120, 230]], ids=str)
def test_the_policy_ticks_at_its_interval_for_any_steps_of_the_clock(steps):
    """Small steps add up."""
    bench = PolicyBench(Diary, now_ms=1000)
    for step in steps:
        bench.advance(step)
    assert bench.policy.ticks == [1100, 1200, 1300]
    assert bench.now_ms == 1350


def test_a_policy_without_a_tick_is_never_ticked():
    """The clock moves all the same."""
    bench = PolicyBench(Ticks)
    bench.advance(1000)
    assert bench.policy.ticks == []
    assert bench.now_ms == 1000


def test_the_host_records_woken_keys_and_the_content_saved_last():
    """In order, every time; on a full disk a file keeps its content."""
    host = BenchHost("mine")
    host.wake("a")
    host.wake(("b", 1))
    host.wake("a")
    assert host.woken == ["a", ("b", 1), "a"]
    assert host.name == "mine"

    host = BenchHost()
    assert host.load("a") is None
    host.save("a", b"1")
    host.disk_full = True
    with pytest.raises(OSError, match="No space"):
        host.save("a", b"2")
    assert host.load("a") == b"1"


class Gate(Policy):
    """Holds every request until it is opened or its alarm rings, then gives a throttle."""

    Config = DiaryConfig

    def __init__(self, config, host):
        super().__init__(config, host)
        self.open = False
        self.left: list[int] = []

    def on_request(self, request, peer, now_ms):
        return Throttle(30) if self.open else Hold(1000, "gate", Reject(7))

    def on_response(self, request, response, peer, now_ms):
        return Throttle(response.throttle_time_ms + 1) if response.throttle_time_ms else FORWARD

    def on_disconnect(self, peer, now_ms):
        self.left.append(peer.session_id)

    def ring(self, now_ms):
        self.open = True
        self.host.wake("gate")


def test_held_requests_are_judged_again_when_their_key_is_woken():
    """The host returns their number; those that are held again stay held."""
    bench = PolicyBench(Gate)
    asked = bench.request("Metadata")
    assert bench.ask(asked) == Hold(1000, "gate", Reject(7))
    assert bench.host.wake("other") == 0
    assert bench.host.wake("gate") == 1
    assert bench.released == []
    bench.policy.open = True
    assert bench.host.wake("gate") == 1
    assert bench.released == [(0, asked, Throttle(30))]
    assert bench.host.wake("gate") == 0


def test_an_alarm_rings_when_the_clock_is_turned_that_far():
    """Each at its own time, in order."""
    bench = PolicyBench(Gate, now_ms=100)
    bench.ask(bench.request("Metadata"))
    rung: list[int] = []
    bench.host.call_at(300, rung.append)
    bench.host.call_at(200, rung.append)
    bench.host.call_at(250, bench.policy.ring)
    bench.advance(149)
    assert (rung, bench.released) == ([200], [])
    bench.advance(100)
    assert (rung, bench.released[0].now_ms) == ([200, 300], 250)


def test_at_its_deadline_a_held_request_ends_by_its_verdict():
    """Not a millisecond earlier."""
    bench = PolicyBench(Gate)
    asked = bench.request("Metadata")
    bench.ask(asked)
    bench.advance(999)
    assert bench.released == []
    bench.advance(1)
    assert bench.released == [(1000, asked, Reject(7))]


def test_a_disconnected_clients_request_is_not_judged_again():
    """The policy is told of the end."""
    bench = PolicyBench(Gate)
    bench.ask(bench.request("Metadata"), Peer(4, "h", 1))
    bench.ask(bench.request("Metadata"), Peer(5, "h", 1))
    bench.disconnect(Peer(4, "h", 1))
    assert bench.policy.left == [4]
    assert bench.host.wake("gate") == 1


def test_a_reply_returns_the_policys_verdict():
    """The policy sees the broker's throttle time."""
    bench = PolicyBench(Gate)
    assert bench.reply(bench.request("Metadata")) is FORWARD
    assert bench.reply(bench.request("Metadata"), throttle_time_ms=5) == Throttle(6)


def test_a_policy_with_changed_interests_is_compiled_again():
    """A held request of an API that it no longer sees is forwarded."""
    bench = PolicyBench(Gate)
    bench.ask(bench.request("Metadata"))
    bench.policy.apis = frozenset()
    bench.host.reconsider()
    assert bench.host.reconsidered == 1
    assert bench.ask(bench.request("Metadata")) is FORWARD
    assert bench.host.wake("gate") == 1
    assert bench.released[0].verdict is FORWARD


class Looks(Diary):
    """Needs whole requests."""

    needs = Need.BODY


def test_a_request_carries_as_much_as_the_policy_needs():
    """Head and body are there if the policy asks for them; the size counts the header."""
    asked = {"topics": {"orders": (0, 1)}, "records": [b"a" * 100], "compression": "zstd"}
    plain = PolicyBench(Diary).request("Produce", 9, **asked)
    looked = PolicyBench(Looks).request("Produce", 9, **asked, acks=1)

    assert (plain.body, plain.head) == (None, None)
    assert looked.head.topics == [("orders", [0, 1])]
    assert (looked.head.acks, looked.head.timeout_ms, looked.acks) == (1, 30_000, 1)
    assert len(looked.body) < looked.size_bytes < len(looked.body) + 20
    assert plain.size_bytes == looked.size_bytes


def test_a_policy_that_needs_a_body_gets_topics_and_fields():
    """The bench makes up an id for each name; any field of the message may be given."""
    bench = PolicyBench(Looks)
    head = bench.request("Produce", 13, topics=["orders"]).head

    assert [bench.host.topic_name(topic_id) for topic_id, _ in head.topics] == ["orders"]
    assert bench.topic_id("orders") == head.topics[0][0]

    class Fetches(Looks):
        apis = frozenset({ApiKey.FETCH})

    request = PolicyBench(Fetches).request("Fetch", fields={"max_wait": 200, "min_bytes": 7})

    assert (request.head.max_wait_ms, request.head.min_bytes) == (200, 7)


def test_several_policies_are_asked_in_order():
    """The first refusal ends the chain; each has its own name and state."""
    bench = PolicyBench(Diary, {}, then=[BenchEntry(Diary, {"refuse": "bench"}, "second")])

    assert bench.ask(bench.request("Heartbeat")) == Reject(ErrorCode.POLICY_VIOLATION)
    assert len(bench.policy.diary) == len(bench.policy_of("second").diary) == 1
    bench.advance(100)
    assert bench.policy.ticks == bench.policy_of("second").ticks == [100]


def test_an_observing_entry_only_reports():
    """As in the proxy."""
    bench = PolicyBench(Diary, {"refuse": "bench"}, mode="observe")

    assert bench.ask(bench.request("Heartbeat")) is FORWARD
    assert bench.reporter.observed == [("bench", Reject(ErrorCode.POLICY_VIOLATION))]
    assert bench.host.observes


class Heir(Gate):
    """Takes over whether the gate is open."""

    def adopt(self, previous):
        self.adopted = previous


def test_a_reload_moves_held_requests_to_the_adopting_policy():
    """The old policy is asked no more, and requests in flight end under the chain that admitted them."""
    bench = PolicyBench(Heir)
    asked = bench.request("Metadata")
    bench.ask(asked)
    before = bench.policy

    after = bench.reload({"refuse": "other"})

    assert (after.adopted, after.config) == (before, DiaryConfig("other"))
    after.open = True
    assert bench.host.wake("gate") == 1
    assert bench.released == [(0, asked, Throttle(30))]


def test_a_refused_reload_changes_nothing():
    """The old policy stays."""
    bench = PolicyBench(Heir)
    before = bench.policy
    with pytest.raises(SettingsError):
        bench.reload({"refuse": 7})
    assert bench.policy is before


def test_a_request_in_flight_ends_under_the_chain_that_admitted_it():
    """Its policy is told of its end, the new one is not."""
    bench = PolicyBench(Diary)
    asked = bench.request("Heartbeat")
    bench.ask(asked)
    before = bench.policy
    after = bench.reload()
    bench.reply(asked)

    assert [kind for kind, *_ in before.diary] == ["request", "response", "complete"]
    assert after.diary == []


def test_a_drain_ends_every_hold_by_its_then():
    """At once."""
    bench = PolicyBench(Gate)
    bench.ask(bench.request("Metadata"))
    bench.drain()
    assert [each.verdict for each in bench.released] == [Reject(7)]
