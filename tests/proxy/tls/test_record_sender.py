"""Records that the kernel does not take at once are sent later: each byte once, in order."""

import ssl
import threading

import pytest

from proxy.core.session.channel import Mute
from proxy.shell.transport import TlsError
from proxy.tls.record_sender import BATCH, RECORD_BYTES
from tests.support.shell.sockets import start_sending
from tests.support.shell.tls import conversation, random_bytes, tls_link


def test_a_broker_that_does_not_read_gets_every_byte_once_it_does(make_bench, contexts):
    """The kernel refuses the rest of a record, which OpenSSL has encrypted; it is sent later, once."""
    bench = make_bench()
    client, broker, session = tls_link(bench, contexts)
    sent = conversation(1, 12 << 20)
    sender = start_sending(client, sent)
    bench.step_until(lambda: session.client.muted & Mute.BACKPRESSURE)
    assert bench.receive(broker, len(sent)) == sent
    bench.join(sender)
    assert bench.held_bytes == 0


def start_reading(far: ssl.SSLSocket, got: bytearray, size: int) -> threading.Thread:
    """Start a thread that reads this many bytes into `got`."""

    def read() -> None:
        while len(got) < size:
            got.extend(far.recv(1 << 16))

    thread = threading.Thread(target=read)
    thread.start()
    return thread


def test_refused_bytes_begin_the_next_call_and_are_not_encrypted_twice(contexts):
    """Calls of all sizes until the kernel is full; then the refused bytes again, with more after them."""
    far, near = contexts.pair()
    data = random_bytes(8 << 20)
    view = memoryview(data)
    sent = turn = 0
    sizes = (1, 100, RECORD_BYTES, RECORD_BYTES + 1, BATCH * RECORD_BYTES, 200_000)
    reader = None
    got = bytearray()
    while sent < len(data):
        turn += 1
        try:
            size = 200_000 if reader is not None else sizes[turn % len(sizes)]
            sent += near.send(view[sent : sent + size])
        except BlockingIOError:
            if reader is None:  # the kernel is full: from now on it is read
                reader = start_reading(far, got, len(data))
    assert reader is not None
    reader.join()
    assert bytes(got) == data
    far.close()
    near.close()


def test_a_fault_of_openssl_is_an_error_of_tls_and_not_of_the_connection(contexts):
    """It cannot send after its own close_notify."""
    far, near = contexts.pair()
    near.shutdown()
    with pytest.raises(TlsError):
        near.send(b"x")
    far.close()
    near.close()
