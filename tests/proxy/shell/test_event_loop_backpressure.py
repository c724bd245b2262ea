"""Back-pressure: what a send that the kernel does not take whole costs, and how reads shrink and grow again."""

import socket
from collections.abc import Callable
from typing import Final

import pytest

from proxy.core.session.channel import Mute
from proxy.core.session.kept_produce import timed_out_body
from proxy.core.stats.topic_usage import TopicUsage
from proxy.shell.endpoint import Endpoint
from proxy.shell.event_loop import SLOWED_READ_BYTES
from proxy.shell.loop_limits import MORE_READ_BYTES, READ_BYTES
from proxy.shell.masks import IN, OUT, SLOWED
from tests.support.core.policies import EverySecond
from tests.support.core.sessions import make_engine
from tests.support.messages import frames as f
from tests.support.messages.many_partitions import (
    produce_many,
    produce_many_reply,
    produce_many_timed_out,
)
from tests.support.model.differential_counts import topic_rows, topics_counted
from tests.support.shell.sockets import Bench, arrived, receive, receive_through, start_sending
from tests.support.shell.tls import Contexts, tls_link

REPLY_BYTES: Final = 6 << 20
SEND_BUFFER_BYTES: Final = 32 << 10
BEAT: Final = f.heartbeat(1)
BEATS: Final = BEAT + f.heartbeat(2)


class Sends:
    """The sends of one side: each takes at most `room` bytes. `offered` has the size of each, `taken` what it took."""

    def __init__(self, end: Endpoint) -> None:
        self.room = 1 << 20
        self.offered: list[int] = []
        self._send: Callable[[bytes], int] = end.send
        end.send = end.other.forward = self.take
        end.direct = -1  # the compiled event loop calls the method, too

    def take(self, data: bytes) -> int:
        self.offered.append(len(data))
        if not self.room:
            raise BlockingIOError
        return self._send(data[: self.room])


@pytest.fixture
def link(bench):
    """Return a bench, the far ends of a link, its session, and the sends to the broker."""
    client, broker, session = bench.link()
    sends = Sends(session.handle.other)
    bench.settle()
    return bench, client, broker, session, sends


@pytest.mark.parametrize("taken", range(len(BEATS) + 1))
def test_a_partial_send_of_any_length_costs_one_send_more_and_two_changes_of_the_poll_set(
    link, taken
):
    """The rest is sent when there is room, once; the quiet client's mask never changes. Its next read is fast again."""
    bench, client, broker, session, sends = link
    endpoints = bench.event_loop.endpoints
    sends.room = taken
    client.sendall(BEATS)
    assert bench.event_loop.step(1) == 1
    is_partial = taken < len(BEATS)
    assert sends.offered == [len(BEATS)]
    assert endpoints.refused_sends == is_partial
    assert endpoints.interest_changes == is_partial
    assert bool(session.client.muted & Mute.BACKPRESSURE) == is_partial
    sends.room = 1 << 20
    bench.run()
    assert arrived(broker) == BEATS
    assert sends.offered == [len(BEATS)] + [len(BEATS) - taken] * is_partial
    assert endpoints.interest_changes == 2 * is_partial
    assert bench.held_bytes == 0
    assert [end.expect for end in (session.handle, session.handle.other)] == [IN, IN]
    slow = endpoints.slow_events
    client.sendall(BEAT)
    bench.run()
    assert arrived(broker) == BEAT
    assert endpoints.slow_events == slow


def test_a_produce_of_many_partitions_passes_in_any_two_reads_and_any_two_sends(
    make_bench, *, has_slow_tests
):
    """A gate is asked, some are sampled, topics are counted, and it can be answered here, as if it came whole."""
    book = TopicUsage()
    engine = make_engine([EverySecond()], keeps_traces=True, sample_every=3, topic_usage=book)
    bench = make_bench(engine)
    client, broker, session = bench.link()
    sends = Sends(session.handle.other)
    number = 7  # two topics, seven partitions, 600 bytes
    data, reply = produce_many(number), produce_many_reply(number)
    cases = range(0, len(data) + 1, 1 if has_slow_tests else 5)
    for taken in cases:
        cut = taken * 7 % len(data) + 1
        got = bytearray()
        sends.room = taken
        client.sendall(data[:cut])
        bench.event_loop.step(1)
        sends.room = 1 << 20
        client.sendall(data[cut:])
        bench.step_until(lambda got=got: got.extend(arrived(broker)) or len(got) >= len(data))
        assert got == data, taken
        (exchange,) = session.queue
        assert timed_out_body(exchange) == produce_many_timed_out(number)[9:], taken
        broker.sendall(reply)
        bench.step_until(lambda: not session.queue)
        assert arrived(client) == reply, taken
    assert bench.held_bytes == 0
    assert not book.unread
    assert sorted(topic_rows(book)) == topics_counted(data, len(cases))


