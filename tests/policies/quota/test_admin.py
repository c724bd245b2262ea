"""Managing quotas over the protocol: permissions, replies, and no change that is not saved.

The golden area quota.admin (Kafka's ClientQuotasRequestTest) holds here; R, its request quota, is request_rate.
"""

import pytest

from policies.api import FORWARD, Reject, Respond, Verdict
from policies.crowd import Crowd
from policies.quota import admin
from policies.quota.admin import QuotaAdmin, QuotaAdminSettings
from policies.quota.describe import USAGE
from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from policies.quota.overrides import decode
from policies.quota.sensors import BucketMetrics
from policies.testing import BenchRequest
from tests.support.messages.kafka_messages import api_of
from tests.support.messages.quota_messages import (
    ALTER,
    DESCRIBE,
    Answer,
    Description,
    Named,
    alter_body,
    describe_body,
    read_alter_reply,
    read_describe_reply,
)
from tests.support.quotas.quota_book import Book, peer_of
from wire.errors import ErrorCode

P, C, R = "producer_byte_rate", "consumer_byte_rate", "request_rate"
BOTH: Named = (("user", "user"), ("client-id", "client-id"))
ALICE: Named = (("user", "alice"),)
INVALID = ErrorCode.INVALID_REQUEST

Ops = dict[str, float | None] | list[tuple[str, float | None]]


class Bench:
    """A quota manager, the part of the policy that answers quota requests, and a client."""

    def __init__(
        self, *admins: str, replicas: int = 1, forward: bool = False, version: int = 1
    ) -> None:
        self.book = Book()
        rules = QuotaAdminSettings(Crowd(admins or ("root",), {}), replicas, forward, "quota")
        self.admin = QuotaAdmin(self.book, rules)
        self.version = version
        self.now_ms = 0

    def ask(self, key: int, body: bytes, user: str = "root") -> Verdict:
        request = BenchRequest(api_of(key, self.version), body=body)
        return self.admin.on_request(request, peer_of(user), self.now_ms)

    def alter(
        self, *entries: tuple[Named, Ops], user: str = "root", validate_only: bool = False
    ) -> list[Answer]:
        body = alter_body(entries, validate_only=validate_only, version=self.version)
        verdict = self.ask(ALTER, body, user)
        assert isinstance(verdict, Respond)
        return read_alter_reply(verdict.body, self.version)

    def describe(
        self, *components: tuple[str, int, str | None], strict: bool = False
    ) -> Description:
        body = describe_body(components, strict=strict, version=self.version)
        verdict = self.ask(DESCRIBE, body, "stranger")
        assert isinstance(verdict, Respond)
        return read_describe_reply(verdict.body, self.version)

    def values(self, named: Named = BOTH) -> dict[str, float]:
        """Return the quotas described for one entity."""
        told = self.describe(*((kind, 0, name) for kind, name in named), strict=True)
        assert (told.code, told.message) == (0, None)
        assert told.values is not None
        return told.values.get(named, {})


# -- golden ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [0, 1])
def test_alterations_are_described(version: int) -> None:
    """Golden alter-quota-requests: set, set again, remove, remove a missing quota, set and remove at once."""
    bench = Bench(version=version)
    steps: list[tuple[Ops, dict[str, float]]] = [
        ({P: 10000.0, C: 20000.0}, {P: 10000.0, C: 20000.0}),
        ({P: 15000.0}, {P: 15000.0, C: 20000.0}),
        ({P: None}, {C: 20000.0}),
        ({R: None}, {C: 20000.0}),
        ({P: 5000.0}, {P: 5000.0, C: 20000.0}),
        ({P: 20000.0, C: None, R: 12.3}, {P: 20000.0, R: 12.3}),
    ]
    for ops, after in steps:
        assert bench.alter((BOTH, ops)) == [Answer(BOTH, 0, None)]
        assert bench.values() == after
        assert decode(bench.book.saved) == {QuotaEntity("user", "client-id"): after}


def test_validate_only_changes_nothing() -> None:
    """Golden alter-quota-validate-only: an alteration is judged and not applied."""
    bench = Bench()
    stored = {P: 20000.0, R: 23.45}
    bench.alter((BOTH, dict(stored)))
    saved, rev = bench.book.saved, bench.book.quotas.rev
    for ops in ({C: 5.0}, {R: 9.0}, {P: None}, {P: 1.0, C: 2.0, R: None}):
        assert bench.alter((BOTH, ops), validate_only=True) == [Answer(BOTH, 0, None)]
        assert bench.values() == stored
    (told,) = bench.alter((BOTH, {P: 0.5}), validate_only=True)
    assert told.code == INVALID
    assert (bench.book.saved, bench.book.quotas.rev) == (saved, rev)


