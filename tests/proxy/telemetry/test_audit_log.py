"""The audit log: administrative requests and refusals with their user; bounded, and without payloads."""

import errno
import json
import os
import threading
from dataclasses import replace

import pytest
import structlog

from policies.api import FORWARD, Hold, Outcome, Peer, Reject
from policies.audit import Audit
from policies.audit_facts import AuditFacts, AuditItem
from policies.decision import PolicyDecision
from policies.testing import PolicyBench
from policies.testing.message_builder import request_body, response_body
from proxy.telemetry.audit_log import LINES_PER_SECOND, AuditLog
from proxy.telemetry.broadcast import Broadcast
from proxy.telemetry.line_limits import LastCounts
from proxy.telemetry.rotating_file import RotatingFile
from proxy.telemetry.stderr import MAX_LINE_BYTES
from tests.support.core.ledger import Ledger
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.shell.sasl_service import sasl_server
from tests.support.telemetry.request_traces import EPOCH_US, PEER, trace
from wire.apis import ApiKey
from wire.errors import ErrorCode

SECRET = b"topic-of-a-secret-project"
REFUSED = Reject(44, message="not today")
NOW_MS = EPOCH_US // 1000


class Counts(LastCounts):
    """Tells whether it was noted; `tells` are what would be called a second later."""

    def __init__(self) -> None:
        super().__init__(lambda: False)
        self.is_noted = False
        self.tells = []

    def add(self, tell) -> None:
        self.tells.append(tell)

    def note(self) -> None:
        self.is_noted = True


class Book:
    """An audit log, and the lines that it has written."""

    def __init__(self, folder, max_bytes=1 << 20) -> None:
        self.path = folder / "audit.jsonl"
        self.counts = Counts()
        self.log = AuditLog(self.path, max_bytes, self.counts)
        self.log.start()
        self.others = Ledger()

    def wire(self, *policies) -> Wire:
        engine = make_engine(policies, keeps_traces=True, now_ms=NOW_MS)
        engine.observer = engine.chain._reporter = Broadcast([self.others, self.log])
        return Wire(engine)

    def lines(self) -> list[dict]:
        """Close the log, which writes everything in its queue; return its lines."""
        self.log.close(10)
        return [json.loads(line) for line in self.path.read_text().splitlines()]


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path)


def widen(ident: int) -> bytes:
    """Return a CreatePartitions v2, of which Sluice reads the header only."""
    return f.request(ApiKey.CREATE_PARTITIONS, 2, ident, SECRET, tagged=True)


def test_an_administrative_request_is_one_line_of_the_audit_log(book):
    """It has the user, time, address and outcome, and nothing of the body; it is written after the reply."""
    wire = book.wire()
    wire.client(widen(7))
    wire.advance(20)
    wire.broker(f.reply(7, SECRET, tagged=True))
    assert wire.to_broker == widen(7)
    assert book.others.traces == [], "no other observer hears of it"
    (line,) = book.lines()
    assert SECRET not in book.path.read_bytes()
    assert line == {
        "ts": "2026-09-21T14:13:20.020+00:00",
        "event": "request",
        "api": "CreatePartitions",
        "version": 2,
        "user": "ANONYMOUS",
        "principal_source": "none",
        "proof": "",
        "client_id": "tests",
        "host": "10.0.0.9",
        "port": 40000,
        "node": None,
        "session": 1,
        "correlation_id": 7,
        "size_bytes": len(widen(7)) - 4,
        "forwarded": True,
        "outcome": "replied",
        "took_ms": 20,
    }


def test_ordinary_requests_are_not_in_the_audit_log_and_cost_nothing(book):
    """They have no trace, and their plans are the same as without an audit log."""
    wire = book.wire()
    plain = Wire(make_engine(keeps_traces=True))
    for each in (wire, plain):
        each.client(f.heartbeat(1) + f.metadata_request(2) + f.heartbeat(3))
    assert [exchange.plan.request_path for exchange in wire.session.queue] == [
        exchange.plan.request_path for exchange in plain.session.queue
    ]
    wire.broker(f.heartbeat_reply(1) + f.metadata_reply(2, []) + f.heartbeat_reply(3))
    assert book.others.traces == []
    assert book.lines() == []


