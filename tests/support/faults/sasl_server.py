"""A SaslBroker on a loopback port: it authenticates each connection, then answers heartbeats and metadata questions."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import trio

from tests.support.core.sasl_broker import SaslBroker
from tests.support.messages import frames as f


@dataclass(slots=True)
class SaslServer:
    """`make` a broker for each connection; `brokers` are all of them. `silent`: it accepts and says nothing.

    `early` counts requests that came before the authentication; such a connection is closed, as Kafka does.
    """

    password: str = "s3cret"  # noqa: S105 - not a secret
    lifetime_ms: int = 0
    silent: bool = False
    lies: dict[int, bytes] = field(default_factory=dict)
    nodes: Sequence[tuple[int, str, int]] = ()
    brokers: list[SaslBroker] = field(default_factory=list)
    port: int = 0
    early: int = 0
    metadata: int = 0

    @property
    def address(self) -> str:
        """Return HOST:PORT."""
        return f"127.0.0.1:{self.port}"

    @property
    def attempts(self) -> int:
        """Return how many connections have sent a SaslHandshake."""
        return sum(bool(broker.heard) for broker in self.brokers)

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Accept connections until cancelled."""
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        await trio.serve_listeners(self._one, listeners, task_status=task_status)

    async def _one(self, stream: trio.SocketStream) -> None:
        broker = SaslBroker(
            password=self.password, lifetime_ms=self.lifetime_ms, lies=dict(self.lies)
        )
        self.brokers.append(broker)
        if self.silent:
            await trio.sleep_forever()
        async with stream:
            data = bytearray()
            async for chunk in stream:
                data += chunk
                while len(data) >= 4 and len(data) >= (
                    stop := 4 + struct.unpack_from(">i", data)[0]
                ):
                    frame = bytes(data[:stop])
                    del data[:stop]
                    reply = self._answer(broker, frame)
                    if reply is None:
                        return
                    await stream.send_all(reply)

    def _answer(self, broker: SaslBroker, frame: bytes) -> bytes | None:
        key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
        if key in {f.SASL_HANDSHAKE, f.SASL_AUTHENTICATE}:
            return broker.answer(frame)
        if not broker.authenticated:
            self.early += 1
            return None
        if key == f.METADATA:
            self.metadata += 1
            return f.metadata_reply(correlation_id, list(self.nodes))
        return f.heartbeat_reply(correlation_id)
