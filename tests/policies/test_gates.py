"""Gates: where a policy's quick check takes the place of its `on_request`, and what a bad one costs."""

import pytest

from policies.api import FORWARD, Outcome, Policy, Throttle
from policies.chain import Chain, Entry
from policies.hook_runner import HookRunner
from policies.testing import BenchReporter
from proxy.core.engine import Engine
from proxy.core.errors import CloseReason
from proxy.core.session.plan_book import MEASURED_EVERY
from proxy.core.topology import Topology
from tests.support.core.policies import Recorder
from tests.support.core.sessions import Watcher, Wire
from tests.support.messages import frames as f
from wire.apis import ApiKey

PASSES = True


class Gated(Policy):
    """Has a gate that returns, or raises, what it is given; remembers what was asked where."""

    Config = dict

    def __init__(self, says: object = PASSES, *, verdict=FORWARD):
        self.says, self.verdict = says, verdict
        self.opened, self.passed, self.asked = [], [], []

    def gate(self, api_key, acks, peer):
        self.opened.append((api_key, acks, peer.client_id))

        def gate(size_bytes, now_ms):
            self.passed.append(size_bytes)
            if isinstance(self.says, BaseException):
                raise self.says
            return self.says

        return gate

    def on_request(self, request, peer, now_ms):
        self.asked.append(request.correlation_id)
        return self.verdict


class Told(Gated):
    """Wants to know how its requests end."""

    def on_complete(self, request, outcome, peer, result, now_ms):
        pass


class Hears(Gated):
    """Wants to hear the replies."""

    def on_response(self, request, response, peer, now_ms):
        return FORWARD


class NoGate(Gated):
    """Has none."""

    gate = Policy.gate


class Odd(Gated):
    """Returns something else than a gate, or raises."""

    def gate(self, api_key, acks, peer):
        if isinstance(self.says, BaseException):
            raise self.says
        return self.says


def wire_of(*policies: Policy, clock=None, **entry: str) -> Wire:
    watcher = Watcher()
    entries = [Entry(f"p{n}", policy, **entry) for n, policy in enumerate(policies)]
    topology = Topology(
        "127.0.0.1", 19092, {n: ("127.0.0.1", 19093 + n) for n in range(4)}, watcher
    )
    chain = Chain(entries, watcher, HookRunner(watcher, clock))
    return Wire(Engine(topology, chain, watcher))


def test_a_gate_takes_the_place_of_on_request():
    """It is opened once for a client and API, by a request that passes it, too. So does one that is cut by reads."""
    policy = Gated()
    wire = wire_of(policy).client(f.heartbeat(1))
    for number in range(2, 6):
        wire.client(f.heartbeat(number))
    assert policy.opened == [(ApiKey.HEARTBEAT, None, "tests")]
    assert policy.asked == []
    assert policy.passed == [len(f.heartbeat(1)) - 4] * 5
    wire.broker(b"".join(map(f.heartbeat_reply, range(1, 6))))
    assert wire.to_client == b"".join(map(f.heartbeat_reply, range(1, 6)))
    wire.client(f.heartbeat(6), chunk=5)
    assert policy.asked == []
    assert policy.passed == [len(f.heartbeat(1)) - 4] * 6


@pytest.mark.parametrize("says", [False, None, 1, "yes", Throttle(5)])
def test_any_other_result_than_true_asks_the_policy(says):
    """A request that the gate does not pass gets its verdict from `on_request`."""
    policy = Gated(says, verdict=Throttle(500))
    wire = wire_of(policy).client(f.beat(1))
    wire.advance(500)
    wire.client(f.beat(2)).broker(f.beat_reply(1) + f.beat_reply(2))
    assert policy.asked == [1, 2]
    assert len(policy.passed) == 2
    assert wire.to_client.endswith(f.beat_reply(2, 500))


@pytest.mark.parametrize("error", [RuntimeError("bug"), SystemExit(3)])
def test_a_gate_that_raises_closes_the_session(error):
    """The fault is the gate's; what was forwarded before stays, and the request has one end."""
    policy = Gated()
    wire = wire_of(policy).client(f.heartbeat(1))
    policy.says = error
    wire.client(f.heartbeat(2) + f.heartbeat(3)).broker(f.heartbeat_reply(1))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert wire.watcher.policy_errors == [("p0", "gate")]
    assert wire.to_broker == f.heartbeat(1)
    assert wire.to_client == f.heartbeat_reply(1)
    (meter,) = wire.engine.meters.by_api()
    assert meter.outcomes[Outcome.DISCONNECTED] == 1
    wire.release()
    assert sum(row.requests for row in rows_of(wire)) == 2
    assert wire.watcher.internal == []


