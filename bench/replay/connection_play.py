"""Plays a connection again and again: a client connects, asks its first question, gets the reply and disconnects.

Everything but Trio's scheduler is that of a running Sluice: the port, the acceptor, the dial of the broker at an
address that is known without a resolver, and the event loop. The client and the broker are the play's own sockets, on
loopback. Each step waits for its event, so each play takes the same steps.
"""

import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, cast

from bench.harness.ports import free_ports
from bench.replay.cases import Case
from proxy.core.errors import CloseReason
from proxy.shell.acceptor import Acceptor
from proxy.shell.broker_dials import BrokerDials
from proxy.shell.clock import Clock
from proxy.shell.dialer import Dialer
from proxy.shell.event_loop import EventLoop
from proxy.shell.listeners import Listeners
from tests.support.shell.sockets import HandClock

if TYPE_CHECKING:
    import trio

HOST: Final = "127.0.0.1"
WAIT_S: Final = 60.0
"""How long a step waits for its event on a machine that is busy."""
MAX_CONNECTIONS: Final = 1000


class _NoTasks:
    """Stands where Trio's nursery is: these connections need no task."""

    def start_soon(self, *_: object) -> NoReturn:
        """Refuse to start a task."""
        raise RuntimeError("a connection needs a task of Trio")


_NO_TASKS: Final = cast("trio.Nursery", _NoTasks())


class _Acceptor(Acceptor):
    """An acceptor that serves without Trio."""

    def start(self, listeners: Listeners) -> None:
        """Accept clients from now on."""
        listeners.start(
            self._event_loop.endpoints,
            partial(self._admit, _NO_TASKS),
            self._may_accept,
            self._observer.on_descriptors_exhausted,
            self._is_storm,
        )


class _BrokerDials(BrokerDials):
    """Dials that are made without Trio."""

    def start(self) -> None:
        """Dial from now on."""
        self._nursery = _NO_TASKS


class ConnectionPlay:
    """A whole connection through the event loop. `step` is the event loop's, and may be replaced by one that counts."""

    def __init__(self, case: Case) -> None:
        self._frames = case.frames
        self._engine = engine = case.engine()
        self._clock = HandClock()
        self._loop = loop = EventLoop(engine, cast("Clock", self._clock))
        self.step: Callable[[float], int] = loop.step
        self._broker = socket.create_server((HOST, 0))
        dialer = Dialer(engine.topology, [self._broker.getsockname()], 10.0)
        dials = _BrokerDials(engine, loop, dialer, engine.observer, self._clock)
        dials.start()
        self._port = free_ports(HOST)
        self._listeners = Listeners(HOST, [(None, self._port)])
        dialer.is_own = self._listeners.is_peer_of
        acceptor = _Acceptor(engine, loop, engine.observer, self._clock, MAX_CONNECTIONS)
        acceptor.start(self._listeners)

    def once(self) -> int:
        """See Play."""
        request, reply = self._frames
        self._clock.now_ms += 1
        with socket.create_connection((HOST, self._port), WAIT_S) as client:
            self.step(WAIT_S)  # it is accepted
            client.sendall(request)
            self.step(WAIT_S)  # its broker is dialled
            self.step(WAIT_S)  # and gets the request
            broker, _ = self._broker.accept()
            with broker:
                passed = len(broker.recv(1 << 20))
                broker.sendall(reply)
                self.step(WAIT_S)
                passed += len(client.recv(1 << 20))
                client.close()
                self.step(WAIT_S)
        if self._engine.sessions:
            raise RuntimeError("the connection has not ended")
        return passed

    def close(self) -> None:
        """See Play."""
        self._loop.close_all(CloseReason.INTERNAL)
        self._listeners.close()
        self._loop.close()
        self._broker.close()
