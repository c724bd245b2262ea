"""Replies that policies take in turns: steps stay short, and what the broker sends behind them waits."""

import struct
from collections.abc import Callable, Iterator
from select import select

from policies.api import InTurns
from policies.responses import Replace
from proxy.core.engine import Engine
from proxy.shell.event_loop import STEP_US
from tests.support.core.hearing import Hearer
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.shell.sockets import Bench, receive

COST_US = 900
TURNS = 40
BODY = struct.pack(">ih", 0, 27) + b"x" * 100_000
AFTER = struct.pack(">ih", 0, 27) + b"new"


def test_a_large_reply_keeps_nobody_waiting(make_bench: Callable[[Engine], Bench]) -> None:
    """Ten clients get one of 40 turns each, and a small one behind it; another client is served in between."""

    def steps() -> Iterator[None]:
        for _ in range(TURNS):
            bench.clock.spend(COST_US)
            yield
        return Replace(AFTER)

    policy = Hearer({f.HEARTBEAT}, lambda _: InTurns(steps()))
    bench = make_bench(make_engine([policy]))
    links = [bench.link() for _ in range(10)]
    honest, honest_broker, _ = bench.link()
    bench.settle()
    for client, broker, _ in links:
        client.sendall(f.beat(1) + f.produce(2))
        bench.settle()
        receive(broker, len(f.beat(1) + f.produce(2)))
        broker.setblocking(True)
        broker.settimeout(5)
    for _, broker, _ in links:
        broker.sendall(f.reply(1, BODY) + f.produce_reply(2))
    longest_us, served = 0, -1
    honest.sendall(f.produce(1))
    for number in range(2_000):
        begun_us = bench.clock.now_us()
        bench.event_loop.step(0)
        longest_us = max(longest_us, bench.clock.now_us() - begun_us)
        if served < 0 and select([honest_broker], [], [], 0)[0]:
            served = number
        if not any(session.queue for _, _, session in links):
            break
    assert longest_us <= 2 * STEP_US + COST_US
    assert 0 <= served <= 3
    for client, _, session in links:
        wanted = f.reply(1, AFTER) + f.produce_reply(2)
        assert receive(client, len(wanted)) == wanted
        assert not session.broker.muted
