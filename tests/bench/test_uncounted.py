"""The yardstick: the same loops, which count nothing."""

from __future__ import annotations

import pytest

from bench import uncounted as module
from bench.build import BenchError
from bench.uncounted import uncounted
from policies.api import Peer
from proxy.core.session import Session
from tests.support import frames as f
from tests.support.sessions import make_engine


def talk(made: type[Session]) -> tuple[Session, int, int]:
    """A request and its reply through one of these; how much of each went straight on."""
    session = made(make_engine(), Peer(1, "127.0.0.1", 40000))
    for n in (1, 2):  # the first makes the plan
        ask, reply = bytearray(f.heartbeat(n)), bytearray(f.heartbeat_reply(n))
        sent = session.from_client(ask, 0, len(ask), 0)
        left = session.from_broker(reply, 0, len(reply), 0)
    assert not session.queue
    return session, sent, left


def test_it_forwards_as_the_real_one_does() -> None:
    """Every byte, both ways."""
    whole = (len(f.heartbeat(2)), len(f.heartbeat_reply(2)))

    assert talk(uncounted())[1:] == talk(Session)[1:] == whole


def test_it_does_not_count_what_the_real_one_counts() -> None:
    """The second request and both replies took the fast loops; the first request made the plan."""
    for made, requests, replies in ((Session, 2, 2), (uncounted(), 1, 0)):
        session, *_ = talk(made)
        assert session.usage.requests == requests
        (meter,) = session.engine.meters.by_api()
        assert meter.replied == replies
        assert session.usage.response_bytes == replies * len(f.heartbeat_reply(1))


def test_a_statement_that_is_gone_ends_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would compare the loops with themselves."""
    gone = {**module.STATEMENTS, "from_client": ("count += 17",)}
    monkeypatch.setattr(module, "STATEMENTS", gone)

    with pytest.raises(BenchError, match=r"from_client has no more: count \+= 17"):
        uncounted()
