"""`quota`: the requests it sees, the effect of a live change, and what a reload keeps."""

from dataclasses import replace

import pytest

from policies.api import FORWARD, Hold, Need, Peer, PolicyConfigError, QuotaViolation, Throttle
from policies.discovery import available
from policies.limits import Limits, LimitsConfig
from policies.quota.alter import Change
from policies.quota.entity import QuotaEntity
from policies.quota.manager import SHARED_BUCKETS
from policies.quota.policy import Quota
from policies.registry import PolicyEntry, inspect
from policies.testing import BenchHost, PolicyBench
from wire.apis import OFFERED, RECORDS_IN_REPLIES, RECORDS_IN_REQUESTS, SIGN_ON, ApiKey

ADMIN = {ApiKey.DESCRIBE_CLIENT_QUOTAS, ApiKey.ALTER_CLIENT_QUOTAS}
ALICE = QuotaEntity("alice")
PEER = Peer(1, "127.0.0.1", 50_000, client_id="c", user="alice")
WHY = QuotaViolation("user=alice", "request_rate", 2.0, 1.0, "bench")
MODES = pytest.mark.parametrize("enforcement", ["entity", "channel"])


def bench(*quotas: dict[str, object], **settings: object) -> PolicyBench:
    return PolicyBench(Quota, {"quotas": list(quotas), **settings}, 1000)


def test_it_is_found_by_its_entry_point_and_takes_its_own_settings():
    """The registry converts the settings before it builds the policy."""
    assert available()[PolicyEntry(use="quota").use] is Quota

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
    ("key", "moving", "need"),
    [
        ("producer_byte_rate", RECORDS_IN_REQUESTS, Need.HEADER),
        ("consumer_byte_rate", RECORDS_IN_REPLIES, Need.HEAD),
    ],
)
def test_a_byte_rate_alone_needs_the_apis_that_move_records(enforcement, key, moving, need):
    """A Fetch and a ShareFetch are needed with their heads, because they are limited."""
    made = bench({"user": "alice", key: 1000}, enforcement=enforcement)
    assert made.policy.apis == moving | ADMIN
    for api in moving:
        assert made.chain.hooks(api).on_request is not None
        assert made.chain.hooks(api).need is need
    assert made.chain.hooks(ApiKey.METADATA).on_request is None


def test_in_entity_mode_only_fetch_replies_are_observed():
    """And those only while there is a consumer_byte_rate."""
    assert bench({"user": "alice", "request_rate": 5}).policy.response_apis == frozenset()
    assert (
        bench({"user": "alice", "consumer_byte_rate": 5}).policy.response_apis == RECORDS_IN_REPLIES
    )
    channel = bench({"user": "alice", "request_rate": 5}, enforcement="channel")
    assert channel.chain.hooks(ApiKey.METADATA).on_response is not None


@MODES
def test_a_request_rate_sees_every_request_but_those_of_a_sign_on(enforcement):
    """Also of APIs outside the table, which `pass_unknown_apis` may let through; the core says which sign on."""
    made = bench({"user": "alice", "request_rate": 5}, enforcement=enforcement)
    assert made.policy.apis >= OFFERED.keys() | {200}
    for key in SIGN_ON:
        hooks = made.chain.hooks(key, signs_on=True)
        assert (hooks.on_request, hooks.on_response) == (None, None)
        assert made.chain.hooks(key).on_request is not None


@MODES
def test_only_named_principals_are_exempt(enforcement):
    """A client that uses the name as its client id is not exempt."""
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
def test_a_live_change_recompiles_the_chain_only_if_other_apis_are_needed(enforcement):
    """The first and the last quota of a kind do; another value does not."""
    made = bench(enforcement=enforcement)
    asked = made.request("Metadata")
    assert made.chain.hooks(asked.api_key) == made.chain.hooks(asked.api_key)
    for value, times in ((5.0, 1), (6.0, 1), (None, 2), (7.0, 3)):
        made.policy.change([Change(ALICE, "request_rate", value)], 1000)
        assert made.host.reconsidered == times
        assert (made.chain.hooks(asked.api_key).on_request is None) == (value is None)


def test_a_live_change_holds_for_all_connections_from_the_next_request_on():
    """Samples and debts stay."""
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
def test_a_throttle_is_reviewed_by_the_present_limit(enforcement, value):
    """A throttle of one request in 100,000 s ends when the limit is raised or removed."""
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


