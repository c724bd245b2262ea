"""`quota`: what it wants to see, what a live change changes, and what outlives it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.api import FORWARD, Hold, Need, Peer, PolicyConfigError, QuotaViolation, Throttle
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from policies.quota.policy import Quota
from policies.registry import PolicyEntry, available, inspect
from policies.testing import BenchHost, PolicyBench
from wire.apis import OFFERED, ApiKey

ADMIN = {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}
ALICE = QuotaEntity("alice")
PEER = Peer(1, "127.0.0.1", 50_000, client_id="c", user="alice")
WHY = QuotaViolation("user=alice", "request_rate", 2.0, 1.0, "bench")
MODES = pytest.mark.parametrize("enforcement", ["entity", "channel"])


def bench(*quotas: dict[str, object], **settings: object) -> PolicyBench:
    return PolicyBench(Quota, {"quotas": list(quotas), **settings}, 1000)


def test_it_is_installed_under_its_name():
    """As a stranger's would be."""
    assert available()[PolicyEntry(use="quota").use] is Quota


def test_other_settings_than_its_own_are_an_error_of_the_caller():
    """Whoever builds it has read its Config."""
    with pytest.raises(PolicyConfigError):
        Quota(object(), BenchHost())


@MODES
def test_without_a_quota_only_the_management_of_quotas_is_seen(enforcement):
    """Every other API costs nothing."""
    made = bench(enforcement=enforcement)
    assert made.policy.apis == ADMIN
    for key in set(OFFERED) - ADMIN:
        hooks = made.chain.hooks(key)
        assert (hooks.on_request, hooks.on_response, hooks.on_complete) == (None, None, None)


@MODES
@pytest.mark.parametrize(
    ("key", "api", "need"),
    [
        ("producer_byte_rate", ApiKey.PRODUCE, Need.HEADER),
        ("consumer_byte_rate", ApiKey.FETCH, Need.HEAD),
    ],
)
def test_a_byte_rate_alone_needs_its_own_api(enforcement, key, api, need):
    """And a Fetch's head, for it is clipped."""
    made = bench({"user": "alice", key: 1000}, enforcement=enforcement)
    assert made.policy.apis == {api, *ADMIN}
    assert made.chain.hooks(api).need is need
    assert made.chain.hooks(ApiKey.METADATA).on_request is None


def test_in_entity_mode_no_reply_is_heard_but_a_fetchs():
    """And that only while there is a consumer_byte_rate."""
    assert bench({"user": "alice", "request_rate": 5}).policy.response_apis == frozenset()
    assert bench({"user": "alice", "consumer_byte_rate": 5}).policy.response_apis == {ApiKey.FETCH}
    channel = bench({"user": "alice", "request_rate": 5}, enforcement="channel")
    assert channel.chain.hooks(ApiKey.METADATA).on_response is not None


