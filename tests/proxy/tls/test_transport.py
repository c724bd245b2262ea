"""TLS through the event loop: every byte arrives, in order, in any pieces; none is forgotten in OpenSSL."""

import select
import socket
import ssl
import threading
from contextlib import suppress
from itertools import cycle
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.errors import CloseReason
from proxy.core.session.channel import Mute
from proxy.shell.endpoint import unread_bytes
from proxy.tls.record_sender import RECORD_BYTES
from proxy.tls.transport import MAX_NOISE_BYTES, SMALL_BYTES
from tests.support.messages import frames as f
from tests.support.shell.sockets import Bench, receive, reset, start_sending, tcp_pair
from tests.support.shell.tls import Contexts, conversation, random_bytes, tls_link


@pytest.mark.parametrize("pad", [0, 20_000, 1 << 20])
def test_what_a_client_sends_arrives_at_the_broker_and_the_replies_at_the_client(
    make_bench, contexts, pad
):
    """One event at a time or hundreds of records: the bytes are the same on the other side."""
    bench = make_bench()
    client, broker, session = tls_link(bench, contexts)
    sent = conversation(3, pad)
    sender = start_sending(client, sent)
    assert bench.receive(broker, len(sent)) == sent
    bench.join(sender)
    replies = b"".join(f.reply(n, random_bytes(pad)) for n in range(3))
    sender = start_sending(broker, replies)
    assert bench.receive(client, len(replies)) == replies
    bench.join(sender)
    assert not session.ended
    assert bench.held_bytes == 0


def test_bytes_that_come_one_by_one_in_records_of_their_own_arrive(make_bench, contexts):
    """Each byte is a record; a request is many records."""
    bench = make_bench()
    client, broker, _ = tls_link(bench, contexts)
    sent = conversation(3, 10)
    for at in range(len(sent)):
        client.sendall(sent[at : at + 1])
        bench.event_loop.step(0)
    assert bench.receive(broker, len(sent)) == sent


class Chopper:
    """Carries the ciphertext of a connection in pieces of random sizes: records are cut in headers and bodies."""

    def __init__(self, seed: int) -> None:
        self.outer, self._inner = tcp_pair()
        self.middle, self.near = tcp_pair()
        random = Random(seed)
        ways = ((self._inner, self.middle), (self.middle, self._inner))
        self._threads = [
            threading.Thread(target=self._carry, args=(*way, Random(random.random())))
            for way in ways
        ]
        for each in self._threads:
            each.start()

    def close(self) -> None:
        """Close the connection between the two."""
        for each in (self._inner, self.middle):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for each in self._threads:
            each.join()

    @staticmethod
    def _carry(source: socket.socket, sink: socket.socket, random: Random) -> None:
        source.settimeout(None)
        with suppress(OSError):
            while data := source.recv(1 << 16):
                while data:
                    size = random.choice((1, 2, 5, 29, 500, 5000, 1 << 16))
                    sink.sendall(data[:size])
                    data = data[size:]
            sink.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("seed", range(3))
def test_ciphertext_that_is_cut_anywhere_is_the_same_stream(make_bench, contexts, seed):
    """Each side receives parts of records, and whole ones with the beginning of the next."""
    bench = make_bench()
    ways = Chopper(seed), Chopper(seed + 100)
    client, near_client = contexts.pair(pair=(ways[0].outer, ways[0].near))
    broker, near_broker = contexts.pair(pair=(ways[1].outer, ways[1].near), near_is_server=False)
    session = bench.engine.connect("127.0.0.1", 1, None)
    bench.event_loop.attach(session, near_client, near_broker)
    sent = conversation(40, 9000)
    sender = start_sending(client, sent)
    assert bench.receive(broker, len(sent)) == sent
    bench.join(sender)
    replies = b"".join(f.reply(n, random_bytes(30_000)) for n in range(40))
    sender = start_sending(broker, replies)
    assert bench.receive(client, len(replies)) == replies
    bench.join(sender)
    for each in (client, broker, *ways):
        each.close()