@pytest.mark.parametrize("request_frame", [f.heartbeat(1), widen(1)], ids=["any", "administrative"])
def test_every_refusal_is_written_once_with_the_policy_and_its_reason(book, request_frame):
    """The request may be administrative or not."""
    wire = book.wire(Recorder(), Recorder(lambda _: REFUSED))
    wire.client(request_frame)
    (line,) = book.lines()
    assert (line["event"], line["outcome"], line["forwarded"]) == ("refused", "answered", False)
    assert (line["policy"], line["reason"]) == ("p1", "not today")
    assert line["error"] == "POLICY_VIOLATION"


def test_a_client_that_is_refused_at_connect_is_written(book):
    """It has sent no request yet."""

    class Wall(Recorder):
        def on_connect(self, peer, now_ms):
            return REFUSED if peer.port == 666 else FORWARD

    wire = book.wire(Wall())
    assert wire.engine.connect("10.0.0.66", 666, 2) is None
    (line,) = book.lines()
    assert (line["event"], line["host"], line["node"]) == ("connect_refused", "10.0.0.66", 2)
    assert (line["policy"], line["reason"]) == ("p0", "not today")


def test_a_client_that_fails_to_authenticate_is_written(book):
    """With the user that it claimed to be, and not with its password."""
    wire = book.wire()
    server, checker = sasl_server()
    wire.engine.authenticate_clients(server)
    gated = Wire(wire.engine)
    gated.client(sasl.handshake(1, "PLAIN") + sasl.authenticate(2, sasl.plain("bob", "pa55word")))
    checker.run_all()
    (line,) = book.lines()
    assert (line["event"], line["claimed_user"]) == ("authentication_failed", "bob")
    assert (line["user"], line["mechanism"]) == ("ANONYMOUS", "PLAIN")
    assert line["reason"].endswith("Invalid username or password")
    assert "pa55word" not in book.path.read_text()


@pytest.mark.parametrize("verdict", [FORWARD, Hold(9000, "key")], ids=["forwarded", "held"])
def test_a_request_whose_client_left_has_whether_it_was_forwarded(book, verdict):
    """The broker may have executed a forwarded request, although the client got no reply."""
    wire = book.wire(Recorder(lambda _: verdict))
    wire.client(widen(1))
    wire.session.client_lost(wire.now_ms)
    (line,) = book.lines()
    assert (line["outcome"], line["forwarded"]) == ("disconnected", verdict is FORWARD)


def test_lines_lost_to_a_full_disk_are_counted(book, monkeypatch):
    """Nothing is raised on the event loop; the file is unchanged."""

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RotatingFile, "append", full)
    for n in range(3):
        book.log.on_audited(ended(n))
    assert book.lines() == []
    assert book.log.lost() == {"disk": 3, "rate": 0}


def test_lost_lines_leave_a_line_with_their_number(book, monkeypatch):
    """It stands at the place of the gap."""
    append, calls = RotatingFile.append, []

    def full_at_first(file, line):
        calls.append(line)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(file, line)

    monkeypatch.setattr(RotatingFile, "append", full_at_first)
    book.log.on_audited(ended(1))
    book.log.on_audited(ended(2))
    told = [(line["event"], line.get("lines"), line.get("correlation_id")) for line in book.lines()]
    assert told == [("lines_lost", 1, None), ("request", None, 2)]


def test_lines_that_a_stuck_disk_did_not_take_are_reported_in_the_log(book, monkeypatch):
    """`close` waits no longer than its timeout."""
    begun, stuck = threading.Event(), threading.Event()
    monkeypatch.setattr(RotatingFile, "append", lambda *_: begun.set() or stuck.wait(60))
    for n in range(3):
        book.log.on_audited(ended(n))
    assert begun.wait(60), "the thread has taken the first line"
    with structlog.testing.capture_logs() as told:
        book.log.close(0.05)
    stuck.set()
    assert [(line["event"], line["lines"]) for line in told] == [("audit_log_incomplete", 3)]


