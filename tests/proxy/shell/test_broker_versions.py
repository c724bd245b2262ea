"""Clients that have not logged in to Sluice cost no broker a connection; the versions that they are told are true."""

from __future__ import annotations

import struct

import pytest

from proxy.core.errors import CloseReason
from proxy.core.versions_lookup import own_question
from proxy.shell.dial import DialError
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.sasl import plain
from tests.support.shell.gated_proxy import BAD_NAME, FETCH, HEARTBEAT, ask, running, told
from tests.support.shell.sasl_service import password_of
from tests.support.shell.sockets import arrived


async def test_many_clients_that_ask_and_do_not_log_in_cost_one_connection(bench):
    """For each node and version; it is closed when the answer is there. They may ask again."""
    async with running(bench) as proxy:
        proxy.broker.may.set()
        clients = [proxy.connect(ask(5)) for _ in range(50)]
        await proxy.settle()
        answers = {told(client, 5) for client in clients}
        assert len(answers) == 1
        assert len(proxy.broker.far) == 1
        assert proxy.broker.far[0].recv(1) == b""
        clients[0].sendall(ask(6, version=0))
        clients[1].sendall(ask(7))
        await proxy.settle()
        assert told(clients[0], 6, 0).startswith(b"\0\0")
        assert told(clients[1], 7) in answers
        assert len(proxy.broker.far) == 2


async def test_a_question_that_brokers_refuse_spoils_no_other_clients_answer(bench):
    """Sluice asks its own; the client that has asked so is disconnected when its broker hears it."""
    async with running(bench) as proxy:
        proxy.broker.may.set()
        bad = proxy.connect(ask(1, software=BAD_NAME))
        await proxy.settle()
        good = proxy.connect(ask(1))
        await proxy.settle()
        assert told(bad, 1) == (answer := told(good, 1))
        assert proxy.broker.heard == [own_question(3).frame]
        await proxy.log_in(bad, 2)
        bad.sendall(f.heartbeat(4))
        await proxy.settle()
        assert bad.recv(1) == b""
        bad.close()
        later = proxy.connect(ask(1))
        await proxy.settle()
        assert told(later, 1) == answer
        assert proxy.closed == [CloseReason.UPSTREAM_REFUSED]


async def test_questions_that_are_kept_count_and_their_sum_is_bounded(bench):
    """Clients that ask with long client ids and do not log in lose their connections; no byte stays counted."""
    unauthenticated, pool = bench.engine.unauthenticated, bench.engine.request_pool
    unauthenticated.max_bytes = 200_000
    async with running(bench) as proxy:
        proxy.broker.may.set()
        honest = proxy.connect(ask(1))
        await proxy.settle()
        clients = [proxy.connect(ask(5, client_id="x" * 30_000)) for _ in range(20)]
        for _ in range(8):
            await proxy.settle()
        ended = sum(session.ended for session in bench.engine.sessions)
        assert 14 <= ended < 20
        assert unauthenticated.used_bytes == pool.used_bytes <= 200_000
        assert unauthenticated.used_bytes > (20 - ended) * 30_000
        assert told(honest, 1)
        await proxy.log_in(honest, 2)
        honest.sendall(f.heartbeat(4))
        await proxy.settle()
        assert proxy.broker.heard[-1].endswith(f.heartbeat(4))
        for client in clients:
            client.close()
        await proxy.settle()
        assert unauthenticated.used_bytes == pool.used_bytes == 0


async def test_a_client_that_has_logged_in_is_not_cut_for_its_question(bench):
    """Others who need the memory do not end it; its question counts in the pool until its broker has heard it."""
    unauthenticated, pool = bench.engine.unauthenticated, bench.engine.request_pool
    async with running(bench) as proxy:
        proxy.broker.may.set()
        question = ask(1, client_id="x" * 30_000)
        client = proxy.connect(question)
        await proxy.settle()
        assert unauthenticated.used_bytes == pool.used_bytes == len(question)
        assert told(client, 1)
        await proxy.log_in(client, 2)
        unauthenticated.max_bytes = 100
        proxy.connect(ask(1))
        await proxy.settle()
        assert pool.used_bytes >= len(question) > unauthenticated.used_bytes
        unauthenticated.max_bytes = 100_000
        client.sendall(f.heartbeat(4))
        await proxy.settle()
        assert proxy.broker.heard[-1] == question + f.heartbeat(4)
        assert pool.used_bytes == unauthenticated.used_bytes


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_client_that_logs_in_is_served_as_by_its_own_broker(bench, size):
    """It does not matter where a read ends. The broker hears the client's own question first, then its requests."""
    async with running(bench) as proxy:
        proxy.broker.may.set()
        client = proxy.connect()
        question = ask(1)
        for at in range(0, len(question), size):
            client.sendall(question[at : at + size])
            await proxy.settle()
        first = told(client, 1)
        assert struct.pack(">hhh", HEARTBEAT, 0, 4) in first
        await proxy.log_in(client, 2)
        assert len(proxy.broker.far) == 1
        client.sendall(f.heartbeat(4) + f.heartbeat(5))
        await proxy.settle()
        assert proxy.broker.heard[1] == question + f.heartbeat(4) + f.heartbeat(5)
        proxy.broker.far[1].sendall(f.reply(4, b"\0" * 2) + f.reply(5, b"\0" * 2))
        client.sendall(ask(6))
        await proxy.settle()
        assert arrived(client)[:20] == f.reply(4, b"\0" * 2) + f.reply(5, b"\0" * 2)
        assert proxy.broker.heard[1].endswith(ask(6))


