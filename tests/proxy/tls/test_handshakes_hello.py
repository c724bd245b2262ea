"""A client has no place before its hello is whole; the bytes of hellos are counted and bounded."""

import os
import socket
import ssl
from contextlib import suppress

import pytest
import trio

from proxy.core.memory.pool import MemoryPool
from proxy.core.memory.unauthenticated import UnauthenticatedBytes
from proxy.shell.transport import HandshakeError
from proxy.tls.handshakes import Handshakes
from tests.proxy.tls.test_handshakes import both, client, hello, pair, refused, server
from tests.support.core.fake_event_loop import TrioClock

__all__ = ["client", "server"]


async def test_a_hello_that_drips_keeps_no_place(event_loop, server, client, autojump_clock):
    """With one place in all, others make their handshakes meanwhile; the hello is used if it comes in time."""
    handshakes = Handshakes(event_loop, None, 1, timeout_s=10)
    theirs, ours = pair()
    whole = hello(client)
    lost: list[float] = []

    async def drip() -> None:
        for at in range(len(whole) - 1):
            theirs.send(whole[at : at + 1])
            await trio.sleep(0.01)
        await trio.sleep(20)

    async def stall() -> None:
        await refused(handshakes, ours, server)
        lost.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        began_s = trio.current_time()
        nursery.start_soon(drip)
        nursery.start_soon(stall)
        for _ in range(20):
            await trio.sleep(0.1)
            for each in await both(handshakes, server, client):
                each.close()
        assert not lost
    assert lost[0] - began_s == pytest.approx(10, abs=0.1)
    theirs.close()


async def test_a_hello_in_any_pieces_and_records_makes_a_connection(
    event_loop, server, client, autojump_clock
):
    """It does not matter where a read or a record ends."""
    handshakes = Handshakes(event_loop)
    for size in (1, 3, 100):
        far, near = pair()
        far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = client.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with suppress(ssl.SSLWantReadError):
            tls.do_handshake()
        message = outgoing.read()[5:]
        records = b"".join(
            b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part
            for at in range(0, len(message), size)
            if (part := message[at : at + size])
        )

        async def speak(far=far, records=records, tls=tls, incoming=incoming, outgoing=outgoing):
            for at in range(0, len(records), 7):
                far.send(records[at : at + 7])
                await trio.sleep(0.001)
            while True:
                await trio.lowlevel.wait_readable(far)
                incoming.write(far.recv(1 << 16))
                with suppress(ssl.SSLWantReadError):
                    tls.do_handshake()
                    break
            far.send(outgoing.read())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(speak)
            secured = await handshakes.accept(near, server, "")
        assert secured.security is not None
        secured.close()
        far.close()


async def test_the_bytes_of_hellos_are_counted_and_bounded(
    event_loop, server, client, autojump_clock
):
    """Those that are slow lose their connections when others need the memory; no byte counts after the handshake."""
    pool = MemoryPool()
    clock = TrioClock()
    memory = UnauthenticatedBytes(pool, clock, 40_000)
    handshakes = Handshakes(event_loop, memory)
    part = b"\x16\x03\x01\x1f\xff\x01\x00\x40\x00" + bytes(8191 - 4)
    said: list[str] = []
    far: list[socket.socket] = []

    async def drip() -> None:
        theirs, ours = pair()
        far.append(theirs)
        theirs.send(part)
        with pytest.raises(HandshakeError) as caught:
            await handshakes.accept(ours, server, "")
        said.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for number in range(1, 13):
            nursery.start_soon(drip)
            await trio.sleep(0.1)
            assert memory.used_bytes == pool.used_bytes == len(part) * (number - len(said))
            assert memory.used_bytes <= 40_000
        for each in await both(handshakes, server, client):
            each.close()
    assert pool.used_bytes == 0
    assert len(said) == 12
    assert "the memory was needed" in said[0]
    assert "no handshake began" in said[-1]
    for each in far:
        each.close()


async def test_the_bytes_of_a_whole_hello_count_until_its_client_has_a_place(
    event_loop, server, client, autojump_clock
):
    """Clients that wait for a place with long hellos are ended like those that send them slowly."""
    pool = MemoryPool()
    memory = UnauthenticatedBytes(pool, TrioClock(), 40_000)
    handshakes = Handshakes(event_loop, memory, limit=1)
    said: list[str] = []
    far: list[socket.socket] = []
    whole = hello(client)

    async def wait() -> None:
        theirs, ours = pair()
        far.append(theirs)
        theirs.send(whole)
        with pytest.raises(HandshakeError) as caught:
            await handshakes.accept(ours, server, "")
        said.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(wait)
        await trio.sleep(0.05)
        waiting = 200 - len(said)
        assert memory.used_bytes == pool.used_bytes == len(whole) * (waiting - 1)
        assert 0 < memory.used_bytes <= 40_000
        assert all("the memory was needed" in each for each in said)
    assert pool.used_bytes == memory.used_bytes == 0
    for each in far:
        each.close()


async def test_after_a_handshake_a_wait_ends_with_the_first_byte(event_loop, server, client):
    """Not with as many as the hello had."""
    one, other = await both(Handshakes(event_loop), server, client)
    with socket.socket(fileno=os.dup(other.fileno())) as ours:
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == 1
    one.close()
    other.close()
