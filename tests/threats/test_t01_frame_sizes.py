"""T1: frame sizes that are negative, tiny or huge, and other protocols on a plaintext port.

Sizes are checked before memory is reserved. Each such connection is closed at once without a byte, the log names HTTP
and TLS, other clients are served, memory does not grow and the pools are empty again.
"""

import itertools
import random
import re
import socket
import struct
import threading
import time
from contextlib import suppress

import psutil
import pytest

from bench.harness.ports import free_ports
from proxy.core.errors import CloseReason
from tests.support.core.sessions import Wire
from tests.support.faults.honest import Crowd
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages import sasl
from tests.support.messages.raw import receive_until_closed
from tests.support.processes.measured import metrics_of, scaled, tell

MOST_BYTES = 104_857_600
"""The default of limits.socket_request_max_bytes."""
TLS_HELLO = bytes.fromhex("160301020001000001fc0303") + bytes(48)
BAD = [
    *(struct.pack(">i", size) + bytes(8) for size in (-1, 0, 1, 9, 2**31 - 1, MOST_BYTES + 1)),
    b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
    TLS_HELLO,
]
HALF_HEADS = [f.heartbeat(1)[:size] for size in (1, 3, 4, 11, 12, 13)]
CONNECTIONS = scaled(2_000, 10_000)
ATTACKERS = 4
GROWTH_BYTES = 5 << 20


def provoke(port: int, data: bytes, *, half: bool, reset: bool) -> None:
    """Send these bytes and expect a disconnect, sooner than any timeout of Sluice's."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        with suppress(ConnectionError):  # it may be quicker than we
            client.sendall(data)
            if half:
                client.shutdown(socket.SHUT_WR)
        if reset:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            assert receive_until_closed(client) == b""


def attack(port: int, count: int) -> None:
    """Open `count` bad connections, some at a time; Sluice disconnects each."""
    ended: list[bytes] = []
    kinds = itertools.cycle(
        [*((each, False) for each in BAD), *((each, True) for each in HALF_HEADS)]
    )
    turns = [next(kinds) for _ in range(count)]

    def run(mine: list[tuple[bytes, bool]], chance: random.Random) -> None:
        for data, half in mine:
            provoke(port, data, half=half, reset=chance.random() < 0.1)
            ended.append(data)

    threads = [
        threading.Thread(target=run, args=(turns[n::ATTACKERS], random.Random(n)), daemon=True)
        for n in range(ATTACKERS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert len(ended) == count, "an attacker was not hung up on"


def test_thousands_of_bad_connections_affect_no_other_client(start, broker) -> None:
    """Each is closed at once without a byte; honest clients are served, and memory does not grow."""
    admin = f"127.0.0.1:{free_ports()}"
    sluice = start(broker.server, settings={"admin": {"listen": admin}})
    process = psutil.Process(sluice.pid)
    with Crowd(sluice.port, 4, pid=sluice.pid) as crowd:
        attack(sluice.port, 200)  # so that what is allocated once is allocated now
        before = process.memory_info().rss
        began = time.monotonic()
        attack(sluice.port, CONNECTIONS)
        seconds = time.monotonic() - began
        growth = process.memory_info().rss - before
    await_that(lambda: not metrics_of(admin)["sluice_pool_used_bytes"], "empty pools")
    tell(
        "T1",
        f"{CONNECTIONS} connections, {seconds / CONNECTIONS * ATTACKERS * 1000:.1f} ms each; memory "
        f"{growth / (1 << 20):+.1f} MiB; an honest request waited for {crowd.worst_cpu_s * 1000:.0f} ms of CPU at most",
    )
    assert crowd.worst_cpu_s < 0.25
    assert growth < GROWTH_BYTES


def test_the_log_names_http_and_tls_and_its_rate_is_limited(start, broker) -> None:
    """HTTP and TLS clients are named as such; many bad connections give a few lines a second and a count."""
    sluice = start(broker.server)
    for data in (b"GET / HTTP/1.1\r\n\r\n", TLS_HELLO):
        provoke(sluice.port, data, half=False, reset=False)
    began = time.monotonic()
    attack(sluice.port, 400)
    seconds = time.monotonic() - began
    provoke_next_second(sluice.port)
    await_that(lambda: "suppressed=" in sluice.said(), "the log to count what it left out")
    said = sluice.said()
    assert "this looks like HTTP" in said
    assert "this looks like TLS on a plaintext port" in said
    assert said.count("session_closed") <= 5 * (seconds + 4)
    assert re.search(r"suppressed=\d+", said)


def provoke_next_second(port: int) -> None:
    """Provoke once more in another second, so that the count of dropped lines is written."""
    second = int(time.time())
    while int(time.time()) < second + 2:
        provoke(port, BAD[0], half=False, reset=False)


CAPS = {  # of bodies: a header may have a client id of 32,767 bytes
    "ApiVersions": (f.API_VERSIONS, 3, 4 << 10),
    "SaslHandshake": (f.SASL_HANDSHAKE, 1, 4 << 10),
    "SaslAuthenticate": (f.SASL_AUTHENTICATE, 1, 16 << 10),
    "Metadata during a SASL exchange": (f.METADATA, 1, 64 << 10),
}


@pytest.mark.parametrize("kind", CAPS)
def test_what_an_unauthenticated_client_may_send_is_small(kind: str) -> None:
    """The frame is refused once its header is whole, before a byte of its body comes."""
    key, version, most_bytes = CAPS[kind]
    most_bytes += 10 + (version == 3)

    def announce(size: int) -> Wire:
        wire = Wire()
        if kind in {"SaslAuthenticate", "Metadata during a SASL exchange"}:
            wire.client(sasl.handshake(1, "PLAIN")).broker(sasl.handshake_reply(1))
        head = struct.pack(">ihhih", size, key, version, 2, -1) + b"\x00" * (version == 3)
        return wire.client(head)

    assert not announce(most_bytes).session.ended
    refused = announce(most_bytes + 1)
    assert refused.session.reason is CloseReason.CLIENT_PROTOCOL
    assert refused.held_bytes == 0
