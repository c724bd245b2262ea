"""The sending half of a TLS connection: records that are encrypted once, and sent until the kernel has all of them.

If the kernel does not take all of a record, its bytes count as refused, and the next `send` must begin with them: it
sends the rest of the record first. At most BATCH records wait so.
"""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from proxy.shell.transport import TlsError
from proxy.tls.contexts import words_of

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

RECORD_BYTES: Final = 16 << 10
"""The most plaintext of one record (RFC 8446 section 5.1)."""
BATCH: Final = 2
"""How many records are sent at once."""


class RecordSender:
    """Encrypts with `write`, which puts records into `outgoing`, and sends them. `words` tells an error of OpenSSL."""

    __slots__ = (
        "_outgoing",
        "_owed_bytes",
        "_send_all",
        "_send_one",
        "_unsent",
        "_words",
        "_write",
    )

    def __init__(
        self,
        connected: socket.socket,
        write: Callable[[bytes | bytearray | memoryview], int],
        outgoing: ssl.MemoryBIO,
        words: Callable[[ssl.SSLError], str] = words_of,
    ) -> None:
        self._send_one = connected.send
        self._send_all = connected.sendmsg
        self._write = write
        self._outgoing = outgoing
        self._words = words
        self._unsent: list[bytes] = []  # ciphertext
        self._owed_bytes = 0  # of refused plaintext that is in `_unsent`

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """See Transport. Raises TlsError for a fault of OpenSSL."""
        size = len(data)
        sent = 0
        if self._unsent or self._outgoing.pending:
            if not self.flush():
                raise BlockingIOError
            sent, self._owed_bytes = self._owed_bytes, 0
        elif size <= RECORD_BYTES:
            return self._send_record(data, size)
        view = memoryview(data)
        while sent < size:
            stop = sent
            records: list[bytes] = []
            try:
                while stop < size and len(records) < BATCH:
                    stop += self._write(view[stop : stop + RECORD_BYTES])
                    records.append(self._outgoing.read())
            except ssl.SSLError as error:
                raise self.lost(error) from error
            self._unsent = records
            if not self.flush():
                self._owed_bytes = stop - sent
                if not sent:
                    raise BlockingIOError
                return sent
            sent = stop
        return sent

    def flush(self) -> bool:
        """Send ciphertext; return whether all of it was accepted. Raises OSError."""
        unsent = self._unsent
        if self._outgoing.pending:
            unsent.append(self._outgoing.read())
        if not unsent:
            return True
        try:
            taken = self._send_all(unsent)
        except BlockingIOError:
            return False
        while unsent and taken >= len(unsent[0]):
            taken -= len(unsent.pop(0))
        if unsent:
            unsent[0] = unsent[0][taken:]
        return not unsent

    def lost(self, error: ssl.SSLError) -> TlsError:
        """Send our alert, if there is one; return the error of a connection that OpenSSL gave up."""
        with suppress(OSError):
            self.flush()
        return TlsError(self._words(error))

    def _send_record(self, data: bytes | bytearray | memoryview, size: int) -> int:
        try:
            self._write(data)
        except ssl.SSLError as error:
            raise self.lost(error) from error
        record = self._outgoing.read()
        try:
            taken = self._send_one(record)
        except BlockingIOError:
            taken = 0
        if taken == len(record):
            return size
        self._unsent = [record[taken:]]
        self._owed_bytes = size
        raise BlockingIOError