def test_a_client_that_goes_on_sending_is_muted_in_the_poll_set_too(link):
    """Its next event tries to send once; while that fails it makes no further event."""
    bench, client, broker, session, sends = link
    endpoints = bench.event_loop.endpoints
    sends.room = 0
    end = session.handle.other
    bench.event_loop.endpoints.poller.modify(end.fd, 0)  # no event says that there is room
    client.sendall(BEAT)
    bench.event_loop.step(1)
    endpoints.poller.modify(end.fd, 0)
    client.sendall(BEAT)
    assert bench.run() == 1
    assert len(sends.offered) == endpoints.refused_sends == 2
    assert endpoints.interest_changes == 2
    assert not session.handle.expect & IN
    sends.room = 1 << 20
    endpoints.poller.modify(end.fd, IN | OUT)
    bench.run()
    assert arrived(broker) == BEAT + BEAT
    assert endpoints.interest_changes == 4
    assert bench.held_bytes == 0


def test_a_client_that_goes_on_sending_when_there_is_room_again_costs_no_change_of_its_mask(link):
    """Its own event sends what waits."""
    bench, client, broker, session, sends = link
    endpoints = bench.event_loop.endpoints
    sends.room = 3
    client.sendall(BEAT)
    bench.event_loop.step(1)
    endpoints.poller.modify(session.handle.other.fd, 0)
    sends.room = 1 << 20
    client.sendall(BEAT)
    bench.run()
    assert arrived(broker) == BEAT + BEAT
    assert endpoints.interest_changes == 2
    assert session.handle.expect == IN


def test_a_read_that_shrank_stays_on_the_fast_path_and_grows_there(link):
    """After the bytes that waited have gone, no event is slow."""
    bench, client, broker, session, sends = link
    end = session.handle
    areas: list[int] = []
    receive_through(end, lambda area: areas.append(len(area)))
    sends.room = 5
    client.sendall(BEAT)
    bench.event_loop.step(1)
    sends.room = 1 << 20
    bench.run()
    slow = bench.event_loop.endpoints.slow_events
    while end.read_bytes < READ_BYTES:
        client.sendall(BEAT)
        bench.run()
        assert arrived(broker)[-len(BEAT) :] == BEAT
    assert bench.event_loop.endpoints.slow_events == slow
    assert areas[1:] == list(range(READ_BYTES // 2, READ_BYTES, MORE_READ_BYTES))


def test_bytes_that_tls_has_decrypted_are_read_after_the_rest_was_sent(bench, tmp_path):
    """They make no event, and the client's mask did not change when it was muted and unmuted."""
    client, broker, session = tls_link(bench, Contexts.make(tmp_path))
    sends = Sends(session.handle.other)
    end = session.handle
    end.read_bytes = 2 * len(BEAT)
    end.expect |= SLOWED
    sends.room = 5
    client.sendall(BEAT * 20)  # one record
    bench.step_until(lambda: sends.offered)
    assert end.pending() > 0
    sends.room = 1 << 20
    assert bench.receive(broker, 20 * len(BEAT)) == BEAT * 20


@pytest.fixture
def slow(bench):
    """Return a bench, the far ends of a link whose client takes little at once, its session, and the areas of reads."""
    client, broker, session = bench.link()
    with socket.socket(fileno=socket.dup(session.handle.fd)) as near:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
    areas: list[int] = []
    receive_through(session.handle.other, lambda area: areas.append(len(area)))
    client.sendall(f.heartbeat(1))
    bench.run()
    return bench, client, broker, session, areas


def pass_large_reply(bench: Bench, client: socket.socket, broker: socket.socket) -> None:
    """Let the broker send the reply to the first request, and the client read all of it."""
    reply = f.reply(1, bytes(REPLY_BYTES))
    sender = start_sending(broker, reply)
    assert bench.receive(client, len(reply)) == reply
    sender.join()


def test_reads_shrink_to_what_a_slow_client_takes(slow):
    """Few bytes wait for it then, and few are copied."""
    bench, client, broker, _, areas = slow
    pass_large_reply(bench, client, broker)
    assert areas[0] == READ_BYTES
    settled = areas[len(areas) // 2 :]
    assert max(settled) < READ_BYTES // 2
    assert min(settled) >= SLOWED_READ_BYTES
    assert bench.held_bytes == 0


def test_reads_grow_again_with_each_that_is_taken_whole(slow):
    """In the end the side is on the fast path, as before."""
    bench, client, broker, session, areas = slow
    pass_large_reply(bench, client, broker)
    end = session.handle.other
    least = end.read_bytes
    assert least < READ_BYTES
    areas.clear()
    number = 1
    while end.read_bytes < READ_BYTES:
        number += 1
        client.sendall(f.heartbeat(number))
        bench.run()
        answer = f.heartbeat_reply(number)
        broker.sendall(answer)
        bench.run()
        assert receive(client, len(answer)) == answer
    grown = [min(least + n * MORE_READ_BYTES, READ_BYTES) for n in range(len(areas))]
    assert areas == grown
    assert end.expect == IN
