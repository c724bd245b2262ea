"""The core's counts and traces compared with a policy's records and the client's bytes, for random conversations.

The policy records each call, and the test's wire integrates time itself, so nothing here depends on the counters.
"""

import struct
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from policies.api import EXEMPT, FORWARD, Hold, Need, Outcome, Policy, Reject, Throttle
from policies.testing import BenchHost
from proxy.core.errors import CloseReason
from tests.support.core.ledger import TimedWire, make_counting_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import KINDS, SILENT
from wire.errors import ErrorCode

REFUSE = Reject(ErrorCode.POLICY_VIOLATION)
NAMES = ("heartbeat-v1", "heartbeat-v0", "produce-v3", "fetch-v4", "metadata-v3", "silent")
ALL = {**KINDS, "silent": SILENT}
KEYS = 3
START_MS = 1_700_000_000_700
EDGE_US = 1000
"""Stages and the time at the broker add up to a request's whole time, within this error."""


@dataclass(frozen=True)
class Asked:
    """One request, the policy's verdicts on it, and the pieces in which it arrives."""

    name: str = "heartbeat-v1"
    holds: int = 0
    throttles: bool = True
    verdict: object = FORWARD
    reply_ms: int = 0
    cuts: tuple[int, ...] = ()
    """Where it is cut, in per mille."""
    gap_us: int = 0
    """The time between the pieces and after the last one."""


@dataclass(frozen=True)
class Answered:
    """The broker answers this many of the requests it has, in two pieces."""

    count: int = 1
    cut: int = 500
    gap_us: int = 0


@dataclass(frozen=True)
class Passed:
    """Time passes; then the requests that wait for `key` are woken."""

    elapsed_us: int
    key: int | None = None


GAPS = st.sampled_from([0, 0, 0, 300, 1_000, 130_000, 700_000])
VERDICTS = st.sampled_from(
    [FORWARD] * 6
    + [EXEMPT, Throttle(40), Throttle(900), Throttle(2500), Throttle(40, EXEMPT), REFUSE]
)
ASKED = st.builds(
    Asked,
    st.sampled_from(NAMES),
    st.sampled_from([0, 0, 0, 0, 1, 2]),
    st.booleans(),
    VERDICTS,
    st.sampled_from([0, 0, 0, 60, 1500]),
    st.lists(st.integers(1, 999), max_size=2).map(lambda cuts: tuple(sorted(cuts))),
    GAPS,
)
STEPS = st.lists(
    ASKED
    | ASKED
    | st.builds(Answered, st.integers(1, 4), st.integers(1, 999), GAPS)
    | st.builds(
        Passed,
        st.sampled_from([1, 999, 50_000, 600_000, 1_600_000, 31_000_000]),
        st.none() | st.integers(0, 2),
    ),
    max_size=25,
)


