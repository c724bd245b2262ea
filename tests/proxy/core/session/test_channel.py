"""One side: reasons to mute, the outbox, the carry, and what they count."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.core.memory.pool import MemoryPool
from proxy.core.session.channel import Channel, Mute


def test_a_channel_is_muted_while_any_reason_holds():
    """Taking one reason away leaves the others."""
    channel = Channel(MemoryPool())
    channel.mute(Mute.THROTTLED)
    channel.mute(Mute.BACKPRESSURE)
    channel.unmute(Mute.THROTTLED)
    assert channel.muted
    channel.unmute(Mute.BACKPRESSURE)
    assert not channel.muted


@given(
    st.lists(st.binary(max_size=40), max_size=12),
    st.lists(st.integers(1, 60), max_size=40),
    st.integers(1, 100),
)
def test_the_outbox_is_sent_in_order_through_partial_sends(pieces, takes, most):
    """Any pieces and any partial sends give the same bytes, and the pool is empty at the end."""
    pool = MemoryPool()
    channel = Channel(pool)
    for piece in pieces:
        channel.put(piece)
    assert pool.used_bytes == channel.unsent_bytes == sum(map(len, pieces))
    out = b""
    for take in takes:
        if not channel.outbox:
            break
        front = bytes(channel.front(most))
        taken = min(take, len(front))
        out += front[:taken]
        channel.sent(taken)
    assert b"".join(pieces).startswith(out)
    while channel.outbox:
        front = bytes(channel.front(most))
        out += front
        channel.sent(len(front))
    assert out == b"".join(pieces)
    assert pool.used_bytes == channel.unsent_bytes == 0


def test_a_cleared_channel_gives_everything_back():
    """Pieces that are partly sent too, which count whole until their last byte; a carry counts until it is taken."""
    pool = MemoryPool()
    channel = Channel(pool)
    channel.put(b"x" * 10)
    channel.put(b"y" * 10)
    channel.front(1)
    channel.sent(13)
    channel.keep(b"abc")
    assert (pool.used_bytes, channel.take(), channel.carry) == (13, b"abc", b"")
    channel.keep(b"zz")
    assert pool.used_bytes == 12
    channel.clear()
    assert pool.used_bytes == 0
    assert not channel.outbox
