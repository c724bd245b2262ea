"""Replies on the bench: bodies, errors and results, as the core gives them."""

import msgspec
import pytest

from policies.api import FORWARD, Deny, Need, Outcome, Policy, Reject, Replace, Respond, Throttle
from policies.testing import BenchEntry, PolicyBench
from wire.apis import ApiKey
from wire.errors import ErrorCode


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No setting."""


class Replies(Policy):
    """Replaces a Heartbeat's reply that has an error, and notes errors and results."""

    Config = NoSettings
    apis = hears_body = frozenset({ApiKey.HEARTBEAT})

    def __init__(self, config, host):
        super().__init__(config, host)
        self.errors = []
        self.results = []

    def on_response(self, request, response, peer, now_ms):
        self.errors.append(None if response.errors is None else dict(response.errors))
        return Replace(response.body[:4] + b"\0\x10" + b"\0") if response.errors else FORWARD

    def on_complete(self, request, outcome, peer, result, now_ms):
        self.results.append((result.errors and dict(result.errors), result.refused_by, peer))


def test_a_reply_has_a_body_errors_and_a_result():
    """As the core gives them; the client sees the body that the policy has put in."""
    bench = PolicyBench(Replies)
    request = bench.request("Heartbeat", 4)
    bench.ask(request)
    verdict = bench.reply(request, fields={"error_code": ErrorCode.REBALANCE_IN_PROGRESS})
    assert verdict == Replace(b"\0\0\0\0\0\x10\0")
    assert bench.client_sees(request, verdict).names == {"NOT_COORDINATOR"}
    assert bench.reply(bench.request("Heartbeat", 4), body=b"\0" * 7) is FORWARD
    assert bench.reply(bench.request("Heartbeat", 4)) is FORWARD
    assert bench.reply(bench.request("Heartbeat", 4), 1 << 30) is FORWARD  # too large to be kept
    assert bench.policy.errors == [{None: 27}, {}, {}, None]
    assert [errors for errors, _, _ in bench.policy.results] == [{None: 16}, {}, {}, None]
    assert {peer for _, _, peer in bench.policy.results} == {bench.peer}


@pytest.mark.parametrize(
    "verdict",
    [Reject(44, message="no"), Throttle(9, Reject(44)), Respond(b"", Reject(44)), Deny({"a": 44})],
    ids=str,
)
def test_a_refusal_is_in_the_result(verdict):
    """With the entry that refused; a part of a request counts."""

    class Refuses(Policy):
        Config = NoSettings
        needs = Need.TOPICS

        def on_request(self, request, peer, now_ms):
            return verdict

    bench = PolicyBench(Replies, then=[BenchEntry(Refuses, {}, "r")])
    request = bench.request("Heartbeat", 4)
    bench.ask(request)
    bench.complete(request, Outcome.ANSWERED)
    assert bench.policy.results == [(None, "r", bench.peer)]
