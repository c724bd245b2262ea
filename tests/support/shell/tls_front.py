"""TLS before a server that has none: it decrypts each connection and passes it on."""

import socket
import ssl
import threading
from contextlib import suppress
from typing import Self

from tests.support.shell.certificates import Pair

_CHUNK_BYTES = 64 << 10


class TlsFront:
    """Listens at 127.0.0.1 with a certificate; `client_ca_file` makes it require one of its clients."""

    def __init__(self, behind: tuple[str, int], pair: Pair, client_ca_file: str = "") -> None:
        self._behind = behind
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(pair.cert_file, pair.key_file)
        if client_ca_file:
            self._context.load_verify_locations(client_ca_file)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.server = f"127.0.0.1:{self.port}"
        self.versions: list[str | None] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)  # else the thread waits in accept for ever
        self._accepting.join()
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                accepted, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(accepted,), daemon=True).start()

    def _serve(self, accepted: socket.socket) -> None:
        client = self._context.wrap_socket(
            accepted, server_side=True, do_handshake_on_connect=False
        )
        with suppress(OSError), client:
            try:
                client.do_handshake()
            except ssl.SSLError:  # the alert must arrive, which a reset would discard
                socket.socket.shutdown(client, socket.SHUT_WR)
                while socket.socket.recv(client, _CHUNK_BYTES):
                    pass
                return
            self.versions.append(client.version())
            with socket.create_connection(self._behind) as server:
                back = threading.Thread(target=_copy, args=(server, client), daemon=True)
                back.start()
                _copy(client, server)
                back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
