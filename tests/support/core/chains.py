"""Chains of policies that keep one diary, so that a test can read who was called in which order."""

from policies.api import FORWARD, Forward, Need, Outcome, Peer, Policy, Reject, Throttle, Verdict
from policies.chain import Chain, Entry
from policies.responses import UNKNOWN
from policies.testing import BenchHost, BenchReporter, BenchRequest, BenchResponse
from wire import apis
from wire.apis import ApiKey
from wire.errors import ErrorCode

PEER = Peer(1, "10.0.0.9", 40000)
REFUSED = Reject(ErrorCode.POLICY_VIOLATION)


class Told(Policy):
    """Writes into a diary shared with the others; `verdicts` by hook, an exception is raised.

    A list is said one after the other, and then FORWARD.
    """

    Config = dict

    def __init__(self, name, diary, apis=None, needs=Need.HEADER, response_apis=None, **verdicts):
        super().__init__({}, BenchHost(name))
        self.diary = diary
        self.apis = apis
        self.needs = needs
        self.response_apis = response_apis
        self.verdicts = verdicts

    def answer(self, hook: str) -> Verdict:
        self.diary.append(f"{self.host.name} {hook}")
        verdict = self.verdicts.get(hook, FORWARD)
        if isinstance(verdict, list):
            verdict = verdict.pop(0) if verdict else FORWARD
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def on_connect(self, peer, now_ms):
        return self.answer("connect")

    def on_request(self, request, peer, now_ms):
        return self.answer("request")

    def on_response(self, request, response, peer, now_ms):
        return self.answer("response")

    def on_complete(self, request, outcome, peer, result, now_ms):
        self.answer("complete")

    def on_disconnect(self, peer, now_ms):
        self.answer("disconnect")

    def on_tick(self, now_ms):
        self.answer("tick")

    def close(self):
        self.answer("close")


class OnlyCounts(Policy):
    """Decides nothing; hears how requests end."""

    Config = dict

    def __init__(self, needs=Need.HEADER):
        super().__init__({}, BenchHost("counts"))
        self.needs = needs
        self.ends: list[Outcome] = []

    def on_complete(self, request, outcome, peer, result, now_ms):
        self.ends.append(outcome)


def make(*policies, modes=None, on_errors=None) -> tuple[Chain, BenchReporter]:
    reporter = BenchReporter()
    modes = modes or {}
    on_errors = on_errors or {}
    entries = [
        Entry(
            each.host.name,
            each,
            modes.get(each.host.name, "enforce"),
            on_errors.get(each.host.name, "close"),
        )
        for each in policies
    ]
    return Chain(entries, reporter), reporter


def request(key: int = ApiKey.HEARTBEAT) -> BenchRequest:
    facts = apis.find(key, apis.OFFERED[key][1])
    assert facts is not None
    return BenchRequest(facts)


def ask(chain: Chain, asked: BenchRequest) -> Verdict:
    """The question alone."""
    on_request = chain.hooks(asked.api_key).on_request
    assert on_request is not None
    return on_request(asked, PEER, 5)


def ask_again(chain: Chain, asked: BenchRequest, verdict: Verdict | None = None) -> Verdict:
    """Go on with a held request, as when it is woken; or (with a verdict) at its deadline."""
    on_hold_over = chain.hooks(asked.api_key).on_hold_over
    assert on_hold_over is not None
    return on_hold_over(asked, PEER, 6, verdict)


def hear(chain: Chain, asked: BenchRequest) -> Forward | Throttle:
    """The reply alone."""
    on_response = chain.hooks(asked.api_key).on_response
    assert on_response is not None
    return on_response(asked, BenchResponse(), PEER, 7)


def walk(chain: Chain, asked: BenchRequest | None = None) -> Verdict:
    """One request, from the question to its end."""
    asked = asked or request()
    hooks = chain.hooks(asked.api_key)
    assert hooks.on_request is not None
    assert hooks.on_response is not None
    assert hooks.on_complete is not None
    verdict = hooks.on_request(asked, PEER, 5)
    if isinstance(verdict, Forward):
        hooks.on_response(asked, BenchResponse(), PEER, 6)
        hooks.on_complete(asked, Outcome.REPLIED, PEER, UNKNOWN, 6)
    else:
        hooks.on_complete(asked, Outcome.ANSWERED, PEER, UNKNOWN, 5)
    return verdict
