"""A TLS connection for the event loop, over a non-blocking socket whose handshake is complete.

Rules:
- OpenSSL reads the socket itself, one record at a time, and nothing in advance. So what it holds is at most one record
  of each direction (RECORD_BYTES and a little), and the kernel has the rest, where the poll set sees it.
- A read of RECORD_BYTES or more leaves no decrypted bytes in OpenSSL. A smaller one may, and `pending` tells the event
  loop.
- A record is encrypted once. If the kernel does not take all of it, `send` refuses its bytes, and the next call
  must begin with them: OpenSSL sends the rest of the record, not the bytes it is given.
- The end of the stream is the peer's close_notify or its FIN. Kafka's frames have their lengths, so a cut is seen.
- After `shutdown` all that arrives is discarded, so it is not decrypted.

The Python wrapper of the socket adds two calls to each read and write; the methods of its C object are called instead.
"""

from __future__ import annotations

import socket
import ssl
import struct
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from proxy.shell.transport import Security, TlsError, address_of

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD_BYTES: Final = 16 << 10
"""The most plaintext of one record (RFC 8446 section 5.1)."""
_NOT_NOW: Final = (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError)
_ENDED: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError)
_HEADER: Final = struct.Struct(">BHH")  # type, version, length
_ALERT: Final = 21
_CLOSE_NOTIFY_BYTES: Final = 64
"""More than a record with an alert has in any cipher suite."""
_HIDDEN_ALERT_BYTES: Final = 2 + 1 + 16
"""Length of an alert's record in TLS 1.3: the alert, its type, the tag."""


class TlsTransport:
    """See Transport. `subject` is the peer's, for `security`."""

    __slots__ = ("_inner", "_read", "_socket", "_write", "pending", "security")

    def __init__(self, connected: ssl.SSLSocket, subject: str = "") -> None:
        inner = connected._sslobj  # type: ignore[attr-defined] # noqa: SLF001 - see the module
        self._socket = connected
        self._inner = inner
        self._read: Callable[[int, memoryview], int] = inner.read
        self._write: Callable[[bytes | bytearray | memoryview], int] = inner.write
        self.pending: Callable[[], int] = inner.pending
        cipher = connected.cipher()
        self.security = Security(connected.version() or "", cipher[0] if cipher else "", subject)

    def recv_into(self, area: memoryview) -> int:
        """See Transport. Reads records while they are full and another one fits."""
        room = len(area)
        try:
            received = self._read(room, area)
        except _NOT_NOW:
            raise BlockingIOError from None
        except _ENDED:
            return 0
        except ssl.SSLError as error:
            raise _lost(error) from error
        if received < RECORD_BYTES:
            return received
        while room - received >= RECORD_BYTES:
            try:
                more = self._read(room - received, area[received:])
            except _NOT_NOW:
                break
            except _ENDED:
                more = 0
            except ssl.SSLError as error:
                raise _lost(error) from error
            if not more:
                self._show_end()
                break
            received += more
            if more < RECORD_BYTES:
                break
        return received

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """See Transport. Sends a record at a time."""
        size = len(data)
        sent = 0
        try:
            if size <= RECORD_BYTES:
                return self._write(data)
            view = memoryview(data)
            while sent < size:
                sent += self._write(view[sent : sent + RECORD_BYTES])
        except _NOT_NOW:
            if not sent:
                raise BlockingIOError from None
        except _ENDED:
            raise ConnectionResetError from None
        except ssl.SSLError as error:
            raise _lost(error) from error
        return sent

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
        if self.pending():
            return False
        try:
            head = socket.socket.recv(self._socket, _CLOSE_NOTIFY_BYTES, socket.MSG_PEEK)
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
            self._inner.shutdown()
        self._read = partial(_receive_raw, self._socket)
        self._socket.shutdown(socket.SHUT_WR)

    def session(self) -> ssl.SSLSession | None:
        """Return the session that a later connection to the same server can resume."""
        found: ssl.SSLSession | None = self._inner.session
        return found

    def close(self) -> None:
        """See Transport. With unread bytes the kernel sends a reset: see EventLoop's lingering."""
        self._socket.close()

    def _show_end(self) -> None:
        """Make the descriptor readable from now on: OpenSSL has read the end of the stream, and hides it."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RD)


def _receive_raw(connected: ssl.SSLSocket, _room: int, area: memoryview) -> int:
    return socket.socket.recv_into(connected, area)


def words_of(error: ssl.SSLError) -> str:
    """Return the reason of OpenSSL in words, such as "sslv3 alert bad certificate"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, _ENDED):
        return "the connection was closed"
    return (error.reason or str(error)).lower().replace("_", " ")


def _lost(error: ssl.SSLError) -> TlsError:
    return TlsError(words_of(error))
