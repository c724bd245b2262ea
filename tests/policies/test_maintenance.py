"""maintenance: paused writes wait, then get an error that clients retry; everything else passes."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from policies.api import FORWARD, Hold, Need, Peer, PolicyConfigError, Reject, Verdict
from policies.file_watch import POLL_MS
from policies.maintenance import (
    IN_FLIGHT_MS,
    PIPELINED_MS,
    SHARDS,
    Maintenance,
    MaintenanceConfig,
)
from policies.testing import PolicyBench
from policies.testing.bench_request import BenchRequest
from policies.testing.watched_calls import reachable_objects
from policies.validation import SettingsError
from wire.apis import ApiKey
from wire.errors import ErrorCode

TIMED_OUT = Reject(ErrorCode.REQUEST_TIMED_OUT, close=False)
SEND_AGAIN = Reject(ErrorCode.REQUEST_TIMED_OUT)
ORDERS: Mapping[str, object] = {"pauses": [{"topic": "orders"}], "hold_ms": 1_000}
FILE: Mapping[str, object] = {"file": "pauses.yaml"}


def write(bench: PolicyBench, *topics: str, version: int = 9) -> BenchRequest:
    """Return a Produce to these topics."""
    return bench.request("Produce", version, topics=topics)


def is_paused(bench: PolicyBench, *topics: str, user: str = "alice") -> bool:
    """Return whether a new client's write waits."""
    is_paused.sessions += 1  # type: ignore[attr-defined]  # a counter
    peer = replace(bench.peer, session_id=is_paused.sessions, user=user)  # type: ignore[attr-defined]
    verdict = bench.ask(write(bench, *topics), peer)
    bench.disconnect(peer)
    return isinstance(verdict, Hold)


is_paused.sessions = 100  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("pauses", "paused", "passing"),
    [
        ([{"topic": "orders"}], [("orders",), ("a", "orders")], [("order",), ("orders2",), ()]),
        ([{"topic": "bill*"}], [("bill",), ("billing",)], [("bil",), ("abill",)]),
        ([{"topic": "*"}], [("a",), ()], []),
        ([{"user": "alice"}], [("a",), ()], []),
        ([{"user": "bob"}], [], [("a",)]),
        ([{"user": "bob"}, {"topic": "a"}, {"topic": "b*"}], [("a",), ("bc",)], [("c",)]),
        ([{"user": "alice", "topic": "a"}, {"user": "bob", "topic": "b"}], [("a",)], [("b",)]),
    ],
)
def test_a_write_waits_if_it_fits_a_pause(pauses, paused, passing) -> None:
    """By the topic's name or its beginning, the user, or both."""
    bench = PolicyBench(Maintenance, {"pauses": pauses})
    assert [is_paused(bench, *topics) for topics in paused] == [True] * len(paused)
    assert [is_paused(bench, *topics) for topics in passing] == [False] * len(passing)


def test_only_writes_are_looked_at_and_only_pauses_of_topics_need_topics() -> None:
    """Neither reads nor commits, without a pause not even writes; all writes of a user are judged by the header."""
    assert PolicyBench(Maintenance, ORDERS).policy.apis == {ApiKey.PRODUCE}
    assert PolicyBench(Maintenance, {}).policy.apis == frozenset()

    for pauses, need in (
        ([{"user": "a"}, {"topic": "*"}], Need.HEADER),
        ([{"user": "a"}, {"topic": "x"}], Need.TOPICS),
    ):
        assert PolicyBench(Maintenance, {"pauses": pauses}).policy.needs == {ApiKey.PRODUCE: need}


def test_at_the_end_of_its_wait_a_write_gets_a_retriable_error() -> None:
    """Writes that the client had sent by then do not wait again; its retry does."""
    bench = PolicyBench(Maintenance, ORDERS)
    first = write(bench, "orders")
    assert bench.ask(first) == Hold(1_000, ("maintenance", "bench", 1), then=TIMED_OUT)
    bench.advance(1_000)
    assert [(each.now_ms, each.verdict) for each in bench.released] == [(1_000, TIMED_OUT)]
    assert bench.ask(write(bench, "orders")) == TIMED_OUT
    bench.advance(PIPELINED_MS)
    assert isinstance(bench.ask(write(bench, "orders")), Hold)


def test_a_topic_id_cannot_slip_past() -> None:
    """A known id is judged by its name; an unknown one is refused, so that the client asks for metadata."""
    bench = PolicyBench(Maintenance, ORDERS)
    assert isinstance(bench.ask(write(bench, "orders", version=13)), Hold)
    body = write(bench, "secret", version=13).sent_body
    bench.host.topics.clear()
    assert bench.ask(bench.request("Produce", 13, body=body)) == Reject(ErrorCode.UNKNOWN_TOPIC_ID)


