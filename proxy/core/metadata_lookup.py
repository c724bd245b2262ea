"""Where is node n? Asked of a bootstrap broker, before any client's metadata has told us.

Sans-IO: the dialer sends `question` on a fresh connection and feeds what comes back until `done`.
A broker that wants authentication closes instead; then the dialer falls back (see there).
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


class MetadataLookup:
    """One question, one answer; what is learnt goes to the topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._received = bytearray()
        self.question = metadata.brokers_request()
        self.done = False

    def feed(self, data: bytes) -> None:
        """Take what the broker sent. Raises BrokerProtocolError when it is no answer."""
        self._received += data
        if len(self._received) < 4:
            return
        (size,) = _SIZE(self._received)
        if not 8 <= size <= MAX_ANSWER_BYTES:
            raise BrokerProtocolError(f"an answer of {size} bytes to a metadata question")
        if len(self._received) >= 4 + size:
            if self._received[4:8] != self.question[8:12]:
                raise BrokerProtocolError("an answer to another question")
            try:
                brokers = metadata.read_brokers(bytes(self._received[: 4 + size]))
            except WireError as error:
                raise BrokerProtocolError(f"no metadata: {error}") from error
            self._topology.learn(brokers)
            self.done = True
