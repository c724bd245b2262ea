"""Requests of versions that a release of Kafka removed pass as they are, and are reported."""

import pytest

from proxy.core.errors import CloseReason
from tests.support.core.sessions import Wire, make_engine
from tests.support.messages import frames as f
from wire.apis import ApiKey

OLD_OFFSETS = f.request(ApiKey.LIST_OFFSETS, 0, 1, bytes(8))
NEW_OFFSETS = f.request(ApiKey.LIST_OFFSETS, 1, 2, bytes(8))


@pytest.mark.parametrize("chunk", [1, 7, 1 << 10])
def test_a_removed_version_passes_and_is_reported_once_for_each_session(chunk: int) -> None:
    """The broker decides, as without Sluice; a client names itself by its client id."""
    wire = Wire().client(OLD_OFFSETS + OLD_OFFSETS, chunk)
    assert wire.to_broker == OLD_OFFSETS + OLD_OFFSETS
    assert wire.watcher.removed == [("tests", "ListOffsets", 0)]
    Wire(wire.engine).client(OLD_OFFSETS, chunk)
    assert len(wire.watcher.removed) == 2


def test_a_version_that_every_release_has_is_not_reported() -> None:
    """ListOffsets v1 is the oldest of Kafka 4.0."""
    assert Wire().client(NEW_OFFSETS + f.heartbeat(3)).watcher.removed == []


def test_a_broker_that_closes_on_a_removed_version_is_not_said_to_need_tls() -> None:
    """It is the client that needs an update: `removed_version` says so."""
    wire = Wire(make_engine(now_ms=1000))
    wire.session.node = wire.engine.topology.nodes.health("10.0.0.1:9092")
    wire.client(OLD_OFFSETS)
    wire.session.broker_gone(CloseReason.BROKER_CLOSED, 1000)
    assert wire.watcher.hung_up == []
