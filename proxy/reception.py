"""Clients as they come: counted at once, then connected to their broker and handed to the hub."""

from __future__ import annotations

import resource
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.shell.dialer import DialError
from proxy.shell.transport import PlainTransport

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from proxy.core.engine import Engine
    from proxy.core.observer import Observer
    from proxy.core.session import Session
    from proxy.shell.dialer import Dialer
    from proxy.shell.hub import Hub
    from proxy.shell.listeners import Listeners
    from proxy.shell.transport import Transport

DESCRIPTORS_SPARE = 64
"""Kept for files, pipes and libraries."""


class Reception:
    """`most_connections`: how many clients at once; more wait in the kernel's backlog."""

    def __init__(
        self,
        engine: Engine,
        hub: Hub,
        dialer: Dialer,
        observer: Observer,
        now_ms: Callable[[], int],
        most_connections: int,
    ) -> None:
        self.most_connections = most_connections
        self._engine = engine
        self._hub = hub
        self._dialer = dialer
        self._observer = observer
        self._now_ms = now_ms

    @property
    def is_full(self) -> bool:
        """Whether nobody is let in just now."""
        return len(self._engine.sessions) >= self.most_connections

    async def serve(self, listeners: Listeners, until: trio.Event) -> None:
        """Let clients in until the event; who is not connected yet by then is sent away."""
        async with trio.open_nursery() as serving:
            serving.start_soon(
                listeners.serve,
                partial(self._admit, serving),
                self._may_accept,
                self._observer.on_descriptors_exhausted,
            )
            await until.wait()
            serving.cancel_scope.cancel()

    def _may_accept(self) -> bool:
        if self.is_full:
            self._observer.on_connections_full(self.most_connections)
            return False
        return True

    def _admit(self, serving: trio.Nursery, accepted: socket.socket, node_id: int | None) -> None:
        """A client is here: counted at once, so that the limit holds; then served by its own task.

        Whatever goes wrong costs this client, never the listener.
        """
        try:
            client = PlainTransport(accepted)
            host, port = accepted.getpeername()[:2]
            session = self._engine.connect(host, port, node_id)
        except OSError:
            accepted.close()  # gone already
            return
        except Exception as error:  # noqa: BLE001 - see above
            accepted.close()
            self._observer.on_internal_error(error)
            return
        if session is None:
            client.close()
        else:
            serving.start_soon(self._serve, session, client, node_id)

    async def _serve(self, session: Session, client: PlainTransport, node_id: int | None) -> None:
        """One client, until the hub has it."""
        broker: Transport | None = None
        attached = False
        self._hub.arriving += 1
        try:
            broker = await self._dialer.reach(node_id)
            if node_id is None:  # any broker: those who are silent together are at one address
                session.node = self._engine.topology.nodes.health(broker.peer_address())
            self._hub.attach(session, client, broker)
            attached = True
        except DialError as error:
            session.end(error.reason, error.detail, self._now_ms())
        except Exception as error:  # noqa: BLE001 - one client's connection must not cost the others theirs
            self._observer.on_internal_error(error)
        finally:
            self._hub.arriving -= 1
            if not attached:
                for transport in (client, broker):
                    if transport is not None:
                        transport.close()
                self._release(session)

    def _release(self, session: Session) -> None:
        try:
            session.release(self._now_ms())
        except Exception as error:  # noqa: BLE001 - its socket is closed: nothing is left to be ended
            self._observer.on_internal_error(error)
            self._engine.sessions.discard(session)


def most_connections(wanted: int, others: int) -> int:
    """As many clients as there are descriptors for (two each), or as configured if that is fewer.

    `others`: how many sockets are no client's, listeners and their guests.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # some systems refuse an unlimited soft limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, (soft - DESCRIPTORS_SPARE - others) // 2)
    return min(wanted, possible) if wanted else possible
