"""The family `access`: the rights that clients lacked, as an entry in mode `observe` has found."""

from pathlib import Path

from policies.api import Peer, Reject
from policies.decision import PolicyDecision
from policies.denial import Deny
from proxy.telemetry.usage_log.missing_rights import MAX_RIGHTS, MissingRights, count_rights
from proxy.telemetry.usage_log.writer_thread import MAX_QUEUED_ROWS
from tests.support.telemetry.usage_log import START_MS, Recording
from wire.authorization import Ask, Operation, ResourceType
from wire.errors import ErrorCode

PEER = Peer(1, "h", 1, client_id="c", user="bob", principal_source="sasl", proof="sasl:PLAIN")
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def topic(name: str | bytes | None, operation: Operation = Operation.READ) -> Ask:
    return Ask(ResourceType.TOPIC, name, operation, REFUSED)


def decision(*asks: Ask, peer: Peer = PEER) -> PolicyDecision:
    return PolicyDecision("access", Deny(dict.fromkeys(asks, REFUSED)), peer, "Fetch", START_MS)


def test_a_row_has_one_right_of_one_client(tmp_path: Path) -> None:
    """Requests of the same right in a second are counted; an id without a name is left out."""
    recording = Recording(tmp_path, ("access",))
    group = Ask(ResourceType.GROUP, "g", Operation.READ, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    act = Ask(
        ResourceType.CLUSTER, "users", Operation.ALTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    pattern = topic(None, Operation.DESCRIBE)
    for each in (decision(topic("t"), group), decision(topic("t"), topic(bytes(16)), pattern, act)):
        recording.usage_log.on_policy_observed(each)
    recording.stop()

    rows = recording.rows("access")

    assert [(row["kind"], row["name"], row["operation"], row["requests"]) for row in rows] == [
        ("topic", "t", "read", 2),
        ("group", "g", "read", 1),
        ("topic", None, "describe", 1),
        ("cluster", "users", "alter", 1),
    ]
    assert {(row["user"], row["proof"], row["client_id"], row["policy"]) for row in rows} == {
        ("bob", "sasl:PLAIN", "c", "access")
    }
    assert [row["seq"] for row in rows] == [1, 2, 3, 4]


def test_without_the_family_nothing_is_kept(tmp_path: Path) -> None:
    """Its decisions cost nothing then."""
    recording = Recording(tmp_path, ("entity",))
    recording.usage_log.on_policy_observed(decision(topic("t")))
    recording.stop()

    assert recording.rows("access") == []


def test_a_second_has_a_bounded_number_of_rights(tmp_path: Path) -> None:
    """Further ones are lost rows, which a reader sees by a gap in `seq`."""
    recording = Recording(tmp_path, ("access",))
    recording.usage_log.on_policy_observed(decision(*(topic(f"t{n}") for n in range(MAX_RIGHTS))))
    recording.usage_log.on_policy_observed(decision(topic("a"), topic("b")))
    recording.stop()

    rows = recording.rows("access")
    assert len(rows) == MAX_RIGHTS
    assert rows[0]["seq"] == 3  # two were lost before
    assert recording.usage_log.dropped == 2


def test_other_verdicts_have_no_rights() -> None:
    """A Reject of another policy that observes, and a denial of topics without their rights."""
    rights = MissingRights()
    rights.add(PolicyDecision("limits", Reject(44), PEER, "Fetch", START_MS))
    rights.add(PolicyDecision("mine", Deny({"t": REFUSED}), PEER, "Fetch", START_MS))

    taken = rights.take()

    assert count_rights(taken.decisions) == {}
    assert (taken.rights, taken.lost) == (1, 0)
    assert rights.take() == ([], 0, 0)


def test_a_disk_that_is_stuck_bounds_the_rights_that_wait(tmp_path: Path) -> None:
    """Each right counts in the queue, however few the decisions: further ones are lost."""
    recording = Recording(tmp_path, ("access",))
    seconds = MAX_QUEUED_ROWS // MAX_RIGHTS + 2
    many = [topic(f"t{n}") for n in range(MAX_RIGHTS)]
    for second in range(seconds):
        recording.usage_log.on_policy_observed(decision(*many))
        recording.usage_log.on_second(START_MS + second * 1000, [])

    assert 0 < recording.usage_log.dropped <= 2 * MAX_RIGHTS
    recording.stop()
    assert len(recording.rows("access")) == seconds * MAX_RIGHTS - recording.usage_log.dropped
