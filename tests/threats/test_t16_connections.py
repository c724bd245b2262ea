"""T16: more clients than file descriptors.

Connected clients are served, the others wait in the kernel, CPU use stays low, and all recover when some leave.
"""

import select
import socket
import threading
import time
import urllib.request
from contextlib import ExitStack

import psutil

from bench.harness.ports import free_ports
from tests.support.faults.honest import Honest
from tests.support.kafka.load import await_that
from tests.support.processes.measured import scaled, tell
from tests.support.shell.sockets import receive

DESCRIPTORS = 256
CONNECTIONS = scaled(400, 1_000)
LOOK_SECONDS = 2.0
BUSIEST = 0.5
RECOVERY_SECONDS = 60.0
"""So long is waited; what does not recover would never."""


def test_running_out_of_descriptors_does_not_spin(start, broker) -> None:
    """While 400 clients connect, CPU use stays low and connected
    clients are served; when some leave, all others are served.
    """
    admin = f"127.0.0.1:{free_ports()}"
    settings = {"admin": {"listen": admin}}
    sluice = start(broker.server, descriptors=DESCRIPTORS, settings=settings)
    process = psutil.Process(sluice.pid)
    nap = threading.Event()
    with Honest(sluice.port) as inside:
        inside.ask()
        with ExitStack() as crowd:
            for _ in range(CONNECTIONS):
                crowd.enter_context(
                    socket.create_connection(("127.0.0.1", sluice.port), timeout=60)
                )
            await_that(lambda: "accept_delayed" in sluice.said(), "all that can to be in")
            full = process.num_fds()
            assert full <= DESCRIPTORS
            began, busy = time.monotonic(), process.cpu_times()
            while time.monotonic() - began < LOOK_SECONDS:
                inside.ask()
                nap.wait(0.1)
            now = process.cpu_times()
            used_s = now.user + now.system - busy.user - busy.system
            share = used_s / (time.monotonic() - began)
            with urllib.request.urlopen(f"http://{admin}/live", timeout=60) as live:
                assert live.status == 200
            tell(
                "T16",
                f"{CONNECTIONS} clients and {DESCRIPTORS} descriptors: {share:.0%} of a core, /live answers",
            )
            assert share < BUSIEST
        with Honest(sluice.port, "late") as late:
            late.ask()
        inside.ask()
        await_that(lambda: process.num_fds() <= full // 2, "descriptors to be given back")
    assert sluice.said().count("\n") < 60
    assert sluice.said().count("accept_delayed") in {1, 2}, "once a minute, not once a client"


def test_a_waiting_client_is_served_when_there_is_room(start, broker) -> None:
    """A client that connects at the limit and sends its request gets its reply once others leave."""
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
