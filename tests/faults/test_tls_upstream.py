"""A bootstrap broker that expects TLS but is spoken to in plaintext."""

import socket
import ssl
import threading
from pathlib import Path

from tests.support.messages.raw import api_versions_request, receive_until_closed
from tests.support.processes.sluice_process import SluiceProcess

CLIENTS = 20


def _hang_up_on_plain_bytes(listener: socket.socket) -> None:
    """Play a TLS listener; it needs no certificate to refuse bytes that are not TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    while True:
        try:
            accepted, _ = listener.accept()
        except OSError:  # the test is over
            return
        try:
            context.wrap_socket(accepted, server_side=True)
        except ssl.SSLError:
            accepted.close()


def test_a_tls_listener_spoken_to_in_plaintext_is_named_in_a_few_lines_of_log(
    tmp_path: Path,
) -> None:
    """Each client is closed, and one line gives address and reason; many clients give few lines."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_hang_up_on_plain_bytes, args=(listener,), daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with SluiceProcess(address, tmp_path) as sluice:
            for _ in range(CLIENTS):
                with socket.create_connection((sluice.address, sluice.port), 60) as client:
                    client.sendall(api_versions_request(1))
                    assert receive_until_closed(client) == b""
        listener.shutdown(socket.SHUT_RDWR)
    lines = [line for line in sluice.said().splitlines() if "bootstrap_closed" in line]
    assert 1 <= len(lines) < CLIENTS
    assert address in lines[0]
    assert "wants TLS" in lines[0]
    assert "sluice check --connect" in lines[0]
