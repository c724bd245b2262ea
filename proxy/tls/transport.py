"""A TLS connection for the event loop: OpenSSL between two buffers in memory, and a plain socket.

Rules:
- OpenSSL never reads the socket itself. It would read as long as records without data arrive (a KeyUpdate: 12 us for
  27 bytes), and one peer could keep the process busy for any time. It is given the bytes of one receive.
- A peer starts with small receives. Data earns it large ones; records without data cost it these, and then the
  connection.
- Of these it gets RECORD_BYTES at a time, because its buffers keep the size that they once had.
- A receive with room for a record more than it takes leaves nothing in OpenSSL. A smaller one may leave ciphertext or
  decrypted bytes, and so may a handshake; `pending` tells the event loop.
- The end of the stream is the peer's close_notify or its FIN. Kafka's frames have their lengths, so a cut is seen.
- After `shutdown` all that arrives is discarded, so it is not decrypted.

The Python wrapper of OpenSSL's object adds a call to each read and write; the methods of the object are called instead.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.shell.transport import Security, TlsError, address_of, prepare
from proxy.tls.contexts import ENDED, words_of, words_of_broker
from proxy.tls.record_sender import RECORD_BYTES, RecordSender

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL_BYTES: Final = 4 << 10
LARGE_BYTES: Final = 48 << 10
"""The sizes of receives."""
OVERHEAD_BYTES: Final = 32
"""More than the ciphertext of a record has beyond its data."""
MAX_NOISE_BYTES: Final = 128 << 10
"""A connection ends if it has so much more ciphertext than twice its data and the overhead of its records."""
_TRUST_BYTES: Final = RECORD_BYTES + (1 << 10)
"""Noise below which receives are large: a record that is not whole yet is no noise."""
_NOT_YET: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError)
_HEADER: Final = struct.Struct(">BHH")  # type, version, length
_ALERT: Final = 21
_CLOSE_NOTIFY_BYTES: Final = 64
"""More than a record with an alert has in any cipher suite."""
_HIDDEN_ALERT_BYTES: Final = 2 + 1 + 16
"""Length of an alert's record in TLS 1.3: the alert, its type, the tag."""
_LARGE: Final = memoryview(bytearray(LARGE_BYTES))
"""Each receive of this process."""
_SMALL: Final = _LARGE[:SMALL_BYTES]


class ShakeState(Enum):
    """The end of a handshake, or the event of the socket that it waits for."""

    DONE = 0
    READABLE = 1
    WRITABLE = 2


