"""access: a right that a reload takes away ends with the next request, and what it had opened ends with it."""

from dataclasses import replace

import pytest

from policies.access.policy import Access
from policies.access.share_sessions import MAX_SESSIONS, MAX_TOPICS, ShareSessions
from policies.testing import BenchRequest, PolicyBench
from tests.support.core.access_rules import BOB, bob_may, refused
from wire.errors import ErrorCode

TOPIC, GONE = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.SHARE_SESSION_NOT_FOUND
GROUP = {"g": ["read"]}
BOTH = bob_may(topics={"a": ["read"], "b": ["read"]}, groups=GROUP)
ONE = bob_may(topics={"a": ["read"]}, groups=GROUP)


def fetch(bench: PolicyBench, epoch: int, *topics: str, group: str = "g") -> BenchRequest:
    """Return a ShareFetch of bob's member."""
    fields = {"group_id": group, "member_id": "m", "share_session_epoch": epoch}
    return bench.request("ShareFetch", topics=topics, fields=fields)


def test_a_revoked_right_ends_with_the_next_request() -> None:
    """And a given one begins with it."""
    bench = PolicyBench(Access, BOTH)
    assert refused(bench, bench.request("Fetch", topics=["b"])) is None
    bench.reload(ONE)
    assert refused(bench, bench.request("Fetch", topics=["b"])) == {"b": TOPIC}
    bench.reload(BOTH)
    assert refused(bench, bench.request("Fetch", topics=["b"])) is None


def test_the_replies_to_older_requests_show_what_the_new_rules_show() -> None:
    """The instance that judged the request is asked, by the rules that hold now."""
    bench = PolicyBench(Access, BOTH)
    request = bench.request("Metadata", 9, fields={"topics": None})
    bench.ask(request, BOB)
    bench.reload(ONE)
    verdict = bench.reply(request, fields={"topics": [{"name": "b"}]}, peer=BOB)
    assert b"b" not in getattr(verdict, "body", b"b").replace(b"bench", b"")


def test_a_share_session_ends_when_a_topic_of_it_is_revoked() -> None:
    """The client opens a new one; the topic is refused there, and the others go on."""
    bench = PolicyBench(Access, BOTH)
    assert refused(bench, fetch(bench, 0, "a", "b")) is None
    assert refused(bench, fetch(bench, 1)) is None
    bench.reload(ONE)
    assert refused(bench, fetch(bench, 2)) == GONE
    assert refused(bench, fetch(bench, 0, "a", "b")) == {"b": TOPIC}
    assert refused(bench, fetch(bench, 1)) is None


def test_a_share_session_survives_a_reload_that_takes_nothing_from_it() -> None:
    """Whatever changes for other topics."""
    bench = PolicyBench(Access, BOTH)
    assert refused(bench, fetch(bench, 0, "a")) is None
    bench.reload(ONE)
    assert refused(bench, fetch(bench, 1)) is None
    assert refused(bench, fetch(bench, 2, "b")) == {"b": TOPIC}
    assert refused(bench, fetch(bench, 3)) is None


def test_a_revoked_group_ends_its_sessions() -> None:
    """By the code of the group."""
    bench = PolicyBench(Access, BOTH)
    assert refused(bench, fetch(bench, 0, "a")) is None
    bench.reload(bob_may(topics={"a": ["read"]}))
    assert refused(bench, fetch(bench, 1)) == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_a_share_session_ends_when_the_client_logs_in_again_without_a_group_of_its_token() -> None:
    """The rules are the same, and the connection too; what the session holds is judged by the groups of now."""
    rules = [
        {"who": ["bob"], "topics": {"a": ["read"]}, "groups": GROUP},
        {"who": ["team:secret"], "topics": {"b": ["read"]}},
    ]
    bench = PolicyBench(Access, {"rules": rules})
    member = replace(BOB, proof="token", groups=frozenset({"secret"}))
    assert refused(bench, fetch(bench, 0, "a", "b"), member) is None
    assert refused(bench, fetch(bench, 1), replace(member)) is None
    expelled = replace(member, groups=frozenset())
    assert refused(bench, fetch(bench, 2), expelled) == GONE
    assert refused(bench, fetch(bench, 0, "a", "b"), expelled) == {"b": TOPIC}
    assert refused(bench, fetch(bench, 1), expelled) is None


def test_a_session_that_is_not_known_is_none() -> None:
    """Of another connection, another group, an ended one, or one from before Sluice's start."""
    bench = PolicyBench(Access, bob_may(topics={"a": ["read"]}, groups={"*": ["read"]}))
    assert refused(bench, fetch(bench, 7)) == GONE
    assert refused(bench, fetch(bench, 0, "a")) is None
    assert refused(bench, fetch(bench, 1, group="h")) == GONE
    assert refused(bench, fetch(bench, -1)) is None
    assert refused(bench, fetch(bench, 1)) == GONE
    assert refused(bench, fetch(bench, 0, "a")) is None
    bench.disconnect(BOB)
    assert refused(bench, fetch(bench, 1)) == GONE


def _yes(_: str) -> bool:
    return True


def test_the_books_are_bounded() -> None:
    """By the sessions of a connection, and by the topics of all sessions; what ends is given back."""
    books, revision = ShareSessions(), object()
    for number in range(MAX_SESSIONS):
        assert not books.on_fetch(1, ("g", str(number)), 0, ["t"], _yes, revision)
    full = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert books.on_fetch(1, ("g", "more"), 0, ["t"], _yes, revision) == full
    assert books.topics == MAX_SESSIONS
    assert not books.on_fetch(1, ("g", "0"), 0, ["t", "u"], _yes, revision)
    assert books.topics == MAX_SESSIONS + 1
    books.forget(1)
    books.forget(1)
    assert books.topics == 0
    names = [str(number) for number in range(MAX_TOPICS)]
    assert not books.on_fetch(2, ("g", "m"), 0, names, _yes, revision)
    assert books.on_fetch(3, ("g", "m"), 0, ["t"], _yes, revision) == full
    assert books.topics == MAX_TOPICS
    books.forget(2)
    assert books.topics == 0


@pytest.mark.parametrize("epochs", [(0, 1, 2), (0, 0, 1), (0, -1, 0), (5, 0, 3), (-1, -1, 1)])
def test_what_ends_is_given_back_whatever_the_order(epochs: tuple[int, ...]) -> None:
    """Epochs are a client's claims."""
    books, revision = ShareSessions(), object()
    for epoch in epochs:
        books.on_fetch(1, ("g", "m"), epoch, ["a", "b"], _yes, revision)
        assert 0 <= books.topics <= 2
    books.forget(1)
    assert books.topics == 0
