"""`quota`: what it wants to see, what a live change changes, and what outlives it."""

from __future__ import annotations

import pytest

from policies.api import FORWARD, Need, Peer, PolicyConfigError, Throttle
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from policies.quota.policy import Quota
from policies.registry import PolicyEntry, available
from policies.testing import BenchHost, PolicyBench
from wire.apis import OFFERED, ApiKey

ADMIN = {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}
ALICE = QuotaEntity("alice")
PEER = Peer(1, "127.0.0.1", 50_000, client_id="c", user="alice")
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
    assert bench({"user": "alice", "request_rate": 5}).policy.hears == frozenset()
    assert bench({"user": "alice", "consumer_byte_rate": 5}).policy.hears == {ApiKey.FETCH}
    channel = bench({"user": "alice", "request_rate": 5}, enforcement="channel")
    assert channel.chain.hooks(ApiKey.METADATA).on_response is not None


def test_a_request_rate_sees_every_api_but_sasl_with_those_outside_the_table():
    """`pass_unknown_apis` may let them through; a quota must hold for them, too."""
    apis = bench({"user": "alice", "request_rate": 5}).policy.apis
    assert apis >= set(OFFERED) - {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
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
    assert made.ask(made.request("Metadata"), PEER) is FORWARD
    made.policy.change([Change(ALICE, "request_rate", None)], made.now_ms)
    assert made.policy.quotas.get(ALICE, "request_rate") == 1
    (row,) = made.policy.usage(made.now_ms)
    assert (row.limit, row.rate) == (1, 0.4)


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
    made.host.full = True
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
