"""2,000 TLS handshakes at once: clients that are connected notice little, and every new one is served."""

import selectors
import socket
import ssl
import threading
import time
from contextlib import suppress
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.honest import Honest
from tests.support.sluice_process import SluiceProcess
from tests.support.stub_broker import StubBroker

CLIENTS = 2_000
MAX_WAIT_CPU_S = 0.05
"""Of Sluice, in one wait of a client that is connected: 50 ms on a machine that does nothing else."""


class Shaking:
    """One client in its handshake, whose first message is sent with those of all others."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname="localhost")
        self.step()
        self._hello = self._outgoing.read()

    def begin(self) -> None:
        """Send the first message."""
        self.socket.sendall(self._hello)
        self.socket.setblocking(False)

    def receive(self) -> bool:
        """Handle what has arrived; return whether the handshake is complete. Raises ConnectionError."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self._incoming.write(data)
        is_complete = self.step()
        if data := self._outgoing.read():
            self.socket.send(data)
        return is_complete

    def step(self) -> bool:
        """Take a step; return whether the handshake is complete."""
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            return True
        return False


def shake(clients: list[Shaking]) -> int:
    """Make all handshakes at once; return how many were completed."""
    complete = 0
    with selectors.DefaultSelector() as waiting:
        for each in clients:
            each.begin()
            waiting.register(each.socket, selectors.EVENT_READ, each)
        until = time.monotonic() + 60
        while waiting.get_map() and time.monotonic() < until:
            for key, _ in waiting.select(1):
                try:
                    is_over = key.data.receive()
                    complete += is_over
                except ConnectionError:
                    is_over = True
                if is_over:
                    waiting.unregister(key.fileobj)
    return complete


def test_two_thousand_handshakes_at_once_delay_no_connected_client(
    broker: StubBroker, tmp_path: Path
) -> None:
    """Each wait of a connected client has less than 50 ms of Sluice's CPU, and all 2,000 handshakes are made."""
    authority = Authority(tmp_path / "authority")
    own = authority.issue("localhost", "127.0.0.1")
    sluice = SluiceProcess(broker.server, tmp_path / "sluice")
    files = {"cert_file": str(own.cert_file), "key_file": str(own.key_file)}
    sluice.settings["listen"] = {"port": sluice.port, "nodes": "0-7", "tls": files}
    context = ssl.create_default_context(cafile=str(authority.ca_file))
    ending = threading.Event()
    with sluice, Honest(sluice.port, "calm", sluice.pid) as calm:
        calm.socket = context.wrap_socket(calm.socket, server_hostname="localhost")
        calm.ask()
        clients = [Shaking(sluice.port, context) for _ in range(CLIENTS)]

        def ask() -> None:
            while not ending.wait(0.001):
                calm.ask()

        asker = threading.Thread(target=ask)
        asker.start()
        began = time.monotonic()
        complete = shake(clients)
        took_s = time.monotonic() - began
        ending.set()
        asker.join()
        for each in clients:
            each.socket.close()
    waits = sorted(calm.waits_s)
    print(  # noqa: T201 - the figures of this machine
        f"{complete} handshakes in {took_s:.1f} s; {len(waits)} waits: median {waits[len(waits) // 2] * 1000:.1f} ms, "
        f"p99 {waits[len(waits) * 99 // 100] * 1000:.1f} ms, CPU in the worst {calm.worst_cpu_s * 1000:.1f} ms"
    )
    assert complete == CLIENTS
    assert calm.worst_cpu_s < MAX_WAIT_CPU_S