@pytest.mark.parametrize(
    ("entity", "ops"),
    [
        ((("user", ""),), {R: 12.34}),
        ((("client-id", ""),), {R: 12.34}),
        ((("", "name"),), {R: 12.34}),
        ((), {R: 12.34}),
        (BOTH, {"bad": 1.0}),
        (BOTH, {P: 10000.5}),
        (ALICE, {R: 0.0}),
        (ALICE, {R: -1.0}),
    ],
)
def test_an_invalid_alteration_is_refused_and_not_saved(entity: Named, ops: Ops) -> None:
    """Golden alter-quota-invalid and quota-nonpositive-refused: INVALID_REQUEST with a reason."""
    bench = Bench()
    (told,) = bench.alter((entity, ops))

    assert (told.entity, told.code) == (entity, INVALID)
    assert told.message
    assert bench.book.saved == b""
    assert bench.alter((BOTH, {R: 0.5})) == [Answer(BOTH, 0, None)]


@pytest.mark.parametrize("kind", ["user", "client-id"])
@pytest.mark.parametrize("name", ["name", None])
def test_an_ip_with_another_entity_type_is_refused(kind: str, name: str | None) -> None:
    """Golden alter-quota-bad-combination: an ip beside a user or a client id, altered or described."""
    bench = Bench()
    (told,) = bench.alter((((kind, name), ("ip", "1.2.3.4")), {R: 1.0}))
    assert told.code == INVALID
    how = 1 if name is None else 0
    told_of = bench.describe((kind, how, name), ("ip", 0, "1.2.3.4"))
    assert (told_of.code, told_of.values) == (INVALID, None)


# -- permissions and saving ---------------------------------------------------------------------------


def test_only_admins_alter() -> None:
    """Other users get an error for each entity, with the setting's name; they may still describe."""
    bench = Bench("root", "ops")
    (told, other) = bench.alter((ALICE, {R: 1.0}), (BOTH, {"bad": 1.0}), user="alice")
    assert told.entity == ALICE
    assert told.code == other.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert told.message == (
        "alice may not alter quotas: the setting admins of Sluice's policy quota does not name "
        "this principal"
    )
    assert bench.book.saved == b""
    assert bench.alter((ALICE, {R: 1.0}), user="ops") == [Answer(ALICE, 0, None)]
    assert bench.describe().values == {ALICE: {R: 1.0}}


@pytest.mark.parametrize(
    ("admins", "user", "code"),
    [
        (["root"], "ANONYMOUS", 31),
        (["root"], "anybody", 0),
        (["root", "ANONYMOUS"], "ANONYMOUS", 0),
        ([], "ANONYMOUS", 0),
    ],
)
def test_an_anonymous_client_may_not_describe_where_admins_are_named(
    admins: list[str], user: str, code: int
) -> None:
    """It gets no cached reply of an authenticated client either."""
    book = Book()
    asked = BenchRequest(api_of(DESCRIBE, 1), body=describe_body())
    rules = QuotaAdminSettings(Crowd(admins, {}), 1, False, "quota")
    mine = QuotaAdmin(book, rules)
    for who in ("root", user):
        verdict = mine.on_request(asked, peer_of(who), 0)
        assert isinstance(verdict, Respond)
    told = read_describe_reply(verdict.body)
    assert (told.code, told.values) == (code, None if code else {})


def test_one_of_several_replicas_alters_no_quota() -> None:
    """An admin is refused too, and the reply says why."""
    bench = Bench(replicas=3)
    (told,) = bench.alter((ALICE, {R: 1.0}))
    assert told.code == ErrorCode.POLICY_VIOLATION
    assert "one of 3 replicas" in (told.message or "")
    assert bench.describe().values == {}


def test_an_alteration_that_cannot_be_saved_is_not_applied() -> None:
    """Each entity of it gets an error; an invalid one keeps its own reason."""
    bench = Bench()
    bench.alter((ALICE, {R: 1.0}))
    bench.book.fault = OSError(28, "No space left on device")
    bad, good = bench.alter((BOTH, {R: 0.0}), (ALICE, {R: 2.0}))
    assert bad.code == INVALID
    assert good.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert good.message == (
        "The change could not be saved, so it was not made: No space left on device"
    )
    assert bench.values(ALICE) == {R: 1.0}


def test_each_entity_of_a_request_is_altered_by_itself() -> None:
    """A refused entity does not stop the others."""
    bench = Bench()
    bob: Named = (("user", "bob"),)
    told = bench.alter((ALICE, {R: 5.0, P: 1.5}), (bob, {R: 5.0}))
    assert [each.code for each in told] == [INVALID, 0]
    assert bench.describe().values == {bob: {R: 5.0}}


def test_a_change_of_nothing_is_not_saved() -> None:
    """An alteration to the present value writes no file and makes no new revision."""
    bench = Bench()
    bench.alter((ALICE, {R: 5.0}))
    bench.book.fault = OSError("must not be reached")
    assert bench.alter((ALICE, {R: 5.0, P: None})) == [Answer(ALICE, 0, None)]
    assert bench.alter() == []


def test_a_null_name_means_the_default() -> None:
    """As in Kafka's tools; the quota manager calls it `<default>`."""
    bench = Bench()
    default: Named = (("user", None), ("client-id", None))
    bench.alter((default, {R: 7.0}))
    assert bench.book.quotas.get(QuotaEntity(DEFAULT_NAME, DEFAULT_NAME), R) == 7.0
    assert bench.describe(("user", 1, None)).values == {default: {R: 7.0}}