class TlsTransport:
    """See Transport. Call `shake` until it is DONE before anything else."""

    __slots__ = (
        "_decrypted",
        "_incoming",
        "_is_discarding",
        "_noise_bytes",
        "_object",
        "_outgoing",
        "_read",
        "_receive",
        "_remains",
        "_sender",
        "_socket",
        "security",
        "send",
    )

    def __init__(
        self,
        connected: socket.socket,
        context: ssl.SSLContext,
        *,
        is_server: bool,
        server_name: str | None = None,
        session: ssl.SSLSession | None = None,
        received: bytes = b"",
    ) -> None:
        """Begin a connection; `received` was read before. Raises OSError, and ValueError for an invalid name."""
        prepare(connected)
        self._socket = connected
        self._receive = connected.recv_into
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._incoming.write(received)
        self._object = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=is_server,
            server_hostname=server_name,
            session=session,
        )
        inner = self._object._sslobj  # type: ignore[attr-defined] # noqa: SLF001 - see the module
        self._read: Callable[[int, memoryview], int] = inner.read
        self._decrypted: Callable[[], int] = inner.pending
        self._noise_bytes = _TRUST_BYTES + SMALL_BYTES
        self._remains = False  # whether OpenSSL may have bytes that were not given yet
        self._is_discarding = False
        words = words_of if is_server else partial(words_of_broker, tls=self._object)
        self._sender = RecordSender(connected, inner.write, self._outgoing, words)
        self.send: Callable[[bytes | bytearray | memoryview], int] = self._sender.send
        self.security: Security | None = None

    # -- the handshake -----------------------------------------------------------------------------

    @property
    def tls(self) -> ssl.SSLObject:
        """Return the object that knows certificate, server name and session."""
        return self._object

    def shake(self) -> ShakeState:
        """Take the handshake as far as the bytes of one receive allow. Raises ConnectionResetError, other OSError."""
        if not self._sender.flush():
            return ShakeState.WRITABLE
        try:
            received = self._receive(_LARGE[:RECORD_BYTES])
            if not received:
                raise ConnectionResetError("the connection was closed")
            self._incoming.write(_LARGE[:received])
        except BlockingIOError:
            pass
        try:
            self._object.do_handshake()
        except _NOT_YET:
            return ShakeState.READABLE if self._sender.flush() else ShakeState.WRITABLE
        except ssl.SSLError:
            with suppress(OSError):
                self._sender.flush()  # our alert
            raise
        self._sender.flush()
        self._remains = self._incoming.pending > 0
        cipher = self._object.cipher()
        self.security = Security(self._object.version() or "", cipher[0] if cipher else "", "")
        return ShakeState.DONE

    def identify(self, subject: str) -> None:
        """Set the subject of the peer's certificate."""
        if self.security is not None:
            self.security = self.security._replace(subject=subject)

    # -- Transport ---------------------------------------------------------------------------------

    def pending(self) -> int:
        """See Transport. Ciphertext counts too."""
        return self._decrypted() + self._incoming.pending if self._remains else 0

    def recv_into(self, area: memoryview) -> int:
        """See Transport."""
        room = len(area)
        incoming = self._incoming
        taken = received = at = records = 0
        more = 1
        if not self._remains:
            space = _LARGE if self._noise_bytes < _TRUST_BYTES else _SMALL
            if room < LARGE_BYTES + RECORD_BYTES:
                space = space[: max(room - RECORD_BYTES, min(room, SMALL_BYTES))]
            taken = self._receive(space)
            if not taken or self._is_discarding:
                return taken
        while more:
            if at < taken:
                stop = at + RECORD_BYTES
                incoming.write(_LARGE[at : min(taken, stop)])
                at = stop
            try:
                more = self._read(room - received, area[received:] if received else area)
                received += more
                records += 1
                while incoming.pending and more and received < room:
                    more = self._read(room - received, area[received:])
                    received += more
                    records += 1
            except _NOT_YET:
                pass
            except ENDED:
                more = 0
            except ssl.SSLError as error:
                raise self._sender.lost(error) from error
            if at >= taken:
                break
        if not more:
            if received:
                self._show_end()
            return received
        self._remains = received == room and (incoming.pending or self._decrypted()) > 0
        noise_bytes = self._noise_bytes + taken - 2 * received - OVERHEAD_BYTES * records
        if noise_bytes > MAX_NOISE_BYTES:
            raise TlsError(f"{MAX_NOISE_BYTES >> 10} KiB of records without data")
        self._noise_bytes = max(0, noise_bytes)
        if self._outgoing.pending:
            self._sender.flush()
        if not received:
            raise BlockingIOError
        return received

    def fileno(self) -> int:
        """See Transport."""
        return self._socket.fileno()

    def peer_address(self) -> str | None:
        """See Transport. The address that was dialled, not its name."""
        return address_of(self._socket)

    def is_finished(self) -> bool:
        """See Transport. True also if only a close_notify is left.

        It is encrypted: a record as short as an alert counts as one. No Kafka request fits in two bytes.
        """
        if self._remains:
            return False
        try:
            head = self._socket.recv(_CLOSE_NOTIFY_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        if len(head) < _HEADER.size:
            return not head
        kind: int
        length: int
        kind, _, length = _HEADER.unpack_from(head)
        is_whole = len(head) == _HEADER.size + length
        return is_whole and (kind == _ALERT or length == _HIDDEN_ALERT_BYTES)

    def shutdown(self) -> None:
        """See Transport. Sends close_notify if the kernel has room for it, then FIN."""
        with suppress(ssl.SSLError):  # the peer's close_notify is not waited for
            self._object.unwrap()
        self._sender.flush()
        self._is_discarding, self._remains = True, False
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """See Transport. With unread bytes the kernel sends a reset: see EventLoop's lingering."""
        self._socket.close()

    def _show_end(self) -> None:
        """Make the descriptor readable from now on: OpenSSL has read the end of the stream, and hides it."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RD)
