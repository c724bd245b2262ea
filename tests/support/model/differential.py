"""One script, run by a real session and by the reference model at once, and compared after every event."""

from collections.abc import Sequence
from random import Random

from proxy.core.errors import CloseReason
from proxy.core.memory.pool_limits import PoolLimits
from proxy.core.memory.slow_clients import ReadLimits
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from tests.support.model.reference_model import Model
from tests.support.model.scripts import HANG_MS, Listening, Script, Scripted

CHUNKS = (1, 2, 5, 13, 50, 64, 65, 300, 1 << 18, 1 << 18, 1 << 18)


class Run:
    """One script, run by a real session and by the model at once."""

    def __init__(
        self,
        made: Script,
        rng: Random,
        chunks: Sequence[int] = CHUNKS,
        *,
        defers: bool = False,
        **options: object,
    ) -> None:
        self.made = made
        self._rng = rng
        self._chunks = chunks
        self.policy = (Listening if made.hears else Scripted)(made) if made.policy else None
        pool_limits = PoolLimits(
            request_bytes=made.request_bytes,
            response_bytes=made.response_bytes,
            read_limits=ReadLimits(0, 0),
        )
        policies = [self.policy] if self.policy else []
        engine = make_engine(policies, pool_limits=pool_limits, **options)
        engine.try_expect_early = lambda _: defers  # mutes may begin with early bytes
        self.wire = Wire(engine)
        self.model = Model(made)
        self.stream = made.stream

    def go(self) -> None:
        """Run the whole script; raises AssertionError where the two differ."""
        for event in self.made.events:
            self.do(event)
            self.compare(event)
        wire, model = self.wire, self.model
        wire.settle()
        wire.release()
        model.release()
        self.compare("release")
        completed = self.policy.completed if self.policy else {}
        assert completed == model.completed
        assert all(len(outcomes) == 1 for outcomes in completed.values())
        assert wire.held_bytes == 0
        assert wire.engine.request_pool.carried_bytes == 0
        assert wire.engine.timers.next_ms() is None
        assert wire.watcher.internal == []
        assert not wire.session.queue

    def do(self, event: tuple) -> None:
        """Do one event on both."""
        wire, model = self.wire, self.model
        session = wire.session
        chunk = self._rng.choice(self._chunks)
        match event:
            case ("client", size):
                data, self.stream = self.stream[:size], self.stream[size:]
                wire.client(data, chunk)
                model.client(size)
            case ("broker", count):
                wire.broker(model.broker(count), chunk)
            case ("time", ms):
                if ms >= HANG_MS and model.waits:
                    return  # the order of timers within one step of this length is not specified
                left_ms = model.throttled_until_ms - model.now_ms
                if 0 < left_ms < ms < HANG_MS:  # a throttle ends on time, as in the event loop
                    self.do(("time", left_ms))
                    self.do(("time", ms - left_ms))
                    return
                wire.advance(ms)
                model.time(ms, HANG_MS)
            case ("wake", key):
                wire.wake(key)
                model.wake(key)
            case ("settle",):
                for _ in range(3 * len(self.made.asked) + 3):
                    if model.is_idle():
                        break
                    self.do(("time", 450))
                    self.do(("broker", 20))
            case ("client leaves",):
                if not (model.ended or model.waits):
                    session.client_gone(wire.now_ms)
                    model.client_leaves()
            case ("client hangs up",):
                session.client_hung_up(wire.now_ms)
                model.client_hangs_up()
            case ("drain",):
                wire.drain()
                model.drain()
            case ("plans are forgotten",):
                wire.engine.forget_plans()
            case ("client dies",):
                session.client_lost(wire.now_ms)
                model.client_dies()
            case ("broker lies", garbage, count):
                wire.broker(model.broker(count) + garbage, chunk)
                model.broker_lies()
            case ("broker dies", count, part):
                data = model.broker(count)
                if model.at_broker and model.at_broker[0].asked.hears != ("raise",):
                    cut = model.at_broker[0].asked.reply()
                    data += cut[: int(part * len(cut))]
                wire.broker(data, chunk)
                session.broker_gone(CloseReason.BROKER_RESET, wire.now_ms)
                model.broker_dies()
            case _:
                raise AssertionError(event)
        wire.settle()

    def compare(self, event: object) -> None:
        """Compare all output so far. Of a frame that is cut, only the fact that it is cut counts."""
        wire, model = self.wire, self.model
        assert wire.to_broker.startswith(b"".join(model.to_broker)), event
        assert wire.to_client.startswith(b"".join(model.to_client)), event
        assert f.whole_frames(wire.to_broker) == model.to_broker, event
        assert f.whole_frames(wire.to_client) == model.to_client, event
        assert wire.session.ended == model.ended, event
        reason = wire.session.reason
        assert (reason and reason.value) == model.reason, event