# -- the broker's part ------------------------------------------------------------------------------


def test_the_brokers_own_keys_are_forwarded() -> None:
    """With forward_other_keys, a request of any user about only
    broker keys or ips is forwarded; a mixed one is refused.
    """
    bench = Bench(forward=True)
    percent: Ops = {"request_percentage": 50.0, "controller_mutation_rate": None}
    by_ip: tuple[Named, Ops] = ((("ip", "1.2.3.4"),), {"connection_creation_rate": 5.0})
    assert bench.ask(ALTER, alter_body([(ALICE, percent), by_ip]), "stranger") is FORWARD
    assert bench.ask(DESCRIBE, describe_body([("ip", 2, None)])) is FORWARD
    for mixed in ([(ALICE, percent), (BOTH, {R: 1.0})], [(ALICE, {**percent, R: 1.0})]):
        told = bench.alter(*mixed)
        assert {each.code for each in told} == {INVALID}
        assert "alter them in two requests" in (told[0].message or "")
    assert bench.alter((ALICE, {R: 1.0})) == [Answer(ALICE, 0, None)]
    assert bench.alter((ALICE, {})) == [Answer(ALICE, 0, None)]
    assert bench.describe().values == {ALICE: {R: 1.0}}


def test_the_brokers_own_keys_are_refused_by_default() -> None:
    """The codes are Kafka's for keys unknown to a server."""
    bench = Bench()
    (told,) = bench.alter((ALICE, {"request_percentage": 50.0}))
    assert told.code == INVALID
    (told,) = bench.alter(((("ip", "1.2.3.4"),), {"connection_creation_rate": 5.0}))
    assert told.code == INVALID
    assert "forward_other_keys" in (told.message or "")
    described = bench.describe(("ip", 0, "1.2.3.4"))
    assert (described.code, described.values) == (ErrorCode.UNSUPPORTED_VERSION, None)


# -- repeated descriptions ----------------------------------------------------------------------------


def test_a_bad_filter_is_answered_with_its_error() -> None:
    """The reply has a code, a message and a null list, like Kafka's."""
    told = Bench().describe(("group", 0, "g"))
    assert told == Description(35, "Unsupported entity type group", None)


def test_a_description_is_cached_until_a_quota_changes() -> None:
    """A client that describes in a loop costs others almost nothing; no number of requests fills memory."""
    bench = Bench()
    bench.alter((ALICE, {R: 1.0}))
    body = describe_body()
    first = bench.ask(DESCRIBE, body)
    bench.now_ms = 10**9
    assert bench.ask(DESCRIBE, body) is first
    bench.version = 0
    assert bench.ask(DESCRIBE, describe_body(version=0)) is not first
    bench.version = 1
    bench.alter((ALICE, {R: 2.0}))
    assert bench.values(ALICE) == {R: 2.0}
    assert bench.ask(DESCRIBE, body) != first

    bench = Bench()
    first, long = (
        describe_body([("user", 0, "u")]),
        describe_body([("user", 0, "u" * admin.MAX_QUESTION_BYTES)]),
    )
    answer = bench.ask(DESCRIBE, first)

    assert bench.ask(DESCRIBE, first) is answer
    assert bench.ask(DESCRIBE, long) is not bench.ask(DESCRIBE, long)
    for number in range(admin.MAX_CACHED_REPLIES):
        bench.describe(("user", 0, f"u{number}"))
    assert bench.ask(DESCRIBE, first) is not answer


def test_a_cached_usage_expires_after_a_quarter_of_a_second_or_later_if_it_is_long() -> None:
    """Describing twenty thousand buckets takes long, and no other client is served meanwhile."""
    bench = Bench()
    assert bench.describe((USAGE, 2, None)).values == {
        ALICE: {"request_rate.limit": 10.0, "request_rate.rate": 5.0, "request_rate.waiting": 2.0}
    }
    bench.now_ms = 249
    bench.describe((USAGE, 2, None))
    assert bench.book.usages == 1
    bench.now_ms = 250
    bench.book.rows.clear()
    assert bench.describe((USAGE, 2, None)).values == {}
    assert bench.book.usages == 2

    bench = Bench()
    bench.book.rows = [
        BucketMetrics(f"u{n}", "", R, 1.0, 1.0, None, None, 0) for n in range(20_000)
    ]
    for number in range(20):
        bench.describe((USAGE, 2, None), ("user", 0, f"u{number}"))
        bench.now_ms += 100
    assert bench.book.usages == 1
    bench.describe((USAGE, 2, None), ("user", 0, "u0"))
    assert bench.book.usages == 2


@pytest.mark.parametrize("key", [DESCRIBE, ALTER])
@pytest.mark.parametrize("body", [b"", b"\xff" * 20, b"\x00"])
def test_a_malformed_body_ends_the_connection(key: int, body: bytes) -> None:
    """No other connection is affected."""
    assert Bench().ask(key, body) == Reject(INVALID, close=True)