def test_one_client_cannot_flood_the_audit_log(book):
    """Lines of one user at one address over the limit are counted, and those of others are written."""
    loud = replace(PEER, user="mallory")
    for n in range(LINES_PER_SECOND + 40):
        book.log.on_audited(ended(n, peer=loud))
    book.log.on_audited(ended(1000))
    book.log.on_audited(ended(1001, peer=loud, at_us=EPOCH_US + 1_000_000))
    assert book.log.lost() == {"disk": 0, "rate": 40}
    users = [line.get("user") for line in book.lines()]
    assert users == [*["mallory"] * LINES_PER_SECOND, "alice", "mallory", None]


def test_a_host_with_many_ipv6_addresses_is_one_client(book):
    """A /64 network is one host's, as for the limits of connections."""
    for n in range(LINES_PER_SECOND + 40):
        book.log.on_audited(ended(n, peer=replace(PEER, host=f"2001:db8::{n:x}")))
    book.log.on_audited(ended(1000, peer=replace(PEER, host="2001:db8:0:1::1")))
    assert book.log.lost() == {"disk": 0, "rate": 40}


@pytest.mark.parametrize("at_close", [False, True], ids=["a second later", "at the end"])
def test_the_last_count_needs_no_later_line(book, at_close):
    """It is written once."""
    for n in range(LINES_PER_SECOND + 3_882):
        book.log.on_audited(refused(n))
    assert book.counts.is_noted
    if not at_close:
        assert not any(tell() for tell in book.counts.tells)
    lines = book.lines()
    assert len(lines) == LINES_PER_SECOND + 1
    assert (lines[-1]["event"], lines[-1]["suppressed"]) == ("lines_suppressed", {"refused": 3_882})


def test_refusals_cannot_use_up_the_lines_of_acts(book):
    """Nor acts that failed, acts whose end is not known, or acts of another API; each is counted by its kind."""
    failed = AuditFacts(errors=(AuditItem("x", None, "UNKNOWN_TOPIC_OR_PARTITION"),), done=())
    flood = [
        refused,
        lambda n: ended(n, facts=failed),
        lambda n: ended(n, outcome=Outcome.DISCONNECTED),
        lambda n: ended(n, api_key=ApiKey.CREATE_PARTITIONS, version=2),
    ]
    for make in flood:
        for n in range(LINES_PER_SECOND + 5):
            book.log.on_audited(make(n))
    book.log.on_audited(ended(4711))
    partly = ended(4712)
    partly.refused_by = "topics"
    book.log.on_audited(partly)
    *_, act, denied_in_part, count = book.lines()
    assert [act["correlation_id"], denied_in_part["correlation_id"]] == [4711, 4712]
    assert count["suppressed"] == {
        "refused": 5,
        "failed": 5,
        "unknown DeleteTopics": 5,
        "done CreatePartitions": 5,
    }


def test_no_line_is_longer_than_the_queue_takes(book):
    """Names of control characters take six bytes each; what one line does not hold of what was done follows it."""
    names = tuple(f"{n:03}" + "\x01" * 250 for n in range(100))
    items = tuple(AuditItem(name, None, "UNKNOWN_SERVER_ERROR") for name in names)
    done = tuple(AuditItem(name, 7) for name in names)
    peer = replace(PEER, user="\x01" * 5000, client_id="\x01" * 5000)
    facts = AuditFacts(names, names, items, {"topics": 3}, "\x01" * 5000, done)
    book.log.on_audited(ended(1, peer=peer, facts=facts))
    first, *rest = book.lines()
    assert all(len(line) < MAX_LINE_BYTES for line in book.path.read_bytes().splitlines())
    listed = {member: len(first[member]) for member in ("topics", "groups", "errors")}
    assert all(0 < count < 100 for count in listed.values())
    assert first["left_out"] == {
        "topics": 103 - listed["topics"],
        "groups": 100 - listed["groups"],
        "errors": 100 - listed["errors"],
    }
    assert {(line["event"], line["correlation_id"]) for line in rest} == {("continued", 1)}
    told = [item["name"] for line in (first, *rest) for item in line["done"]]
    assert told == list(names)
    assert list(first).index("done") < list(first).index("topics")


