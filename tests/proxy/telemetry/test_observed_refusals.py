"""The audit log of an entry in mode `observe`: what it would have refused."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from policies.api import Hold, Peer, Reject, Verdict
from policies.decision import PolicyDecision
from policies.denial import Deny
from proxy.telemetry.audit_log import LINES_PER_SECOND, AuditLog
from proxy.telemetry.line_limits import LastCounts
from tests.support.telemetry.request_traces import EPOCH_US, PEER
from wire.authorization import Ask, Operation, ResourceType

NOW_MS = EPOCH_US // 1000
REFUSED = Reject(44, message="not today")


class Counts(LastCounts):
    """Notes nothing: no second passes in these tests."""

    def __init__(self) -> None:
        super().__init__(lambda: False)

    def note(self) -> None:
        """Do nothing."""


Lines = Callable[..., list[dict[str, object]]]


@pytest.fixture
def lines(tmp_path: Path) -> Lines:
    """A function of verdicts that returns the lines about them."""

    def written(*verdicts: Verdict, peer: Peer = PEER) -> list[dict[str, object]]:
        path = tmp_path / "audit.jsonl"
        log = AuditLog(path, 1 << 20, Counts())
        log.start()
        for verdict in verdicts:
            log.on_policy_observed(PolicyDecision("access", verdict, peer, "Produce", NOW_MS))
        log.close(10)
        return [json.loads(line) for line in path.read_text().splitlines()]

    return written


def test_a_refusal_that_is_only_observed_has_a_line(lines: Lines) -> None:
    """It names what would be denied, a hundred items at most; other verdicts of such entries have no line."""
    asked = Ask(ResourceType.TOPIC, "orders", Operation.WRITE, 29)
    pattern = Ask(ResourceType.TOPIC, None, Operation.DESCRIBE, 29)

    first, many, parts, whole = lines(
        Deny({asked: 29, pattern: 29}, "rules[3] denies it"),
        Deny(dict.fromkeys((f"t{n}" for n in range(250)), 29)),
        Deny({("t", 7): 29, bytes(16): 100}),
        REFUSED,
        Hold(5, "x"),
    )

    assert {line["event"] for line in (first, many, parts, whole)} == {"would_refuse"}
    assert (first["user"], first["api"], first["policy"]) == (PEER.user, "Produce", "access")
    assert first["error"] == "TOPIC_AUTHORIZATION_FAILED"
    assert first["reason"] == "rules[3] denies it"
    assert first["denied"] == ["WRITE topic orders", "DESCRIBE topic *"]
    assert many["left_out"] == {"denied": 150}
    assert parts["denied"] == ["topic t partition 7", f"topic {'00' * 16}"]
    assert "denied" not in whole


def test_hostile_names_stay_in_their_line(lines: Lines) -> None:
    """A name with line breaks, or of any length, makes one line of bounded length."""
    asks = {
        Ask(ResourceType.GROUP, f"{n}\n\x1b{'x' * 30_000}", Operation.READ, 30): 30
        for n in range(90)
    }

    (line,) = lines(Deny(asks))

    assert len(json.dumps(line)) < 16_000
    assert line["left_out"]


def test_observed_refusals_have_a_budget_of_their_own(lines: Lines) -> None:
    """A client that is refused again and again makes so many lines a second, and a count of the others."""
    told = lines(*[REFUSED] * (LINES_PER_SECOND + 5))

    assert Counter(line["event"] for line in told) == {
        "would_refuse": LINES_PER_SECOND,
        "lines_suppressed": 1,
    }
    assert told[-1]["suppressed"] == {"would_refuse": 5}
