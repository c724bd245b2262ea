"""A Sluice loads its libraries at its start: an import in the event loop would delay all clients."""

import socket
from pathlib import Path

from tests.support.faults.honest import Honest
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed

TLS_HELLO = bytes.fromhex("160301020001000001fc0303") + bytes(48)
DESCRIPTORS = 256
CONNECTIONS = 300


def libraries(pid: int) -> set[str]:
    """Return the files of native code that a process has mapped: an import of a native module maps its file."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split(maxsplit=5)[5] for line in maps if ".so" in line}


def test_no_library_is_loaded_after_the_start(start, broker) -> None:
    """Neither a TLS client, nor a reset, nor a reload, nor a lack of descriptors makes a plain Sluice import one."""
    sluice = start(broker.server, descriptors=DESCRIPTORS, settings={"limits": {}})
    with Honest(sluice.port) as honest:
        honest.ask()
        before = libraries(sluice.pid)
        for data in (TLS_HELLO, b"GET / HTTP/1.1\r\n\r\n", f.heartbeat(1)[:6]):
            with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                receive_until_closed(client)
        sluice.reload(limits={"max_connections": 900})
        await_that(lambda: "reloaded" in sluice.said(), "the reload")
        crowd = [
            socket.create_connection(("127.0.0.1", sluice.port), timeout=60)
            for _ in range(CONNECTIONS)
        ]
        await_that(lambda: "accept_delayed" in sluice.said(), "all that can to be in")
        honest.ask()
        for each in crowd:
            each.close()
        honest.ask()
        after = libraries(sluice.pid)
    assert any("libc.so" in name for name in before)
    assert after == before
    assert not any("/cryptography/" in name for name in after)
