"""Brokers that accept, count, and answer the questions of a dialer."""

import struct

import trio

from proxy.core.topology import Topology
from proxy.shell.dialer import Dialer
from tests.support.core.sessions import Watcher
from tests.support.messages import frames as f


class FakeBroker:
    """Accepts, counts, and answers metadata questions (or closes, as a broker that wants SASL does)."""

    def __init__(self, brokers=(), *, answers: bool = True) -> None:
        self.brokers = list(brokers)
        self.answers = answers
        self.questions = 0
        self.connections = 0
        self.port = 0

    async def serve(self, task_status=trio.TASK_STATUS_IGNORED) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._one, listeners, task_status=task_status)

    async def _one(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        async with stream:
            data = b""
            async for chunk in stream:
                data += chunk
                if len(data) < 4 or len(data) < 4 + struct.unpack_from(">i", data)[0]:
                    continue
                self.questions += 1
                if not self.answers:
                    return
                key, version, ident = struct.unpack_from(">hhi", data, 4)
                assert (key, version) == (f.METADATA, 1)
                await stream.send_all(f.metadata_reply(ident, self.brokers))
                data = b""


def topology() -> Topology:
    return Topology("127.0.0.1", 19092, {n: ("127.0.0.1", 19093 + n) for n in range(2)}, Watcher())


async def reach_and_close(dialer: Dialer, node_id: int) -> None:
    """Dial a node and close the connection."""
    (await dialer.reach(node_id)).close()
