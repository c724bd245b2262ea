"""The opening times of connections."""

from policies.api import Peer
from proxy.core.errors import CloseReason
from proxy.telemetry.connection_times import ConnectionTimes


def test_a_closed_connection_is_forgotten() -> None:
    """Its time is known from open to close; an unknown connection has none."""
    times = ConnectionTimes(lambda: 5)
    times.on_session_opened(Peer(7, "h", 1))
    assert times.opened_ms == {7: 5}
    times.on_session_closed(Peer(7, "h", 1), CloseReason.DRAINED, "")
    times.on_session_closed(Peer(8, "h", 1), CloseReason.DRAINED, "")
    assert times.opened_ms == {}