async def test_all_in_one_write_is_answered_in_order(bench):
    """Question, login and requests: the broker is dialled once the login has succeeded."""
    async with running(bench) as proxy:
        token = plain("alice", password_of("alice"))
        sent = ask(1) + ask(2) + sasl.handshake(3, "PLAIN") + sasl.authenticate(4, token)
        client = proxy.connect(sent + f.heartbeat(5))
        await proxy.settle()
        assert arrived(client) == b""
        proxy.broker.may.set()
        await proxy.settle()
        data, numbers = arrived(client), []
        while data:
            size, number = struct.unpack_from(">ii", data)
            numbers.append(number)
            data = data[4 + size :]
        assert numbers == [1, 2, 3, 4]
        assert proxy.broker.heard[1] == ask(2) + f.heartbeat(5)


async def test_a_broker_that_supports_less_than_was_told_gets_no_request(bench):
    """The client is disconnected, asks again, and is told the truth."""
    async with running(bench) as proxy:
        proxy.broker.may.set()
        client = proxy.connect(ask(1))
        await proxy.settle()
        before = told(client, 1)
        proxy.broker.ranges = {HEARTBEAT: (0, 3)}
        await proxy.log_in(client, 2)
        client.sendall(f.heartbeat(4))
        await proxy.settle()
        assert client.recv(1) == b""
        assert proxy.broker.heard[1] == ask(1)
        client.close()
        again = proxy.connect(ask(1))
        await proxy.settle()
        after = told(again, 1)
        assert after != before
        await proxy.log_in(again, 2)
        again.sendall(f.heartbeat(4))
        await proxy.settle()
        assert proxy.broker.heard[2] == ask(1) + f.heartbeat(4)
        assert proxy.closed == [CloseReason.UPSTREAM_REFUSED]


async def test_more_versions_and_another_throttle_time_are_no_reason_to_end(bench):
    """The client was told the truth; the next one is told more, and no throttle time of another."""
    async with running(bench) as proxy:
        proxy.broker.may.set()
        proxy.broker.throttle_ms = 777
        client = proxy.connect(ask(1))
        await proxy.settle()
        assert struct.pack(">i", 777) not in told(client, 1)
        proxy.broker.ranges = {FETCH: (4, 13), HEARTBEAT: (0, 4), 3: (0, 9)}
        await proxy.log_in(client, 2)
        client.sendall(f.heartbeat(4))
        await proxy.settle()
        assert proxy.broker.heard[1] == ask(1) + f.heartbeat(4)
        another = proxy.connect(ask(1))
        await proxy.settle()
        assert struct.pack(">hhh", 3, 0, 9) in told(another, 1)


async def test_clients_that_wait_for_an_answer_end_with_the_dial(bench):
    """All of them, with the reason of the dial; those that have left are forgotten."""
    async with running(bench) as proxy:
        clients = [proxy.connect(ask(1)) for _ in range(3)]
        clients[0].close()
        await proxy.settle()
        proxy.broker.error = DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, "too late")
        proxy.broker.may.set()
        await proxy.settle()
        for client in clients[1:]:
            assert client.recv(1) == b""
            client.close()
        await proxy.settle()
        assert proxy.closed.count(CloseReason.UPSTREAM_DIAL_TIMEOUT) >= 2
        assert proxy.broker.far == []


@pytest.mark.parametrize("answered", [True, False])
async def test_a_drain_waits_for_the_answer_that_clients_wait_for(bench, answered):
    """They get it and are disconnected then; at the end of the drain they are disconnected without it."""
    async with running(bench) as proxy:
        clients = [proxy.connect(ask(1)) for _ in range(3)]
        await proxy.settle()
        proxy.until.set()
        bench.engine.drain()
        await proxy.settle()
        assert proxy.closed == []
        if answered:
            proxy.broker.may.set()
            await proxy.settle()
            for client in clients:
                assert told(client, 1)
                assert client.recv(1) == b""
    assert [session.reason for session in bench.engine.sessions] == []
    assert proxy.closed == [CloseReason.DRAINED] * 3