def refused_client(bench: PolicyBench) -> Peer:
    """Return a client that has had a write refused."""
    peer = replace(bench.peer, session_id=7)
    assert isinstance(bench.ask(write(bench, "orders"), peer), Hold)
    bench.advance(1_000)
    return peer


def test_no_write_overtakes_a_refused_one_when_the_pause_ends() -> None:
    """What a client had sent before it had the error would be the first that the broker sees of this producer.

    Its connection ends; on another one, and on those that only waited, writes pass.
    """
    bench = PolicyBench(Maintenance, {"hold_ms": 1_000})
    bench.policy.change_live({"pauses": [{"topic": "orders"}]}, bench.now_ms)
    peer = refused_client(bench)
    assert bench.ask(write(bench, "others"), peer) is FORWARD
    waiting = replace(bench.peer, session_id=8)
    assert isinstance(bench.ask(write(bench, "orders"), waiting), Hold)
    bench.policy.change_live({}, bench.now_ms)
    bench.advance(SHARDS)
    assert bench.ask(write(bench, "orders"), peer) == SEND_AGAIN
    assert released(bench)[-1] is FORWARD
    assert bench.ask(write(bench, "orders"), waiting) is FORWARD
    bench.disconnect(peer)
    assert bench.policy.apis == {ApiKey.PRODUCE}
    bench.advance(IN_FLIGHT_MS)
    assert bench.policy.apis == frozenset()


def test_a_write_that_waits_behind_a_refused_one_does_not_overtake_it() -> None:
    """It was sent before the client had the error, but came too late to be refused with it."""
    bench = PolicyBench(Maintenance, {"hold_ms": 1_000})
    bench.policy.change_live({"pauses": [{"topic": "orders"}]}, bench.now_ms)
    peer = refused_client(bench)
    bench.advance(PIPELINED_MS)
    assert isinstance(bench.ask(write(bench, "orders"), peer), Hold)
    bench.policy.change_live({}, bench.now_ms)
    bench.advance(SHARDS)
    assert released(bench)[-1] == SEND_AGAIN


def test_no_write_overtakes_a_refused_one_when_a_reload_ends_the_pause() -> None:
    """A reload that changes no pause ends no connection."""
    bench = PolicyBench(Maintenance, ORDERS)
    peer = refused_client(bench)
    bench.reload({**ORDERS, "hold_ms": 2_000})
    assert bench.ask(write(bench, "others"), peer) is FORWARD
    bench.reload({"pauses": []})
    assert bench.ask(write(bench, "orders"), peer) == SEND_AGAIN
    bench.advance(IN_FLIGHT_MS)
    assert bench.policy.apis == frozenset()
    assert bench.ask(write(bench, "orders"), peer) is FORWARD


def released(bench: PolicyBench) -> list[Verdict]:
    """Return the verdicts on requests that were held."""
    return [each.verdict for each in bench.released]


def test_the_file_begins_and_ends_a_pause() -> None:
    """Writes that wait continue when it ends, those of other topics still wait."""
    bench = PolicyBench(Maintenance, {**FILE, "hold_ms": 20_000}, files={"pauses.yaml": b""})
    assert bench.policy.apis == frozenset()
    bench.host.files["pauses.yaml"] = b"pauses: [{topic: orders}, {topic: bills}]"
    bench.advance(2 * POLL_MS)
    peers = [replace(bench.peer, session_id=n) for n in range(2)]
    for topic, peer in zip(("orders", "bills"), peers, strict=True):
        assert isinstance(bench.ask(write(bench, topic), peer), Hold)
    bench.host.files["pauses.yaml"] = b'{"pauses": [{"topic": "bills"}]}'
    bench.advance(2 * POLL_MS + SHARDS)
    assert released(bench) == [FORWARD]
    bench.host.files["pauses.yaml"] = b"pauses: []"
    bench.advance(2 * POLL_MS + SHARDS)
    assert released(bench) == [FORWARD, FORWARD]
    assert [(message, fields["pauses"]) for _, message, fields in bench.reporter.messages] == [
        ("no writes paused", 0),
        ("writes paused", 2),
        ("writes paused", 1),
        ("no writes paused", 0),
    ]


def test_a_write_that_was_held_without_its_topics_is_sent_again() -> None:
    """After a pause of all writes becomes one of a topic, the topics of a held request are not known."""
    bench = PolicyBench(Maintenance, FILE, files={"pauses.yaml": b"pauses: [{topic: '*'}]"})
    request = write(bench, "other")
    request.names = None  # as with Need.HEADER
    bench.ask(request)
    bench.host.files["pauses.yaml"] = b"pauses: [{topic: orders}]"
    bench.advance(3 * POLL_MS)
    assert released(bench) == [SEND_AGAIN]
    assert bench.released[0].now_ms < MaintenanceConfig().hold_ms


