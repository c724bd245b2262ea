"""A dialer with credentials authenticates every connection that it makes."""

from __future__ import annotations

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.core.auth.secret_text import Secret
from proxy.core.errors import CloseReason
from proxy.core.topology import Topology
from proxy.shell.credentials import PasswordCredentials
from proxy.shell.custody import Custody
from proxy.shell.dial import DialError
from proxy.shell.dialer import Dialer
from tests.support.core.sessions import Watcher
from tests.support.faults.sasl_server import SaslServer


def topology(**nodes: int) -> Topology:
    """Return a topology that knows n1 at this port."""
    known = Topology("127.0.0.1", 19092, {n: ("127.0.0.1", 19093 + n) for n in range(2)}, Watcher())
    known.learn({int(name[1:]): (b"127.0.0.1", port) for name, port in nodes.items()})
    return known


def custody() -> Custody:
    """Return the credentials that a SaslServer accepts."""
    read = PasswordCredentials("SCRAM-SHA-256", "sluice", lambda: Secret("s3cret"))
    return Custody(read, lambda: None, lambda _: None)


async def test_the_connection_and_the_question_before_it_are_authenticated(
    nursery: trio.Nursery,
) -> None:
    """A bootstrap broker that requires SASL is asked for the address, and the node's lifetime is returned."""
    node = SaslServer(lifetime_ms=3_600_000)
    await nursery.start(node.serve)
    bootstrap = SaslServer(nodes=[(1, "127.0.0.1", node.port)])
    await nursery.start(bootstrap.serve)
    shared = custody()
    dialer = Dialer(topology(), [("127.0.0.1", bootstrap.port)], 5, custody=shared)
    reached = await dialer.reach(1)
    assert (reached.address, reached.lifetime_ms) == (node.address, 3_600_000)
    assert reached.custody is shared
    assert (bootstrap.metadata, bootstrap.early, node.early) == (1, 0, 0)
    assert bootstrap.brokers[0].authenticated == node.brokers[0].authenticated == 1
    reached.close()


async def test_a_refusal_has_its_own_reason_and_asks_no_other_broker(
    nursery: trio.Nursery,
) -> None:
    """A broker that refuses the credentials has not moved."""
    node = SaslServer(password="another")  # noqa: S106 - no secret
    bootstrap = SaslServer()
    await nursery.start(node.serve)
    await nursery.start(bootstrap.serve)
    dialer = Dialer(topology(n1=node.port), [("127.0.0.1", bootstrap.port)], 5, custody=custody())
    for words in ("the broker refused the SCRAM-SHA-256 credentials", "not tried again"):
        with pytest.raises(DialError, match=words) as caught:
            await dialer.reach(1)
        assert caught.value.reason is CloseReason.UPSTREAM_AUTHENTICATION_FAILED
        assert caught.value.detail.startswith(node.address)
    assert (node.attempts, bootstrap.attempts) == (1, 0)


async def test_bootstrap_brokers_that_refuse_end_in_the_same_reason(nursery: trio.Nursery) -> None:
    """An unknown node and the bootstrap port alike."""
    bootstrap = SaslServer(password="another")  # noqa: S106 - no secret
    await nursery.start(bootstrap.serve)
    dialer = Dialer(topology(), [("127.0.0.1", bootstrap.port)], 5, custody=custody())
    for node_id in (1, None):
        with pytest.raises(DialError) as caught:
            await dialer.reach(node_id)
        assert caught.value.reason is CloseReason.UPSTREAM_AUTHENTICATION_FAILED
    assert bootstrap.attempts == 1


async def test_a_broker_that_does_not_answer_is_given_up(
    nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    """The reason is that of a dial that takes too long."""
    node = SaslServer(silent=True)
    await nursery.start(node.serve)
    dialer = Dialer(topology(), [("127.0.0.1", node.port)], 5, custody=custody())
    failed: list[DialError] = []

    async def reach() -> None:
        with pytest.raises(DialError, match="no authentication within 5 s") as caught:
            await dialer.reach(None)
        failed.append(caught.value)

    async with trio.open_nursery() as reaching:
        reaching.start_soon(reach)
        while not node.brokers:
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(5)
    assert failed[0].reason is CloseReason.UPSTREAM_DIAL_TIMEOUT


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request", CloseReason.BROKER_PROTOCOL),
        (b"\x15\x03\x01\x00\x02\x02\x0a", CloseReason.BROKER_PROTOCOL),
    ],
)
async def test_a_server_that_is_no_broker_has_the_reason_of_its_fault(
    nursery: trio.Nursery, lie: bytes, reason: CloseReason
) -> None:
    """The detail names the address."""
    node = SaslServer(lies={0: lie})
    await nursery.start(node.serve)
    dialer = Dialer(topology(), [("127.0.0.1", node.port)], 5, custody=custody())
    with pytest.raises(DialError, match=node.address) as caught:
        await dialer.reach(None)
    assert caught.value.reason is reason


async def test_a_broker_that_is_away_is_no_refusal() -> None:
    """The reason is that of a connection that cannot be made."""
    dialer = Dialer(topology(), [("127.0.0.1", free_ports())], 5, custody=custody())
    with pytest.raises(DialError) as caught:
        await dialer.reach(None)
    assert caught.value.reason is CloseReason.UPSTREAM_REFUSED
