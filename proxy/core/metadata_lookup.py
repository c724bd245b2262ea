"""Looks up broker addresses at a bootstrap broker, before any client's Metadata response has named them.

Sans-IO: the dialer sends `question` on a fresh connection and feeds the bytes it receives until `done`.
A broker that requires authentication closes the connection; then the dialer falls back (see there).
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from proxy.core.errors import BrokerProtocolError
from wire import metadata
from wire.errors import WireError

if TYPE_CHECKING:
    from proxy.core.topology import Topology

_SIZE = Struct(">i").unpack_from
MAX_ANSWER_BYTES = 16 << 20
CORRELATION_ID = 0


class MetadataLookup:
    """Sends one Metadata request and passes the brokers of its response to the topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._received = bytearray()
        self.question = metadata.brokers_request(CORRELATION_ID)
        self.done = False

    def feed(self, data: bytes) -> None:
        """Take bytes from the broker. Raises BrokerProtocolError when they are no valid Metadata response."""
        self._received += data
        if len(self._received) < 4:
            return
        (size,) = _SIZE(self._received)
        if not 8 <= size <= MAX_ANSWER_BYTES:
            raise BrokerProtocolError(
                f"Metadata response size {size} is outside 8..{MAX_ANSWER_BYTES}"
            )
        if len(self._received) >= 4 + size:
            if self._received[4:8] != self.question[8:12]:
                raise BrokerProtocolError("Metadata response has the wrong correlation id")
            try:
                brokers = metadata.read_brokers(bytes(self._received[: 4 + size]))
            except WireError as error:
                raise BrokerProtocolError(f"Metadata response is malformed: {error}") from error
            self._topology.learn(brokers)
            self.done = True