def test_the_file_is_bounded(tmp_path):
    """A full file becomes FILE.1; there is no third file."""
    book = Book(tmp_path, 1 << 16)
    for n in range(1000):
        book.log.on_audited(ended(n, at_us=EPOCH_US + n * 100_000))
    book.lines()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1"]
    assert all(each.stat().st_size <= 1 << 16 for each in tmp_path.iterdir())


def test_a_long_or_malformed_name_is_cut_and_escaped(book):
    """A client chooses its name."""
    odd = Peer(1, "10.0.0.9", 40000, client_id="x" * 30_000, user="a\n\ud800\u202e")
    book.log.on_policy_refused(PolicyDecision("wall", REFUSED, odd, "", NOW_MS))
    (line,) = book.lines()
    assert (line["user"], len(line["client_id"])) == ("a\n\\ud800\u202e", 1000)
    assert len(book.path.read_bytes().splitlines()) == 1


def ended(
    ident: int,
    *,
    peer: Peer = PEER,
    at_us: int = EPOCH_US,
    api_key: int = ApiKey.DELETE_TOPICS,
    version: int = 4,
    outcome: Outcome = Outcome.REPLIED,
    facts: AuditFacts | None = None,
):
    """Return the trace of an administrative request that was forwarded."""
    made = trace(
        api_key=api_key, version=version, peer=peer, outcome=outcome, upstream_us=0, began_us=at_us
    )
    made.correlation_id, made.audited, made.facts = ident, True, facts
    return made


def refused(ident: int):
    """Return the trace of an administrative request that a policy has refused."""
    made = ended(ident, outcome=Outcome.ANSWERED)
    made.forwarded_us, made.refused, made.refused_by = 0, 44, "limits"
    return made


def test_the_policy_audit_adds_names_and_errors(book):
    """From the bodies, which it does not write: the value of a config is a secret."""
    canary = "s3cret-of-a-topic"
    bench = PolicyBench(Audit)
    api = bench.request("IncrementalAlterConfigs", 1).api
    configs = [{"name": "sasl.jaas.config", "config_operation": 0, "value": canary}]
    resources = [{"resource_type": 2, "resource_name": "orders", "configs": configs}]
    body = request_body(api, {"resources": resources, "validate_only": False})
    failed = {
        "resource_type": 2,
        "resource_name": "orders",
        "error_code": ErrorCode.POLICY_VIOLATION,
    }
    reply = response_body(api, {"responses": [{**failed, "error_message": canary}]})
    for chunk in (1 << 18, 3):
        wire = book.wire(bench.policy)
        wire.client(f.request(api.key, api.version, 7, body, tagged=True), chunk)
        wire.broker(f.reply(7, reply, tagged=True), chunk)
        assert wire.to_client == f.reply(7, reply, tagged=True)
        assert wire.held_bytes == 0
    lines = book.lines()
    assert canary.encode() not in book.path.read_bytes()
    for line in lines:
        assert line["topics"] == ["orders"]
        assert line["groups"] == []
        assert line["errors"] == [{"name": "orders", "error": "POLICY_VIOLATION"}]
        assert "left_out" not in line


def test_the_policy_audit_tells_of_refusals_and_of_what_is_missing(book):
    """A refused request has the errors of Sluice's own reply; one without a reply has none."""
    bench = PolicyBench(Audit)
    refuses = Recorder(lambda _: REFUSED, apis={ApiKey.CREATE_PARTITIONS})
    wire = book.wire(bench.policy, refuses)
    api = bench.request("CreatePartitions", 2).api
    fields = {
        "topics": [{"name": "orders", "count": 3, "assignments": None}],
        "timeout": 1,
        "validate_only": False,
    }
    wire.client(f.request(api.key, api.version, 7, request_body(api, fields), tagged=True))
    wire.client(widen(8))
    first, second = book.lines()
    assert (first["event"], first["topics"]) == ("refused", ["orders"])
    assert first["errors"] == [{"name": "orders", "error": "POLICY_VIOLATION"}]
    assert "topics" not in second
    assert second["unread"]
