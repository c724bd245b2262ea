"""Dials that need no task: TCP alone, to an address that is known without a resolver.

Rules:
- The address is an IP address, or the one to which a name has led lately. Most dials look up no name then.
- The address of a name is kept KEPT_S, as the JVM keeps it for Kafka's own clients, and no longer than until a dial to
  it fails: then the name is looked up again. It gets NAMED_S to answer, because it may be another's by now.
- Where a name has several addresses the one is kept that was reached.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from proxy.shell import connecting
from proxy.shell.dial import DialError, refused, too_slow

if TYPE_CHECKING:
    from proxy.shell.connecting import SocketAddress

    Address = tuple[str, int]

KEPT_S: Final = 30.0
NAMED_S: Final = 1.0
MAX_KEPT: Final = 1000
"""The most names that are kept. Brokers may name any."""

socket_address = lru_cache(maxsize=MAX_KEPT)(connecting.socket_address)


class DirectDial(NamedTuple):
    """A dial of the broker at `route`, to the socket address `to`. `is_named`: `route` has a name."""

    route: Address
    to: SocketAddress
    timeout_s: float
    is_named: bool


class FailedDial(NamedTuple):
    """The outcome of a direct dial of the broker at `route`."""

    route: Address
    error: DialError


class DirectDials:
    """The addresses that can be dialled without a task. `timeout_s` is that of one attempt."""

    __slots__ = ("_looked_up", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._looked_up: dict[Address, tuple[SocketAddress, float]] = {}

    def find(self, route: Address) -> DirectDial | None:
        """Return how to dial this route without a task; None if its name must be looked up."""
        to = socket_address(*route)
        if to is not None:
            return DirectDial(route, to, self._timeout_s, is_named=False)
        known = self._looked_up.get(route)
        if known is None or known[1] <= trio.current_time():
            return None
        return DirectDial(route, known[0], min(self._timeout_s, NAMED_S), is_named=True)

    def note(self, route: Address, reached: str | None) -> None:
        """Keep the HOST:PORT at which a route was reached; None: it has disconnected already."""
        if reached is None or socket_address(*route) is not None:
            return
        host, _, port = reached.rpartition(":")
        to = socket_address(host.strip("[]"), int(port))
        if to is not None:
            if len(self._looked_up) >= MAX_KEPT:
                self._looked_up.clear()
            self._looked_up[route] = to, trio.current_time() + KEPT_S

    def failed(self, direct: DirectDial, error: OSError) -> FailedDial | None:
        """Return the outcome of a direct dial. None: it says nothing, because the name must be looked up again."""
        if direct.is_named:
            self._looked_up.pop(direct.route, None)
            return None
        if isinstance(error, TimeoutError) and error.errno is None:
            return FailedDial(direct.route, too_slow(*direct.route, direct.timeout_s))
        return FailedDial(direct.route, refused(*direct.route, error))