class Scripted(Policy):
    """Gives each request its scripted verdict, and records each call."""

    Config = dict

    def __init__(self, script: dict[int, Asked], needs: Need) -> None:
        super().__init__({}, BenchHost())
        self.needs = needs
        self.charged: Counter[int] = Counter()
        """The number of requests that a quota would have charged, by second."""
        self.charged_bytes: Counter[int] = Counter()
        self.exempt: Counter[int] = Counter()
        self.worth_telling: set[int] = set()
        self.outcomes: dict[int, Outcome] = {}
        self._script = script
        self._times: Counter[int] = Counter()

    def on_request(self, request, peer, now_ms):
        number = request.correlation_id
        mine = self._script[number]
        self._times[number] += 1
        times = self._times[number]
        if times == (mine.holds + 1 if mine.throttles else 1):
            exempt = forward_of(mine.verdict) is EXEMPT
            counts = self.exempt if exempt else self.charged
            counts[now_ms // 1000] += 1
            if not exempt:
                self.charged_bytes[now_ms // 1000] += request.size_bytes
        if times <= mine.holds:
            self.worth_telling.add(number)
            return Hold(1 << 40, number % KEYS, throttles=mine.throttles)
        if isinstance(mine.verdict, Throttle | Reject):
            self.worth_telling.add(number)
        return mine.verdict

    def on_response(self, request, response, peer, now_ms):
        ms = self._script[request.correlation_id].reply_ms
        if not ms:
            return FORWARD
        self.worth_telling.add(request.correlation_id)
        return Throttle(ms)

    def on_complete(self, request, outcome, peer, result, now_ms):
        assert request.correlation_id not in self.outcomes
        self.outcomes[request.correlation_id] = outcome
        if outcome is Outcome.EXPIRED:
            self.worth_telling.add(request.correlation_id)


def forward_of(verdict: object) -> object:
    """Return the verdict that says how a request is forwarded."""
    return verdict.forward if isinstance(verdict, Throttle) else verdict


class Play:
    """One session that goes through the steps."""

    def __init__(self, needs: Need | None, **options: int) -> None:
        self.script: dict[int, Asked] = {}
        self.policy = Scripted(self.script, needs or Need.HEADER)
        policies = [] if needs is None else [self.policy]
        self.engine, self.ledger = make_counting_engine(
            policies, now_ms=START_MS, keeps_traces=True, **options
        )
        self.wire = TimedWire(self.engine)
        self.sent = b""
        self.answered: set[int] = set()

    def go(self, steps: list[Asked | Answered | Passed]) -> None:
        for step in steps:
            if isinstance(step, Asked):
                self._ask(step)
            elif isinstance(step, Answered):
                self._answer(step.count, step.cut, step.gap_us)
            else:
                self.wire.pass_us(step.elapsed_us)
                if step.key is not None:
                    self.wire.wake(step.key)

    def deliver(self) -> None:
        """Give every waiting request its turn, and let the broker answer all requests."""
        for _ in range(4 * len(self.script) + 4):
            for key in range(KEYS):
                self.wire.wake(key)
            self._answer(1 << 10, 500, 0)
            self.wire.pass_us(2_600_000)
        assert not self.wire.unread

    def _ask(self, asked: Asked) -> None:
        number = 1 + len(self.script)
        self.script[number] = asked
        frame = ALL[asked.name].ask(number)
        self.sent += frame
        places = [len(frame) * cut // 1000 for cut in asked.cuts]
        for start, stop in pairwise((0, *places, len(frame))):
            self.wire.client(frame[start:stop])
            self.wire.pass_us(asked.gap_us)

    def _answer(self, count: int, cut: int, gap_us: int) -> None:
        seen = [
            struct.unpack_from(">i", each, 8)[0] for each in f.whole_frames(self.wire.to_broker)
        ]
        due = [n for n in seen if n not in self.answered and self.script[n].name != "silent"]
        replies = b""
        for number in due[:count]:
            self.answered.add(number)
            replies += ALL[self.script[number].name].reply(number, 0)
        place = len(replies) * cut // 1000
        self.wire.broker(replies[:place])
        self.wire.pass_us(gap_us)
        self.wire.broker(replies[place:])


def check_counts(play: Play) -> None:
    """Check that each request, reply, byte and millisecond counts once, in its second, with its outcome."""
    ledger, policy = play.ledger, play.policy
    assert ledger.internal == []
    assert ledger.policy_errors == []
    meters = play.engine.meters.by_api()
    ends = Counter({o: sum(m.outcome(o) for m in meters) for o in Outcome})
    assert ledger.sum("requests") == sum(ends.values())
    assert ledger.by_second("blocked_ms") == {n: ms for n, ms in play.wire.quiet_ms.items() if ms}
    gaps = {later - earlier for earlier, later in pairwise(ledger.seconds)}
    assert gaps <= {1000}
    if policy.outcomes:
        assert +ends == Counter(policy.outcomes.values())


def check_charges(play: Play) -> None:
    """Check that a request is charged or exempt in the second in which the policy let it pass."""
    ledger, policy = play.ledger, play.policy
    assert ledger.by_second("charged") == policy.charged
    assert ledger.by_second("charged_bytes") == policy.charged_bytes
    assert ledger.by_second("exempt") == policy.exempt


def check_traces(play: Play) -> None:
    """Check that each notable request has a trace, whose waits and broker time add up to its whole time."""
    told = Counter(trace.correlation_id for trace in play.ledger.traces)
    assert set(told.values()) <= {1}
    assert play.policy.worth_telling <= set(told)
    for trace in play.ledger.traces:
        waits = sorted(trace.stages, key=lambda stage: stage.began_us)
        assert all(each.ended_us >= each.began_us for each in waits)
        assert all(one.ended_us <= other.began_us for one, other in pairwise(waits))
        waited_us = sum(each.ended_us - each.began_us for each in waits)
        assert all(trace.began_us <= each.began_us for each in waits)
        assert all(each.ended_us <= trace.ended_us for each in waits)
        if trace.forwarded_us:
            whole_us = waited_us + trace.ended_us - trace.forwarded_us
            assert abs(whole_us - (trace.ended_us - trace.began_us)) <= EDGE_US


def cleaned(step: Asked | Answered | Passed) -> Asked | Answered | Passed:
    """Leave out two cases that other tests cover.

    A request without a quota is charged when it arrives, so it is not exempted afterwards; and a refused request
    without a reply disconnects.
    """
    if isinstance(step, Asked):
        late = step.holds and not step.throttles and forward_of(step.verdict) is EXEMPT
        if late or (step.name == "silent" and step.verdict is REFUSE):
            return replace(step, verdict=FORWARD)
    return step


@given(steps=STEPS, needs=st.none() | st.sampled_from(Need))
def test_every_request_is_counted_and_reported_once(steps, needs):
    """All requests are delivered in the end: the sums are the bytes on the wire."""
    play = Play(needs)
    play.go([cleaned(step) for step in steps])
    play.deliver()
    play.wire.drain()
    play.wire.release()
    play.wire.end_seconds()
    check_counts(play)
    assert play.ledger.sum("requests") == len(play.script)
    assert play.ledger.sum("request_bytes") == len(play.sent)
    assert play.ledger.sum("response_bytes") == len(play.wire.to_client)
    check_traces(play)
    told = {trace.correlation_id for trace in play.ledger.traces}
    if needs is None:
        assert {trace.outcome for trace in play.ledger.traces} <= {Outcome.EXPIRED}
    else:
        check_charges(play)
        assert told == play.policy.worth_telling


ENDS = {
    "client lost": lambda play: play.wire.session.client_lost(play.wire.now_ms),
    "client gone": lambda play: play.wire.session.client_gone(play.wire.now_ms),
    "broker gone": lambda play: play.wire.session.broker_gone(
        CloseReason.BROKER_RESET, play.wire.now_ms
    ),
    "drained": lambda play: play.wire.drain(),
}


@given(
    steps=STEPS,
    needs=st.none() | st.sampled_from(Need),
    end=st.sampled_from(sorted(ENDS)),
    options=st.fixed_dictionaries(
        {
            "sample_every": st.sampled_from([0, 1, 3]),
            "slow_ms": st.sampled_from([0, 500]),
            "meters_by_key": st.booleans(),
        }
    ),
)
def test_no_request_is_counted_or_reported_twice_at_any_end(steps, needs, end, options):
    """Either side may cut a frame or disconnect; sampled and slow requests are included."""
    play = Play(needs, **options)
    play.go([cleaned(step) for step in steps])
    ENDS[end](play)
    play.wire.settle()
    play.wire.release()
    play.wire.end_seconds()
    check_counts(play)
    check_traces(play)
    assert play.ledger.sum("requests") <= len(play.script)
    if options["meters_by_key"] and needs is not None:
        meters = play.engine.meters.by_api()
        assert sum(m.response_bytes for m in meters) <= play.ledger.sum("response_bytes")
    for trace, now_us in play.ledger.unmuted:
        assert trace.throttle_until_ms > 0
        assert trace in play.ledger.traces
        assert now_us <= play.engine.now_us
