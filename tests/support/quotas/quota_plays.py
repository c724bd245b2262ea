"""Runs a script of `quota_scripts` with the real core. Runs with any policy class must lead to the same `Found`."""

import struct
from typing import Any, NamedTuple

from policies.chain import Chain, Entry
from policies.quota.alter import Change
from policies.quota.bucket import QuotaBucket
from policies.quota.entity import QuotaEntity
from policies.quota.policy import Quota
from policies.testing import BenchHost
from policies.validation import try_convert
from tests.support.core.ledger import TimedWire, make_counting_engine
from tests.support.messages import frames as f
from tests.support.messages.throttled import versions, versions_reply
from tests.support.quotas.quota_scripts import ALL, CLIENTS, START_MS, Script


class Found(NamedTuple):
    """All that a run has led to."""

    sent: list[tuple[bytes, bytes, object]]
    rows: list[object]
    traces: list[object]
    unmuted: list[object]
    meters: list[object]
    buckets: list[object]
    errors: list[object]


class _Sessions(dict[Any, None]):
    """A set of sessions in the order in which they came: plays must be repeatable."""

    def add(self, session):
        self[session] = None

    def remove(self, session):
        del self[session]


class _Host(BenchHost):
    engine: Any = None

    def wake(self, key):
        return self.engine.wake(key)

    def call_at(self, at_ms, call):
        self.engine.timers.arm(at_ms, call)

    def reconsider(self):
        self.engine.reconsider()

    def review_throttles(self, until_ms):
        self.engine.review_throttles(until_ms)


class Play:
    """One run of a script. `defers`: mutes may begin with early bytes; `looks`: those are not read before, as in the
    event loop.
    """

    def __init__(
        self, made: Script, kind: type[Quota], *, defers: bool = False, looks: bool = True
    ) -> None:
        self._made, self._kind, self._looks = made, kind, looks
        self._config = dict(made.config)
        self._host = _Host()
        self.policy = self._policy()
        engine, self.ledger = make_counting_engine([self.policy], now_ms=START_MS, **made.options)
        engine.sessions = engine.sweep._sessions = _Sessions()
        self._host.engine = self._engine = engine
        self.deferred = 0  # mutes that began with early bytes, or not at all
        if defers:
            engine.try_expect_early = self._try_expect_early
        self.wires = [self._client() for _ in range(CLIENTS)]
        self._names: dict[tuple[TimedWire, int], str] = {}
        self._answered: dict[TimedWire, int] = {}
        self._left: list[TimedWire] = []

    def run(self) -> Found:
        for event in self._made.events:
            getattr(self, f"_{event[0]}")(*event[1:])
        for _ in range(40):
            for place in range(CLIENTS):
                self._answer(place, 99, 0)
            self._pass(1_000_000)
        for wire in self.wires:
            wire.release()
        self.wires[0].end_seconds()
        return self._found()

    @property
    def early(self) -> int:
        """Return how often a client sent something during a deferred mute."""
        return sum(wire.early for wire in (*self._left, *self.wires))

    def _try_expect_early(self, _session: object) -> bool:
        self.deferred += 1
        return True

    def _policy(self) -> Quota:
        config, problems = try_convert(Quota.Config, self._config)
        assert problems == []
        return self._kind(config, self._host)

    def _client(self) -> TimedWire:
        wire = TimedWire(self._engine)
        wire.looks = self._looks
        wire.client(versions(1 << 20, 3))
        return wire

    def _ask(self, place: int, names: list[str], chunk: int) -> None:
        wire = self.wires[place]
        data = b""
        for name in names:
            number = 1 + len(self._names)
            self._names[wire, number] = name
            data += ALL[name].ask(number)
        wire.client(data, chunk or 1 << 18)
        wire.settle()

    def _answer(self, place: int, count: int, throttle_time_ms: int) -> None:
        wire = self.wires[place]
        wire.settle()
        at = self._answered.get(wire, 0)
        due = f.whole_frames(wire.to_broker)[at : at + count]
        self._answered[wire] = at + len(due)
        replies = b""
        for frame in due:
            number = struct.unpack_from(">i", frame, 8)[0]
            name = self._names.get((wire, number))
            replies += (
                versions_reply(number, 0, 3, 17)
                if name is None
                else ALL[name].reply(number, throttle_time_ms)
            )
        if replies and not wire.session.ended:
            wire.broker(replies)
        wire.settle()

    def _pass(self, elapsed_us: int) -> None:
        self.wires[0].pass_us(elapsed_us)
        for wire in self.wires:
            wire.settle()

    def _change(self, entity: QuotaEntity, key: str, value: float | None) -> None:
        self.policy.change([Change(entity, key, value)], self._engine.now_ms)
        self._pass(0)

    def _reload(self, burst_seconds: float) -> None:
        self._config["burst_seconds"] = burst_seconds
        before, self.policy = self.policy, self._policy()
        self._engine.adopt_chain(Chain([Entry("p0", self.policy)], self.ledger))
        self.policy.adopt(before)
        self._pass(0)

    def _leave(self, place: int) -> None:
        self._left.append(self.wires[place])
        self.wires[place].session.client_lost(self._engine.now_ms)
        self.wires[place].release()
        self.wires[place] = self._client()

    def _found(self) -> Found:
        ledger = self.ledger
        return Found(
            [
                (each.to_broker, each.to_client, each.session.reason)
                for each in (*self._left, *self.wires)
            ],
            list(ledger.rows),
            [_shown(trace) for trace in ledger.traces],
            [(now_us, _shown(trace)) for trace, now_us in ledger.unmuted],
            [
                (meter.name, meter.upstream, meter.outcomes, meter.waits, meter.parked)
                for meter in self._engine.meters.by_api()
            ],
            [
                _bucket_shown(key, bucket, self._engine.now_ms)
                for key, bucket in self.policy.manager
            ],
            [*ledger.internal, *ledger.policy_errors],
        )


def _shown(trace: Any) -> object:
    stages = [(stage.kind, stage.began_us, stage.ended_us) for stage in trace.stages]
    when = (trace.throttle_until_ms, trace.ended_us, trace.forwarded_us)
    return trace.correlation_id, trace.outcome, trace.excess, trace.reply_bytes, stages, when


def _bucket_shown(key: str, bucket: QuotaBucket, now_ms: int) -> object:
    throttles = bucket.throttle_time and bucket.throttle_time.max_ms(now_ms)
    rate = (bucket.rate._all(), bucket.rate.last_ms)
    owed = (bucket.pass_ms, bucket.queued_cost, len(bucket.queue or ()))
    fetches = (bucket.mean_reply_bytes, bucket.fetches_in_flight)
    return key, bucket.name, bucket.limit, throttles, rate, owed, fetches