@pytest.mark.parametrize(
    "content", [b"pauses: [{topc: a}]", b"\xff", b"- 1", b"pauses: [{}]", b"a: ["]
)
def test_a_file_with_a_mistake_changes_nothing(content: bytes) -> None:
    """The log names file and line; at the start it is a problem of the entry."""
    bench = PolicyBench(Maintenance, FILE, files={"pauses.yaml": b"pauses: [{topic: orders}]"})
    bench.host.files["pauses.yaml"] = content
    bench.advance(2 * POLL_MS)
    assert is_paused(bench, "orders")
    level, message, fields = bench.reporter.messages[-1]
    assert (level, message) == ("error", "pauses unchanged")
    assert "pauses.yaml" in str(fields["problems"])
    assert bench.reporter.errors == []
    with pytest.raises(SettingsError):
        PolicyBench(Maintenance, FILE, files={"pauses.yaml": content})


def test_a_file_that_is_not_there_is_a_problem() -> None:
    """A pause that is never read would be a bad surprise."""
    with pytest.raises(PolicyConfigError, match=r"file: pauses.yaml cannot be read: No such file"):
        PolicyBench(Maintenance, FILE)


@pytest.mark.parametrize("pause", [{}, {"topic": ""}, {"topic": "a*b"}, {"topic": "a", "usr": "x"}])
def test_a_pause_says_what_it_pauses(pause: dict[str, str]) -> None:
    """An empty one could mean everything or nothing."""
    with pytest.raises(SettingsError, match=r"config.pauses\[0\]"):
        PolicyBench(Maintenance, {"pauses": [pause]})


def test_a_reload_ends_a_pause_and_continues_a_wait() -> None:
    """The wait of a connection does not begin again."""
    bench = PolicyBench(Maintenance, ORDERS)
    bench.ask(write(bench, "orders"))
    bench.advance(600)
    bench.reload()
    bench.wake(("maintenance", "bench", 1))
    bench.advance(400)
    assert released(bench) == [TIMED_OUT]


def test_in_mode_observe_nothing_waits() -> None:
    """The hold is reported."""
    bench = PolicyBench(Maintenance, ORDERS, mode="observe")
    assert bench.ask(write(bench, "orders")) is FORWARD
    assert [type(verdict) for _, verdict in bench.reporter.observed] == [Hold]


def test_nothing_is_kept_of_a_client_that_has_left() -> None:
    """Sessions are not reused."""
    bench = PolicyBench(Maintenance, ORDERS)
    assert is_paused(bench, "orders")
    kept = reachable_objects(bench.policy)
    for _ in range(3):
        assert is_paused(bench, "orders")
    assert reachable_objects(bench.policy) == kept


def test_an_operator_pauses_writes_and_lets_them_continue() -> None:
    """The live pauses are beside those of the settings; held writes are judged again at once."""
    bench = PolicyBench(Maintenance, {"pauses": [{"user": "bob"}], "hold_ms": 1_000})
    policy = bench.policy
    policy.change_live({"pauses": [{"topic": "orders"}]}, bench.now_ms)
    assert is_paused(bench, "orders")
    assert not is_paused(bench, "others")
    assert msgspec.to_builtins(policy.live_state()) == {
        "pauses": ({"topic": "orders", "user": None},),
        "settings": ({"topic": None, "user": "bob"},),
        "file": (),
    }
    assert isinstance(bench.ask(write(bench, "orders")), Hold)
    policy.change_live({}, bench.now_ms)
    bench.advance(SHARDS)
    assert [released.verdict for released in bench.released] == [FORWARD]
    assert not is_paused(bench, "orders")
    assert is_paused(bench, "orders", user="bob")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pause": []}, "pause: found an unknown key"),
        ({"pauses": [{"topic": "a*b"}]}, r"pauses\[0\].topic: "),
        ({"pauses": [{}]}, r"pauses\[0\]: found a pause of nothing"),
        ({"pauses": 7}, "pauses: found 7, expected a list"),
        ({"pauses": [{"topic": "a"}] * 1_001}, "pauses: found 1001 pauses, expected at most 1000"),
    ],
)
def test_a_wrong_live_change_changes_nothing(change, message) -> None:
    """The error names the key."""
    bench = PolicyBench(Maintenance, ORDERS)
    bench.policy.change_live({"pauses": [{"topic": "kept"}]}, bench.now_ms)
    with pytest.raises(PolicyConfigError, match=message):
        bench.policy.change_live(change, bench.now_ms)
    assert is_paused(bench, "kept")


def test_live_pauses_survive_a_reload() -> None:
    """They end when Sluice stops, or by another change."""
    bench = PolicyBench(Maintenance, {})
    bench.policy.change_live({"pauses": [{"topic": "orders"}]}, bench.now_ms)
    bench.reload({"hold_ms": 2_000})
    assert is_paused(bench, "orders")
    assert not is_paused(bench, "others")
