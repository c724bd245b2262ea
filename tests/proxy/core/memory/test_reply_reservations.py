"""Reservations of replies that are kept whole: the queue for them, and slow clients that are closed."""

import pytest

from proxy.core.errors import CloseReason
from proxy.core.memory.reply_reservations import RESERVE_BYTES, SMALL_BYTES, STUCK_MS
from proxy.core.session.channel import Mute
from tests.support.core.sessions import Wire
from tests.support.messages.rewritten import bounded, share_fetch

MIB = 1 << 20


def test_replies_kept_whole_wait_for_memory_in_order():
    """A broker whose reply must wait is not read; a release serves the queue; small replies do not wait."""
    engine = bounded(MIB)
    asked, reply = share_fetch(1, 3 * MIB)
    wires = [Wire(engine).client(asked) for _ in range(4)]
    for wire in wires:
        wire.broker(reply[:1000])
    assert [bool(wire.session.broker.muted & Mute.OUT_OF_MEMORY) for wire in wires] == [
        *(False, True, True, True)
    ]
    assert len(engine.reply_reservations) == 3
    small_asked, small_reply = share_fetch(2, 1000)
    small = Wire(engine).client(small_asked).broker(small_reply[:500])
    small.broker(small_reply[500:])
    assert b"127.0.0.1" in small.to_client
    for place, wire in enumerate(wires):
        assert not wire.session.broker.muted
        assert all(each.session.broker.muted for each in wires[place + 1 :])
        wire.broker(reply[1000:])
        assert len(wire.to_client) > 3 * MIB
    assert engine.reply_pool.used_bytes == 0
    assert engine.reply_pool.peak_bytes <= MIB + RESERVE_BYTES + 8 * SMALL_BYTES
    assert not engine.reply_pool.is_depleted


@pytest.mark.parametrize("who", ["client", "broker"])
def test_a_waiting_reply_of_a_closed_session_leaves_the_queue(who):
    """The next reply takes its place; no memory is kept for the closed session."""
    engine = bounded(MIB)
    asked, reply = share_fetch(1, 3 * MIB)
    first, second, third = (Wire(engine).client(asked) for _ in range(3))
    for wire in (first, second, third):
        wire.broker(reply[:1000])
    gone = second.session
    if who == "client":
        gone.client_lost(engine.now_ms)
    else:
        gone.broker_gone(CloseReason.BROKER_RESET, engine.now_ms)
    second.release()
    first.broker(reply[1000:])
    assert not third.session.broker.muted
    third.broker(reply[1000:])
    assert engine.reply_pool.used_bytes == 0
    assert len(engine.reply_reservations) == 0


class Unread(Wire):
    """A session whose client does not read."""

    reads = False

    def settle(self) -> None:
        if self.reads or self.session.client.outbox == []:
            super().settle()
        self.session.uses_outboxes = False


@pytest.mark.parametrize("drains", [False, True])
def test_a_client_that_does_not_read_is_closed_when_another_reply_needs_its_memory(drains):
    """It is closed after ten seconds, during a drain too; alone it may take its time."""
    engine = bounded(MIB)
    asked, reply = share_fetch(1, 3 * MIB)
    stuck = Unread(engine).client(asked)
    stuck.broker(reply)
    assert engine.reply_pool.used_bytes > 3 * MIB
    stuck.advance(10 * STUCK_MS)
    assert not stuck.session.ended
    waiting = Wire(engine).client(asked)
    waiting.broker(reply[:1000])
    assert waiting.session.broker.muted
    if drains:
        waiting.drain()
    waiting.advance(STUCK_MS - 1)
    assert stuck.session.ended is drains  # but for what it does not read
    assert waiting.session.broker.muted
    waiting.advance(1)
    assert stuck.session.reason is (
        CloseReason.DRAINED if drains else CloseReason.REPLY_WRITE_TIMEOUT
    )
    assert not waiting.session.broker.muted
    waiting.broker(reply[1000:])
    assert b"127.0.0.1" in waiting.to_client
    assert engine.reply_pool.used_bytes == 0


def test_a_larger_pool_serves_the_waiting_replies():
    """A live change of the pool serves the queue at once."""
    engine = bounded(MIB)
    asked, reply = share_fetch(1, 3 * MIB)
    wires = [Wire(engine).client(asked).broker(reply[:1000]) for _ in range(2)]
    assert wires[1].session.broker.muted
    engine.resize(-1, 64 * MIB)
    assert not wires[1].session.broker.muted