def test_a_request_rate_sees_every_api_but_sasl_with_those_outside_the_table():
    """`pass_unknown_apis` may let them through; a quota must hold for them, too."""
    apis = bench({"user": "alice", "request_rate": 5}).policy.apis
    assert set(OFFERED) - apis == {
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
    }
    assert not apis & {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
    assert 200 in apis


@MODES
def test_named_principals_are_exempt_and_nobody_else(enforcement):
    """Not who claims their name as a client id."""
    made = bench(
        {"user": "<default>", "request_rate": 0.1},
        enforcement=enforcement,
        cluster_principals=["mirror"],
    )

    def verdicts(user: str, client_id: str) -> list[object]:
        who = Peer(3, "h", 1, client_id=client_id, user=user)
        found = []
        for _ in range(5):
            asked = made.request("Fetch")
            asked.exchange_id += 1
            found += [made.ask(asked, who), made.reply(asked, peer=who)]
        return found

    assert set(verdicts("mirror", "c")) == {FORWARD}
    assert set(verdicts("eve", "mirror")) != {FORWARD}


@MODES
def test_a_live_change_has_the_chain_look_again_only_if_other_apis_are_wanted(enforcement):
    """The first quota of a kind, the last one of a kind; not another value."""
    made = bench(enforcement=enforcement)
    asked = made.request("Metadata")
    assert made.chain.hooks(asked.api_key) == made.chain.hooks(asked.api_key)
    for value, times in ((5.0, 1), (6.0, 1), (None, 2), (7.0, 3)):
        made.policy.change([Change(ALICE, "request_rate", value)], 1000)
        assert made.host.reconsidered == times
        assert (made.chain.hooks(asked.api_key).on_request is None) == (value is None)


def test_a_live_change_holds_for_all_connections_from_the_next_request_on():
    """With the samples and debts that are there."""
    made = bench({"user": "alice", "request_rate": 1})
    verdicts = [made.ask(made.request("Metadata"), PEER) for _ in range(3)]
    assert verdicts == [FORWARD, FORWARD, Throttle(1000)]
    made.policy.change([Change(ALICE, "request_rate", 10.0)], made.now_ms)
    assert made.host.reviews[-1](PEER, verdicts[2].why) == made.now_ms + 100
    made.advance(100)  # one request is owed: a tenth of a second
    assert isinstance(made.ask(made.request("Metadata"), PEER), Throttle)
    made.policy.change([Change(ALICE, "request_rate", None)], made.now_ms)
    assert made.policy.quotas.get(ALICE, "request_rate") == 1
    (row,) = made.policy.usage(made.now_ms)
    assert (row.limit, row.rate) == (1, pytest.approx(0.4, abs=0.01))


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
@pytest.mark.parametrize("value", [1000.0, None])
def test_a_throttle_is_reviewed_by_the_limit_that_holds_now(enforcement, value):
    """A limit of one request in 100,000 s gave it; raised or removed, it ends."""
    config = {"quotas": [], "enforcement": enforcement, "quota_window_size_seconds": 3600}
    made = PolicyBench(Quota, config, 1_700_000_000_000)
    made.policy.change([Change(ALICE, "request_rate", 0.00001)], made.now_ms)
    asked = made.request("Metadata")
    verdict = made.ask(asked, PEER)
    if enforcement == "channel":
        verdict = made.reply(asked, peer=PEER)
    assert verdict.throttle_time_ms >= 3_600_000
    assert verdict.why.policy == made.host.name
    made.policy.change([Change(ALICE, "request_rate", value)], made.now_ms)
    until_ms = made.host.reviews[-1](PEER, verdict.why)
    assert until_ms <= made.now_ms + 1


def test_raising_a_limit_again_and_again_grants_no_burst_that_was_not_saved():
    """From 50 to 100 and back, each second for ten seconds, with a client that takes all it gets."""
    made = bench({"user": "alice", "request_rate": 50})
    passed = 0
    busy_until_ms = 0
    for at_ms in range(10_000):
        if at_ms % 1000 == 0:
            limit = 50.0 if at_ms % 2000 == 0 else 100.0
            made.policy.change([Change(ALICE, "request_rate", limit)], made.now_ms)
            busy_until_ms = min(busy_until_ms, made.host.reviews[-1](PEER, WHY))
        while made.now_ms >= busy_until_ms:
            verdict = made.ask(made.request("Metadata"), PEER)
            assert not isinstance(verdict, Hold)
            passed += 1
            if isinstance(verdict, Throttle):
                busy_until_ms = made.now_ms + verdict.throttle_time_ms
        made.advance(1)
    assert (
        passed <= 100 * 5 + 50 * 5 + 50 * 2 + 10 + 1
    )  # the rates, the first burst, one owed a change


def test_a_state_file_that_a_reload_adds_holds_the_live_changes_of_that_moment():
    """The next start finds them."""
    old = bench({"user": "alice", "request_rate": 1})
    old.policy.change([Change(ALICE, "request_rate", 10.0)], 1000)
    new = bench({"user": "alice", "request_rate": 1}, state_file="state/quotas.json")
    new.policy.adopt(old.policy)
    again = Quota(new.policy.config, BenchHost(files=new.host.files))
    assert again.quotas.overrides == {ALICE: {"request_rate": 10.0}}


def test_a_live_change_taken_back_while_a_reload_reads_the_state_file_stays_taken_back():
    """The policy that runs knows better than the file as it was read."""
    old = bench({"user": "alice", "request_rate": 1}, state_file="state/quotas.json")
    old.policy.change([Change(ALICE, "request_rate", 10.0)], 1000)
    heir = Quota(old.policy.config, BenchHost(files=dict(old.host.files)))
    assert heir.quotas.overrides == {ALICE: {"request_rate": 10.0}}
    old.policy.change([Change(ALICE, "request_rate", None)], 1001)
    heir.adopt(old.policy)
    assert heir.quotas.overrides == {}


def test_one_state_file_for_two_entries_is_refused():
    """Each would overwrite what the other has saved."""
    config = {"quotas": [], "state_file": "state/quotas.json"}
    again = {**config, "state_file": "state/../state/quotas.json"}
    (problem,) = inspect(
        [PolicyEntry(use="quota", config=config), PolicyEntry(use="quota", name="b", config=again)]
    )
    assert problem.path == "policies[1].config.state_file"
    assert "the entry quota keeps its state in the same file" in str(problem)


def test_the_bound_on_buckets_made_from_a_default_holds_over_reloads():
    """What the policy before has counted is counted on."""
    settings = {"max_default_buckets": 10}
    made = bench({"user": "<default>", "request_rate": 0.001}, **settings)
    for reload in range(5):
        for number in range(20):
            asked = made.request("Metadata")
            made.ask(asked, replace(PEER, session_id=number, user=f"u{reload}-{number}"))
        new = bench({"user": "<default>", "request_rate": 0.001}, **settings)
        new.policy.adopt(made.policy)
        made = new
    tables = made.policy.manager._tables["request_rate"]
    assert len(tables) <= 10


def test_a_reload_reviews_the_throttles_that_the_policy_before_gave():
    """By the limits of the new one, as soon as the loop has its next turn."""
    old = bench({"user": "alice", "request_rate": 0.001})
    new = bench({"user": "alice", "request_rate": 1000})
    old.ask(old.request("Metadata"), PEER)
    new.policy.adopt(old.policy)
    assert new.host.reviews == []
    new.advance(0)
    assert new.host.reviews[-1](PEER, WHY) <= new.now_ms + 1


def test_live_changes_are_kept_in_the_state_file():
    """And are there again when the process starts anew; taken back, they are gone from it."""
    made = bench({"user": "alice", "request_rate": 1}, state_file="state/quotas.json")
    made.policy.change([Change(ALICE, "request_rate", 10.0)], 1000)
    made.policy.change([Change(QuotaEntity(None, "c"), "producer_byte_rate", 5.0)], 1000)
    config = made.policy.config
    again = Quota(config, BenchHost(files=made.host.files))
    assert again.quotas.overrides == made.policy.quotas.overrides
    assert again.quotas.get(ALICE, "request_rate") == 10
    assert ApiKey.PRODUCE in again.apis
    again.change([Change(ALICE, "request_rate", None)], 1000)
    once_more = Quota(config, BenchHost(files=again.host.files))
    assert once_more.quotas.get(ALICE, "request_rate") == 1


def test_what_cannot_be_saved_is_not_changed():
    """The caller hears why."""
    made = bench(state_file="quotas.json")
    made.host.disk_full = True
    with pytest.raises(OSError, match="No space"):
        made.policy.change([Change(ALICE, "request_rate", 10.0)], 1000)
    assert list(made.policy.quotas) == []
    assert made.policy.apis == ADMIN


def test_a_state_file_that_is_no_state_is_told_by_its_setting():
    """Rather than start with half of the quotas."""
    with pytest.raises(PolicyConfigError, match="state_file"):
        Quota(
            Quota.Config(state_file="quotas.json"),
            BenchHost(files={"quotas.json": b"not json"}),
        )


@MODES
def test_a_reload_keeps_what_was_counted_owed_and_set_live(enforcement):
    """With the new file's limits."""
    made = bench({"user": "alice", "request_rate": 1}, enforcement=enforcement)
    made.policy.change([Change(ALICE, "producer_byte_rate", 7.0)], 1000)
    for _ in range(2):
        asked = made.request("Metadata")
        made.ask(asked, PEER)
        made.reply(asked, peer=PEER)
    after = bench({"user": "alice", "request_rate": 2}, enforcement=enforcement)
    after.policy.adopt(made.policy)
    assert [(each.key, each.value) for each in after.policy.quotas] == [
        ("request_rate", 2),
        ("producer_byte_rate", 7),
    ]
    rates = {each.key: each.rate for each in after.policy.usage(1000)}
    assert rates["request_rate"] == pytest.approx(2 / 10)
    assert ApiKey.PRODUCE in after.policy.apis


def test_managing_quotas_is_a_request_like_any_other():
    """Counted and throttled, and answered here."""
    made = bench({"user": "alice", "request_rate": 1})
    for _ in range(2):
        made.ask(made.request("Metadata"), PEER)
    verdict = made.ask(made.request("DescribeClientQuotas", body=b""), PEER)
    assert isinstance(verdict, Throttle)
    assert verdict.throttle_time_ms == 1000
    assert verdict.forward is not FORWARD


def test_what_nobody_uses_for_an_hour_is_forgotten_by_and_by():
    """A look at some buckets every second."""
    made = bench({"user": "<default>", "request_rate": 5})
    made.ask(made.request("Metadata"), PEER)
    assert len(list(made.policy.usage(made.now_ms))) == 1
    made.advance(3_602_000)
    assert list(made.policy.usage(made.now_ms)) == []


def test_observed_only_it_lets_everything_pass_and_goes_on_counting():
    """Nobody who is said to wait is waited for."""
    made = bench({"user": "alice", "request_rate": 1})
    for _ in range(10):
        made.policy.on_request(made.request("Metadata"), PEER, made.now_ms)  # its Hold is ignored
    made.advance(5000)
    assert made.policy.on_request(made.request("Metadata"), PEER, made.now_ms) is FORWARD