def rows_of(wire: Wire):
    wire.engine.usage._on_second = wire.watcher.on_second
    wire.engine.advance(wire.now_ms + 1000)
    return wire.watcher.rows


@pytest.mark.parametrize("says", [5, RuntimeError("bug")])
def test_a_policy_that_returns_no_gate_is_at_fault(says):
    """A wrong value and an exception close the session."""
    wire = wire_of(Odd(says)).client(f.heartbeat(1))
    assert wire.session.reason is CloseReason.POLICY_FAULT
    assert wire.watcher.policy_errors == [("p0", "gate")]
    assert wire.to_broker == b""


@pytest.mark.parametrize(
    ("policies", "entry"),
    [
        ((Told(),), {}),
        ((Hears(),), {}),
        ((NoGate(),), {}),
        ((Odd(None),), {}),
        ((Gated(), Recorder()), {}),
        ((Gated(), Gated()), {}),
        ((Gated(),), {"mode": "observe"}),
        ((Gated(),), {"on_error": "forward"}),
    ],
    ids=["told", "hears", "none", "refused", "another", "two", "observe", "forward"],
)
def test_where_more_than_a_gate_is_needed_the_policy_is_asked(policies, entry):
    """The rules of `policies.gates`, each."""
    wire = wire_of(*policies, **entry)
    for number in range(1, 4):
        wire.client(f.heartbeat(number))
    assert len(policies[0].asked) == 3
    assert policies[0].passed == []
    assert wire.watcher.policy_errors == []


def test_sessions_that_are_always_measured_and_requests_without_reply_have_no_gate():
    """The measured calls are those of `on_request`; how a request without reply ends is noted at once."""
    policy = Gated()
    wire = wire_of(policy)
    for number in range(1, 4):
        wire.client(f.produce(number, acks=0))
    assert (policy.opened, len(policy.asked)) == ([], 3)
    wire = wire_of(policy := Gated(), clock=lambda: 0)
    while wire.session.peer.session_id % MEASURED_EVERY:
        wire = Wire(wire.engine)
    for number in range(1, 4):
        wire.client(f.heartbeat(number))
    assert (policy.opened, len(policy.asked)) == ([], 3)


def test_after_a_slow_step_the_others_keep_their_gates():
    """A gate is quick, so the slow call was not there; a request that it does not pass gets a measured `on_request`."""
    wire = wire_of(policy := Gated(), clock=lambda: 0)
    runner = wire.engine.chain.hook_runner
    wire.client(f.heartbeat(1))
    wire.engine.on_slow_step(50)
    assert wire.engine.measuring_until_ms > 0
    for number in range(2, 5):
        wire.client(f.heartbeat(number))
    assert (policy.asked, len(policy.passed)) == ([], 4)
    policy.says = None
    wire.client(f.heartbeat(5))
    assert policy.asked == [5]
    assert runner.times["p0", "on_request"].calls == 1


def test_other_policies_of_the_same_chain_do_not_matter_for_an_api_they_do_not_judge():
    """Interests decide, as for all hooks."""
    policy = Gated()
    other = Recorder(apis={ApiKey.FETCH})
    wire = wire_of(policy, other)
    for number in range(1, 4):
        wire.client(f.heartbeat(number))
    assert (policy.asked, len(policy.passed)) == ([], 3)


def test_opening_a_gate_is_guarded_like_a_hook():
    """The reporter hears of an exception with the hook's name."""
    reporter = BenchReporter()
    chain = Chain([Entry("q", Odd(ValueError("no")))], reporter)
    open_gate = chain.hooks(ApiKey.FETCH).open_gate
    assert open_gate is not None
    with pytest.raises(Exception, match="policy q, gate: it raised ValueError"):
        open_gate(ApiKey.FETCH, None, None)
    assert [name for name, hook, _ in reporter.errors if hook == "gate"] == ["q"]