def test_repeated_raises_of_a_limit_grant_no_extra_burst():
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


def test_the_running_policys_overrides_are_those_of_a_reload():
    """They beat the state file as it was read, and a state file that a reload adds has them."""
    old = bench({"user": "alice", "request_rate": 1})
    old.policy.change([Change(ALICE, "request_rate", 10.0)], 1000)
    new = bench({"user": "alice", "request_rate": 1}, state_file="state/quotas.json")
    new.policy.adopt(old.policy)
    again = Quota(new.policy.config, BenchHost(files=new.host.files))
    assert again.quotas.overrides == {ALICE: {"request_rate": 10.0}}

    old = bench({"user": "alice", "request_rate": 1}, state_file="state/quotas.json")
    old.policy.change([Change(ALICE, "request_rate", 10.0)], 1000)
    heir = Quota(old.policy.config, BenchHost(files=dict(old.host.files)))
    assert heir.quotas.overrides == {ALICE: {"request_rate": 10.0}}
    old.policy.change([Change(ALICE, "request_rate", None)], 1001)
    heir.adopt(old.policy)
    assert heir.quotas.overrides == {}


def test_one_state_file_for_two_entries_is_refused():
    """Each would overwrite the other's overrides."""
    config = {"quotas": [], "state_file": "state/quotas.json"}
    again = {**config, "state_file": "state/../state/quotas.json"}
    (problem,) = inspect(
        [PolicyEntry(use="quota", config=config), PolicyEntry(use="quota", name="b", config=again)]
    )
    assert problem.path == "policies[1].config.state_file"
    assert "the entry quota keeps its state in the same file" in str(problem)


def test_the_bound_on_buckets_made_from_a_default_holds_over_reloads():
    """The count of the previous policy continues."""
    settings = {"max_default_buckets": 10}
    made = bench({"user": "<default>", "request_rate": 0.001}, **settings)
    for reload in range(5):
        for number in range(20):
            asked = made.request("Metadata")
            made.ask(asked, replace(PEER, session_id=number, user=f"u{reload}-{number}"))
        new = bench({"user": "<default>", "request_rate": 0.001}, **settings)
        new.policy.adopt(made.policy)
        made = new
    assert len(list(made.policy.manager)) <= 10 + SHARED_BUCKETS


def test_a_reload_reviews_present_throttles():
    """The new policy's limits count from the loop's next step on."""
    old = bench({"user": "alice", "request_rate": 0.001})
    new = bench({"user": "alice", "request_rate": 1000})
    old.ask(old.request("Metadata"), PEER)
    new.policy.adopt(old.policy)
    assert new.host.reviews == []
    new.advance(0)
    assert new.host.reviews[-1](PEER, WHY) <= new.now_ms + 1


def test_overrides_are_kept_in_the_state_file():
    """A new process reads them; a removed override is gone from the file."""
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


def test_a_state_file_that_cannot_be_written_or_read_is_an_error():
    """The change is not made, and Sluice does not start with half of the quotas."""
    made = bench(state_file="quotas.json")
    made.host.disk_full = True
    with pytest.raises(OSError, match="No space"):
        made.policy.change([Change(ALICE, "request_rate", 10.0)], 1000)
    assert list(made.policy.quotas) == []
    assert made.policy.apis == ADMIN

    with pytest.raises(PolicyConfigError, match="state_file"):
        Quota(
            Quota.Config(state_file="quotas.json"),
            BenchHost(files={"quotas.json": b"not json"}),
        )


@MODES
def test_a_reload_keeps_samples_debts_and_overrides(enforcement):
    """The limits are those of the new file."""
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


def test_a_policy_of_another_kind_leaves_nothing_to_adopt():
    """An entry may keep its name and change its policy."""
    made = bench({"user": "alice", "request_rate": 1})
    made.policy.adopt(Limits(LimitsConfig(), BenchHost()))
    assert [(each.key, each.value) for each in made.policy.quotas] == [("request_rate", 1)]
    assert made.ask(made.request("Metadata"), PEER) is FORWARD


def test_in_mode_observe_every_request_passes_and_is_counted():
    """No request is queued, because none really waits."""
    made = bench({"user": "alice", "request_rate": 1})
    for _ in range(10):
        made.policy.on_request(made.request("Metadata"), PEER, made.now_ms)  # its Hold is ignored
    made.advance(5000)
    assert made.policy.on_request(made.request("Metadata"), PEER, made.now_ms) is FORWARD