class Grants:
    """Stands for the read limits: grants each read what the next number says."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes = cycle(sizes)

    def request_bytes(self, _session: object) -> int:
        return next(self._sizes)

    def reply_bytes(self) -> int:
        return next(self._sizes)


@settings(max_examples=40)
@given(
    records=st.lists(st.integers(1, 20_000), min_size=1, max_size=12),
    grants=st.lists(st.sampled_from([7, 100, 1024, 8192, 16_383, 16_384, 70_000]), min_size=1),
    mutes=st.lists(st.booleans(), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
)
def test_with_any_grants_and_mutes_the_same_bytes_arrive_that_were_sent(
    contexts, records, grants, mutes, seed
):
    """No byte that OpenSSL has decrypted waits for an event that never comes, and none is lost or doubled."""
    grants = [max(each, 1024) if sum(records) > 2_000 else each for each in grants]
    bench = Bench()
    client, broker, session = tls_link(bench, contexts)
    engine = bench.engine
    engine.read_sizes = Grants(grants)
    engine.request_pool.near_limit = engine.reply_pool.near_limit = True
    body = Random(seed).randbytes(sum(records))
    sent = f.request(f.LIST_OFFSETS, 1, 1, body)
    client.sendall(sent[: -len(body)])
    at = len(sent) - len(body)
    for size in records:  # a record of each size, in the socket before the event loop reads
        client.sendall(sent[at : at + size])
        at += size
    got = bytearray()
    reader = threading.Thread(target=lambda: got.extend(receive(broker, len(sent))))
    reader.start()
    turns = cycle(mutes)
    for _ in range(10_000):
        if not reader.is_alive():
            break
        if next(turns):
            session.client.mute(Mute.THROTTLED)
            bench.event_loop.step(0)
            session.client.unmute(Mute.THROTTLED)
            engine.ask_for_turn(session)
            bench.event_loop.step(0)
        bench.event_loop.step(0.001)
    bench.close()  # ends the reader, too
    reader.join()
    assert bytes(got) == sent


def test_bytes_that_remain_decrypted_are_read_without_another_event(make_bench, contexts):
    """A record of 16 KiB is read in parts of 1 KiB, although its socket is never readable again."""
    bench = make_bench()
    client, broker, _ = tls_link(bench, contexts)
    bench.engine.read_sizes = Grants([1024])
    bench.engine.request_pool.near_limit = True
    sent = f.request(f.LIST_OFFSETS, 1, 1, random_bytes(RECORD_BYTES - 100))
    client.sendall(sent)
    assert bench.receive(broker, len(sent)) == sent


def test_a_muted_client_keeps_its_decrypted_bytes_and_the_loop_does_not_spin(make_bench, contexts):
    """They are read after it is unmuted; until then `unread_bytes` tells them."""
    bench = make_bench()
    client, broker, session = tls_link(bench, contexts)
    bench.engine.read_sizes = Grants([1024])
    bench.engine.request_pool.near_limit = True
    sent = f.request(f.LIST_OFFSETS, 1, 1, random_bytes(10_000))
    client.sendall(sent)
    bench.event_loop.step(1)
    session.client.mute(Mute.THROTTLED)
    bench.engine.ask_for_turn(session)
    assert bench.run() < 10
    left = unread_bytes(session)
    assert len(sent) - 3 * 1024 <= left < len(sent)
    session.client.unmute(Mute.THROTTLED)
    bench.engine.ask_for_turn(session)
    assert bench.receive(broker, len(sent)) == sent
    assert unread_bytes(session) == 0


def test_the_close_of_a_client_is_seen_with_and_without_close_notify(make_bench, contexts):
    """Both are the end of its stream; the broker gets close_notify and FIN."""
    for says_goodbye in (True, False):
        bench = make_bench()
        client, broker, session = tls_link(bench, contexts)
        client.sendall(f.heartbeat(1))
        assert bench.receive(broker, len(f.heartbeat(1)))
        broker.sendall(f.heartbeat_reply(1))
        assert bench.receive(client, len(f.heartbeat_reply(1)))
        if says_goodbye:
            client.setblocking(False)
            with suppress(ssl.SSLWantReadError):
                client.unwrap()
        client.shutdown(socket.SHUT_WR)
        bench.run()
        assert session.reason is CloseReason.CLIENT_CLOSED
        broker.settimeout(60)
        assert broker.recv(1) == b""  # close_notify: without it this raises
        socket.socket.close(client)


def test_close_notify_in_the_same_packet_as_full_records_is_not_missed(make_bench, contexts):
    """OpenSSL reads it after the last full record, and no further event of the socket would tell."""
    bench = make_bench()
    client, broker, session = tls_link(bench, contexts)
    sent = conversation(1, 3 * RECORD_BYTES)
    sent += conversation(1, 2 * RECORD_BYTES - len(sent) % RECORD_BYTES - len(conversation(1, 0)))
    assert len(sent) % RECORD_BYTES == 0
    client.sendall(sent)
    client.setblocking(False)
    with suppress(ssl.SSLWantReadError):
        client.unwrap()
    assert bench.receive(broker, len(sent)) == sent
    bench.step_until(lambda: session.ending)


def test_the_smallest_records_with_data_are_no_noise(contexts):
    """A consumer that receives answers of ten bytes for weeks keeps its connection."""
    far, near = contexts.pair()
    area = memoryview(bytearray(1 << 17))
    for size in (1, 10, 30):
        before = near._noise_bytes
        for _ in range(50):
            far.sendall(bytes(size))
            select.select([near.fileno()], [], [], 5)
            near.recv_into(area)
        assert near._noise_bytes < before
    far.close()
    near.close()


def test_a_flood_of_records_without_data_takes_bounded_steps_and_ends_the_connection(
    make_bench, tmp_path
):
    """A broker sends 1,000 session tickets. OpenSSL is given few at a time, and no more than its share."""
    bench = make_bench()
    contexts = Contexts.make(tmp_path)
    contexts.server.num_tickets = 1000
    client, near_client = Contexts.make(tmp_path / "client").pair()
    broker, near_broker = contexts.pair(near_is_server=False)
    bench.far += [client, broker]
    sizes: list[int] = []

    def noted(view: memoryview, receive=near_broker._receive) -> int:
        sizes.append(receive(view))
        return sizes[-1]

    near_broker._receive = noted
    session = bench.engine.connect("127.0.0.1", 1, None)
    bench.event_loop.attach(session, near_client, near_broker)
    bench.step_until(lambda: session.ended)
    assert max(sizes) <= SMALL_BYTES
    assert MAX_NOISE_BYTES - 2 * RECORD_BYTES < sum(sizes) <= MAX_NOISE_BYTES
    assert session.reason is CloseReason.BROKER_TLS
    assert session.detail == "128 KiB of records without data"


def test_a_record_that_was_changed_on_its_way_ends_the_connection_with_a_reason_of_its_own(
    make_bench, contexts
):
    """The reason says TLS and the detail what is wrong; the broker is told nothing of the record."""
    for side, reason in ((0, CloseReason.CLIENT_TLS), (1, CloseReason.BROKER_TLS)):
        bench = make_bench()
        *fars, session = tls_link(bench, contexts)
        socket.socket.sendall(fars[side], b"\x17\x03\x03\x00\x40" + bytes(64))
        bench.step_until(lambda session=session: session.ended)
        assert session.reason is reason
        assert "decrypt" in session.detail or "mac" in session.detail


def test_a_throttled_client_that_disconnects_is_closed_although_close_notify_is_unread(
    make_bench, contexts
):
    """All of its bytes but the alert were read; the alert is known by its length."""
    bench = make_bench()
    client, broker, session = tls_link(bench, contexts)
    client.sendall(f.heartbeat(1))
    assert bench.receive(broker, len(f.heartbeat(1)))
    session.client.mute(Mute.THROTTLED)
    bench.engine.ask_for_turn(session)
    bench.run()
    client.setblocking(False)
    with suppress(ssl.SSLWantReadError):
        client.unwrap()
    client.close()
    bench.step_until(lambda: session.ending)


def test_a_connection_tells_its_security_and_a_reset_is_no_fault_of_tls(contexts):
    """The dashboard shows the protocol and the cipher; the error of a reset is the one of the socket."""
    far, near = contexts.pair(near_is_server=False)
    assert near.security.protocol == far.version()
    assert near.security.cipher == far.cipher()[0]
    far.close()
    near.close()

    far, near = contexts.pair()
    reset(far)
    select.select([near.fileno()], [], [], 5)
    with pytest.raises(ConnectionResetError):
        near.recv_into(memoryview(bytearray(10)))
    near.close()
