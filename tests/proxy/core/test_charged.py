"""The core's usage rows compared with the quota policy: charged requests are those that its buckets recorded."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.api import Outcome
from policies.quota.policy import Quota
from policies.testing import BenchHost
from policies.validation import try_convert
from tests.support.core.ledger import Ledger, TimedWire, make_counting_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import KINDS, SILENT, versions

START_MS = 1_700_000_000_300
REMEMBERED_SECONDS = 600
ALL = {**KINDS, "silent": SILENT}


class _Host(BenchHost):
    """Wakes and sets alarms in the engine."""

    engine = None

    def wake(self, key):
        return self.engine.wake(key)

    def call_at(self, at_ms, call):
        self.engine.timers.arm(at_ms, call)


class Together:
    """Some clients of one user, a quota, and a broker that answers at once or later."""

    def __init__(self, clients: int, **config: object) -> None:
        settings_of, problems = try_convert(
            Quota.Config, {"quota_window_num": REMEMBERED_SECONDS, **config}
        )
        assert problems == []
        host = _Host()
        self.policy = Quota(settings_of, host)
        engine, self.ledger = make_counting_engine(
            [self.policy], now_ms=START_MS, keeps_traces=True
        )
        host.engine = self.engine = engine
        self.wires = [TimedWire(engine) for _ in range(clients)]
        self.names: dict[tuple[int, int], str] = {}
        for wire in self.wires:  # the first request of a connection is exempt
            wire.client(versions(1 << 20, 3))

    def ask(self, place: int, name: str, count: int) -> None:
        for _ in range(count):
            number = 1 + len(self.names)
            self.names[place, number] = name
            self.wires[place].client(ALL[name].ask(number))

    def pass_us(self, elapsed_us: int) -> None:
        """Advance the clock that all clients share."""
        self.wires[0].pass_us(elapsed_us)
        for wire in self.wires:
            wire.settle()

    def end(self) -> Ledger:
        for _ in range(60):
            self.pass_us(1_000_000)
        for wire in self.wires:
            assert not wire.unread
            wire.release()
        self.wires[0].end_seconds()
        assert self.ledger.internal == []
        assert self.ledger.policy_errors == []
        return self.ledger

    def recorded(self) -> dict[int, float]:
        """Return the requests that the request_rate buckets recorded, by second."""
        sums: Counter[int] = Counter()
        for key, bucket in self.policy.manager:
            if key == "request_rate":
                for begun_ms, _, recorded in bucket.rate._all():
                    sums[begun_ms // 1000] += recorded
        return {second: count for second, count in sums.items() if count}


STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["heartbeat-v1", "produce-v3", "fetch-v4", "silent", "metadata-v3"]),
        st.integers(0, 6),
        st.sampled_from([0, 0, 1_000, 90_000, 400_000, 1_300_000]),
    ),
    max_size=25,
)


@settings(max_examples=30)
@given(
    steps=STEPS,
    limits=st.fixed_dictionaries(
        {"request_rate": st.sampled_from([2, 5, 1e6])},
        optional={
            "producer_byte_rate": st.sampled_from([400, 10**9]),
            "consumer_byte_rate": st.just(10**9),
        },
    ),
    burst=st.sampled_from([0, 1]),
)
def test_charged_requests_are_those_that_the_buckets_recorded(steps, limits, burst):
    """A request that waited is charged in the second in which it is forwarded, on any connection."""
    play = Together(3, quotas=[{"user": "<default>", **limits}], burst_seconds=burst)
    for place, name, count, elapsed_us in steps:
        play.ask(place, name, count)
        play.pass_us(elapsed_us)
    ledger = play.end()
    assert ledger.by_second("charged") == play.recorded()
    assert ledger.sum("exempt") == 3
    assert ledger.sum("requests") == 3 + len(play.names)
    held = {stage.kind for trace in ledger.traces for stage in trace.stages}
    assert held <= {"throttle"}
    unexcused = {trace.outcome for trace in ledger.traces if trace.excess is None}
    assert unexcused <= {Outcome.EXPIRED, Outcome.DISCONNECTED}
    excused = [trace for trace in ledger.traces if trace.excess is not None]
    assert (ledger.sum("throttled") > 0) == bool(excused)


def test_the_rows_have_the_time_for_which_the_quota_muted_each_client():
    """Of ten requests at two a second, the connection is muted except when one is forwarded."""
    play = Together(1, quotas=[{"user": "<default>", "request_rate": 2}], burst_seconds=0)
    play.ask(0, "heartbeat-v0", 10)
    ledger = play.end()
    blocked = ledger.by_second("blocked_ms")
    assert sum(blocked.values()) == 10 * 500
    assert [blocked[START_MS // 1000 + n] for n in range(6)] == [700, 1000, 1000, 1000, 1000, 300]
    assert ledger.sum("throttled") == 10
    assert {row.throttle_ms_max for row in ledger.rows} == {0, 500}


@pytest.mark.parametrize("enforcement", ["entity", "channel"])
def test_exempt_principals_are_exempt_in_the_rows(enforcement):
    """All their requests are counted, and none is charged."""
    play = Together(
        1,
        quotas=[{"user": "<default>", "request_rate": 1}],
        cluster_principals=["ANONYMOUS"],
        enforcement=enforcement,
    )
    play.ask(0, "heartbeat-v1", 7)
    ledger = play.end()
    assert (ledger.sum("requests"), ledger.sum("exempt"), ledger.sum("charged")) == (8, 8, 0)
    assert ledger.sum("charged_bytes") == 0
    assert ledger.sum("exempt_bytes") == ledger.sum("request_bytes") - 4 * 8


def test_by_kafkas_rule_requests_without_acks_are_exempt_in_the_rows():
    """This includes requests whose bytes cause a throttle; they are forwarded at once."""
    play = Together(
        1,
        quotas=[{"user": "<default>", "request_rate": 1, "producer_byte_rate": 10}],
        enforcement="channel",
        quota_window_num=11,
    )
    play.ask(0, "silent", 5)
    ledger = play.end()
    assert (ledger.sum("exempt"), ledger.sum("charged")) == (1 + 5, 0)
    assert ledger.sum("throttled") > 0
    sent = [f.produce(n, acks=0) for n in range(1, 6)]
    assert play.wires[0].to_broker.endswith(b"".join(sent))
