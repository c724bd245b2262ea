"""Few descriptors and many clients: those who are in are served, the others wait in the kernel, and nothing spins."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import ExitStack

import psutil

from tests.support.honest import Honest, receive

DESCRIPTORS = 256
CONNECTIONS = 400
LOOK_SECONDS = 2.0
BUSIEST = 0.5
RECOVERY_SECONDS = 2.0


def test_running_out_of_descriptors_does_not_spin(start, broker) -> None:
    """While 400 clients want in CPU use stays low and those inside are served; two seconds after, everybody is."""
    sluice = start(broker.server, descriptors=DESCRIPTORS)
    process = psutil.Process(sluice.pid)
    nap = threading.Event()
    with Honest(sluice.port) as inside:
        inside.ask()
        with ExitStack() as crowd:
            for _ in range(CONNECTIONS):
                crowd.enter_context(
                    socket.create_connection(("127.0.0.1", sluice.port), timeout=20)
                )
            nap.wait(0.3)  # until as many as can be are in
            full = process.num_fds()
            assert DESCRIPTORS * 3 // 4 < full <= DESCRIPTORS
            began, busy = time.monotonic(), process.cpu_times()
            while time.monotonic() - began < LOOK_SECONDS:
                inside.ask()
                nap.wait(0.1)
            now = process.cpu_times()
            used_s = now.user + now.system - busy.user - busy.system
            assert used_s / (time.monotonic() - began) < BUSIEST
        began = time.monotonic()
        with Honest(sluice.port, "late") as late:
            late.ask()
        assert time.monotonic() - began < RECOVERY_SECONDS
        inside.ask()
        while process.num_fds() > full // 2:
            assert time.monotonic() - began < RECOVERY_SECONDS, "descriptors are not given back"
            nap.wait(0.02)
    assert sluice.said().count("\n") < 60


def test_who_waits_outside_is_served_when_there_is_room(start, broker) -> None:
    """A client that came while it was full, and sent its request, gets its reply once others leave."""
    sluice = start(broker.server, variables={"SLUICE_LIMITS_MAX_CONNECTIONS": "4"})
    with ExitStack() as inside:
        for number in range(4):
            inside.enter_context(Honest(sluice.port, f"inside{number}")).ask()
        with Honest(sluice.port, "outside") as outside:
            request, expected = outside.next_request()
            outside.socket.sendall(request)
            readable, _, _ = select.select([outside.socket], [], [], 0.5)
            assert not readable
            inside.close()
            outside.socket.settimeout(RECOVERY_SECONDS)
            assert receive(outside.socket, len(expected)) == expected
