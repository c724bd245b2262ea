"""Signals that interrupt system calls while traffic flows, and reloads in the middle of short throttles."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

from tests.support.faults.honest import Crowd, Honest, receive_frames
from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f

SIGNALS: Final = 300
CLIENTS: Final = 8


@contextmanager
def interrupted(pid: int) -> Iterator[list[int]]:
    """Send SIGHUP to a process every two milliseconds, SIGNALS times; yield the list to which each is added."""
    sent: list[int] = []

    pause = threading.Event()

    def send() -> None:
        for _ in range(SIGNALS):
            os.kill(pid, signal.SIGHUP)
            sent.append(pid)
            pause.wait(0.002)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        thread.join()


def test_signals_that_interrupt_system_calls_lose_no_byte(start, far):
    """Receives, sends and polls end with EINTR, whose handlers run; every reply arrives, byte by byte as expected."""
    sluice = start(far, settings={"policies": []})
    with Honest(sluice.port) as honest:
        with interrupted(sluice.pid) as sent:
            honest.ask()
            with Crowd(sluice.port, CLIENTS):
                await_that(lambda: len(sent) == SIGNALS, "all signals")
        honest.ask()
    await_that(lambda: "config_reloaded" in sluice.said(), "a reload")


def quota_of(period_ms: int) -> list[dict[str, object]]:
    """A quota of one request in so many milliseconds."""
    quotas = [{"client_id": "tests", "request_rate": 1000 / period_ms}]
    return [{"use": "quota", "config": {"quotas": quotas, "burst_seconds": 0}}]


def unthrottled(request: bytes) -> bytes:
    """The reply to a Heartbeat v1 without a throttle time."""
    return f.beat_reply(f.correlation_id(request[4:]))


@pytest.mark.parametrize("period_ms", [700, 60_000])
def test_a_higher_limit_ends_a_throttle_whether_or_not_its_mute_has_begun(start, period_ms):
    """A client was told to wait. A mute of less than a second is mostly deferred: it begins when the client sends."""
    with ExitStack() as opened:
        broker = opened.enter_context(StubBroker(unthrottled))
        sluice = start(broker.server, settings={"policies": quota_of(1)})
        client = opened.enter_context(socket.create_connection(("127.0.0.1", sluice.port), 60))
        for reloads in (1, 3):  # the log keeps five such lines of a minute
            for number, period in enumerate((period_ms, 1)):
                sluice.reload(policies=quota_of(period))
                await_that(
                    lambda: sluice.said().count("config_reloaded") == reloads + number,  # noqa: B023
                    "the reload",
                )
                client.sendall(f.beat(reloads + number))
                (reply,) = receive_frames(client, 1)
                assert f.correlation_id(reply) == reloads + number
                told_ms = int.from_bytes(reply[8:12], "big")
                assert told_ms > 1 if period == period_ms else told_ms <= 1
