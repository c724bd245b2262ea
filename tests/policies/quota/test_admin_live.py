"""Managing quotas through the policy: a change over the protocol is saved, and holds from the next request on."""

import pytest

from policies.api import FORWARD, Hold, Peer, PolicyConfigError, QuotaViolation, Respond, Throttle
from policies.chain import Chain, Entry
from policies.quota.entity import QuotaEntity
from policies.quota.overrides import decode
from policies.quota.policy import Quota
from policies.testing import BenchHost, BenchReporter, BenchRequest, PolicyBench
from policies.validation import try_convert
from tests.support.messages.quota_messages import (
    Named,
    alter_body,
    describe_body,
    read_alter_reply,
)

FILE = "quotas.json"
ME: Named = (("client-id", "bench"),)
RATE = "request_rate"


def bench_with(**config: object) -> PolicyBench:
    return PolicyBench(Quota, {"admins": ["ANONYMOUS"], "state_file": FILE, **config})


def altering(bench: PolicyBench, value: float | None, key: str = RATE) -> BenchRequest:
    return bench.request("AlterClientQuotas", body=alter_body([(ME, {key: value})]))


def answered(verdict: object) -> list[int]:
    if isinstance(verdict, Throttle):
        verdict = verdict.forward
    assert isinstance(verdict, Respond), verdict
    return [each.code for each in read_alter_reply(verdict.body)]


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_a_change_holds_at_once(enforcement: str) -> None:
    """A client without a limit is limited after one alteration, and free again after another."""
    bench = bench_with(enforcement=enforcement)
    heartbeat = bench.request("Heartbeat")
    assert bench.chain.hooks(heartbeat.api_key).on_request is None
    assert answered(bench.ask(altering(bench, 1.0))) == [0]
    assert decode(bench.host.files[FILE]) == {QuotaEntity(None, "bench"): {RATE: 1.0}}
    verdicts = []
    for _ in range(20):
        request = bench.request("Heartbeat")
        verdicts.append(bench.ask(request))
        if verdicts[-1] is FORWARD:
            verdicts.append(bench.reply(request))
    assert any(isinstance(each, Throttle | Hold) for each in verdicts)
    bench.advance(60_000)
    assert answered(bench.ask(altering(bench, None))) == [0]
    assert decode(bench.host.files[FILE]) == {}
    assert bench.chain.hooks(heartbeat.api_key).on_request is None


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_an_entry_that_observes_alters_nothing_and_lets_the_request_through(
    enforcement: str,
) -> None:
    """Neither quotas nor file change; the broker gets the request, and the reply that was not sent is reported."""
    settings = {"admins": ["ANONYMOUS"], "state_file": FILE, "enforcement": enforcement}
    config, _ = try_convert(Quota.Config, settings, "config")
    host, reporter = BenchHost("quota", observes=True), BenchReporter()
    policy = Quota(config, host)
    chain = Chain([Entry("quota", policy, mode="observe")], reporter)
    request = bench_with().request("AlterClientQuotas", body=alter_body([(ME, {RATE: 1.0})]))
    ask = chain.hooks(request.api_key).on_request
    assert ask is not None
    assert ask(request, Peer(1, "127.0.0.1", 50_000, client_id="bench"), 0) is FORWARD
    assert (policy.quotas.overrides, host.files, host.reconsidered) == ({}, {}, 0)
    ((name, verdict),) = reporter.observed
    assert (name, answered(verdict)) == ("quota", [0])


def test_an_alteration_without_permission_is_reported_as_a_refusal() -> None:
    """The reply has the API's own shape; operators see its code and message as of any refusal."""
    bench = bench_with(admins=["root"])
    verdict = bench.ask(altering(bench, 1.0))
    assert answered(verdict) == [31]
    assert isinstance(verdict, Respond)
    assert verdict.refuses is not None
    assert (verdict.refuses.code, verdict.refuses.message[:32]) == (
        31,
        "ANONYMOUS may not alter quotas: ",
    )
    assert bench.host.files == {}


def test_a_quota_request_is_charged_like_any_other() -> None:
    """An admin is throttled like any other client, for the same reason."""
    bench = bench_with(quotas=[{"client_id": "bench", RATE: 1.0}], burst_seconds=0)
    describe = describe_body()
    verdict = bench.ask(bench.request("DescribeClientQuotas", body=describe))

    assert isinstance(verdict, Throttle)
    assert verdict.throttle_time_ms == 1000
    assert verdict.why == QuotaViolation("client-id=bench", RATE, 1.1, 1.0, "bench")
    assert isinstance(verdict.forward, Respond)
    assert isinstance(bench.ask(bench.request("DescribeClientQuotas", body=describe)), Hold)
    bench.advance(1000)
    (released,) = bench.released
    assert isinstance(released.verdict, Throttle)
    assert isinstance(released.verdict.forward, Respond)


def test_a_state_file_that_cannot_be_read_is_refused() -> None:
    """If its path is a folder, the message names the setting and gives the system's error."""

    class Locked(BenchHost):
        def load(self, path: str) -> bytes | None:
            raise IsADirectoryError(21, "Is a directory", path)

    with pytest.raises(PolicyConfigError, match="cannot be read: Is a directory") as caught:
        Quota(Quota.Config(state_file=FILE), Locked())
    assert caught.value.path == "state_file"
