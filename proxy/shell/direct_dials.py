"""Dials that need no task: TCP alone, to an address that is known without a resolver.

Rules:
- The address is an IP address, or the one to which a name has led lately. Most dials look up no name then.
- The address of a name is kept KEPT_S, as the JVM keeps it for Kafka's own clients, and no longer than until a dial to
  it fails: then the name is looked up again. It gets NAMED_S to answer, because it may be another's by now.
- Where a name has several addresses the one is kept that was reached.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import trio

from proxy.host_port import host_port
from proxy.shell.connecting import socket_address
from proxy.shell.dial import DialError, refused, too_slow

if TYPE_CHECKING:
    from proxy.shell.connecting import SocketAddress

    Address = tuple[str, int]

KEPT_S: Final = 30.0
NAMED_S: Final = 1.0
MAX_KEPT: Final = 1000
"""The most addresses that are kept. Brokers may name any."""


class DirectDial(NamedTuple):
    """A dial of the broker at `route`, to the socket address `to`, in words `reached`. `is_named`: `route` has a name.

    It is made until `ends_s` (by Trio's clock).
    """

    route: Address
    to: SocketAddress
    reached: str
    timeout_s: float
    is_named: bool
    ends_s: float = math.inf


class FailedDial(NamedTuple):
    """The outcome of a direct dial of the broker at `route`."""

    route: Address
    error: DialError


class DirectDials:
    """The addresses that can be dialled without a task. `timeout_s` is that of one attempt."""

    __slots__ = ("_known", "_timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._known: dict[Address, DirectDial] = {}

    def find(self, route: Address) -> DirectDial | None:
        """Return how to dial this route without a task; None if its name must be looked up."""
        known = self._known.get(route)
        if known is None:
            to = socket_address(*route)
            if to is None:
                return None
            known = DirectDial(route, to, host_port(*to[1]), self._timeout_s, is_named=False)
            self._keep(known)
        elif known.is_named and known.ends_s <= trio.current_time():
            return None
        return known

    def note(self, route: Address, reached: str | None) -> None:
        """Keep the HOST:PORT at which a route was reached; None: it has disconnected already."""
        if reached is None or socket_address(*route) is not None:
            return
        host, _, port = reached.rpartition(":")
        to = socket_address(host.strip("[]"), int(port))
        if to is not None:
            timeout_s, ends_s = min(self._timeout_s, NAMED_S), trio.current_time() + KEPT_S
            self._keep(DirectDial(route, to, reached, timeout_s, is_named=True, ends_s=ends_s))

    def _keep(self, direct: DirectDial) -> None:
        if len(self._known) >= MAX_KEPT:
            self._known.clear()
        self._known[direct.route] = direct

    def failed(self, direct: DirectDial, error: OSError) -> FailedDial | None:
        """Return the outcome of a direct dial. None: it says nothing, because the name must be looked up again."""
        if direct.is_named:
            self._known.pop(direct.route, None)
            return None
        if isinstance(error, TimeoutError) and error.errno is None:
            return FailedDial(direct.route, too_slow(*direct.route, direct.timeout_s))
        return FailedDial(direct.route, refused(*direct.route, error))
