"""Reloads while clients are held and throttled by a quota: each client gets every reply that is due, in order."""

import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from tests.support.faults.honest import Honest, receive_frames
from tests.support.kafka.load import await_that
from tests.support.kafka.long_polls import unread_bytes
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.sluice_process import SluiceProcess

RATE: Final = 400
"""Requests per second of all clients together."""
CLIENTS: Final = 400
ENTITY: Final = {"enforcement": "entity", "burst_seconds": 1}
CHANNEL: Final = {"enforcement": "channel"}


def quota_of(config: dict[str, object], rate: int = RATE) -> list[dict[str, object]]:
    """One quota for all clients of the test."""
    quotas = [{"client_id": "tests", "request_rate": rate}]
    return [{"use": "quota", "config": {"quotas": quotas, **config}}]


def send_each(clients: list[socket.socket], correlation_ids: Iterable[int]) -> None:
    """Each client pipelines these requests."""
    data = b"".join(map(f.heartbeat, correlation_ids))
    for client in clients:
        client.sendall(data)


@pytest.fixture
def sluice(start, far) -> SluiceProcess:
    variables = {"SLUICE_LOG_LEVEL": "debug"}  # a line of a session that ends has its client id
    return start(far, settings={"policies": quota_of(ENTITY)}, variables=variables)


@pytest.fixture
def clients(sluice) -> Iterator[list[socket.socket]]:
    """Connections that have been served once, with a client id that has no quota."""
    with ExitStack() as opened:
        made = [opened.enter_context(Honest(sluice.port)) for _ in range(CLIENTS)]
        for each in made:
            each.ask()
        yield [each.socket for each in made]


def test_every_reply_arrives_in_order_across_changes_of_enforcement(sluice, clients):
    """From `entity` to `channel` while requests are held, and back to `entity`, which holds requests again."""
    for number, enforcement in enumerate((CHANNEL, ENTITY) * 2, 1):
        asked = [2 * number, 2 * number + 1]
        is_held = enforcement is CHANNEL
        if is_held:
            send_each(clients, asked)
        sluice.reload(policies=quota_of(enforcement))
        await_that(lambda: sluice.said().count("config_reloaded") == number, "the reload")  # noqa: B023
        if not is_held:
            send_each(clients, asked)
        for client in clients:
            assert [f.correlation_id(each) for each in receive_frames(client, 2)] == asked


def test_reloads_and_a_drain_within_milliseconds_lose_no_reply(sluice, clients):
    """Requests are held, moved to a new chain, throttled and in flight when SIGTERM comes; what was begun is answered.

    A session whose turn has not come by then knows no client id of this test, and its client may ask elsewhere.
    """
    send_each(clients, range(3))
    await_that(lambda: unread_bytes(sluice.port) == 0, "all requests to be read")
    for number, enforcement in enumerate((CHANNEL, ENTITY, CHANNEL, ENTITY), 1):
        sluice.reload(policies=quota_of(enforcement, RATE + number))
        threading.Event().wait(0.02)
    sluice.terminate()
    answered: dict[str, int] = {}
    for client in clients:
        got = [f.correlation_id(each) for each in f.split(receive_until_closed(client))]
        assert got == list(range(len(got)))
        answered[str(client.getsockname()[1])] = len(got)
        client.close()
    sluice.await_exit()
    begun = re.findall(r"session_closed .*:(\d+) client_id=tests ", sluice.said())
    assert begun
    assert all(answered[port] for port in begun)
