"""Sessions that are led to a broker, and what brokers tell of addresses."""

from tests.support.core.sessions import Wire

BOOTSTRAP = ("boot", 9092)
HOME = ("node-1", 9092)


def led(engine, route, node_id: int | None = 1, *, confirmed: bool = True) -> Wire:
    """Return a session of this node's port that is led to `route`."""
    wire = Wire(engine, node_id)
    engine.routes.lead(wire.session, route, confirmed=confirmed)
    return wire


def tell(engine, address, node_id: int = 1) -> None:
    """Let a broker name the address of a node, as a reply to any client does."""
    engine.topology.advertise(node_id, address[0].encode(), address[1])


def pass_time(wire: Wire, elapsed_ms: int, step_ms: int = 10) -> None:
    until_ms = wire.now_ms + elapsed_ms
    while wire.now_ms < until_ms:
        wire.advance(min(step_ms, until_ms - wire.now_ms))
