"""Which broker is dialled for a client.

Rules:
- If the address of a node is unknown, a bootstrap broker is asked for it first: one question at a time, and none
  within half a second of the last, answered or not. An address that does not answer may be an old one, and is asked
  for in the same way.
- If bootstrap brokers close on that question, they require authentication, which only the client can give. Then a
  bootstrap broker is dialled in the node's place, and asked once the client has authenticated (`broker_routes`).
  One client goes ahead; others wait SCOUT_S for what is learnt from it. In the place of a node whose address is known
  one client goes each ASK_AGAIN_S: if the node is down, more would authenticate in vain.
- A broker whose address is known is dialled without a task (`direct_dials`); if that fails, `reach` tries the rest.
- If a broker cannot be reached, the client's connection is closed. Sluice does not answer in its place.
- With credentials of its own (`custody`) Sluice authenticates each connection, its questions' too, and then a refusal
  is not taken for a broker that has moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trio

from proxy.core.errors import CloseReason, SessionFault
from proxy.core.metadata_lookup import MetadataLookup
from proxy.host_port import host_port
from proxy.shell.dial import DialError, dial, never_own, receive_some, send_all, take_over
from proxy.shell.direct_dials import DirectDials, FailedDial
from proxy.shell.transport import PlainTransport

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from proxy.core.topology import Topology
    from proxy.shell.custody import Custody
    from proxy.shell.dial import IsOwn
    from proxy.shell.direct_dials import DirectDial
    from proxy.shell.transport import BrokerTls, Transport

    Address = tuple[str, int]

ASK_AGAIN_S = 0.5
"""The shortest time between two questions."""
SCOUT_S = 1.0
"""How long other clients wait for what is learnt from one that authenticates at a bootstrap broker."""


class Upstream(NamedTuple):
    """A connection to the broker at `route`.

    `lifetime_ms`: how long Sluice's own authentication holds; 0: as long as the connection. `custody` has made that
    authentication, and renews it. Not `confirmed`: it leads to a bootstrap broker, in the place of the client's node.
    `reached`: HOST:PORT of its socket, if that is known without a call of the system.
    """

    transport: Transport
    route: Address
    lifetime_ms: int = 0
    custody: Custody | None = None
    confirmed: bool = True
    reached: str | None = None

    @property
    def address(self) -> str:
        """Return HOST:PORT of the broker."""
        return host_port(*self.route)

    def close(self) -> None:
        """Close the connection."""
        self.transport.close()


class NoAnswer(NamedTuple):
    """No bootstrap broker has answered a question. `wants_authentication`: one has closed on it; else see `failed`."""

    failed: DialError
    wants_authentication: bool


class Dialer:
    """Connects to brokers by node id, or to any bootstrap broker. `timeout_s` is that of one attempt: for TCP, for
    TLS and for the authentication.
    """

    def __init__(
        self,
        topology: Topology,
        bootstrap: Sequence[Address],
        timeout_s: float,
        tls: BrokerTls | None = None,
        custody: Custody | None = None,
    ) -> None:
        self._topology = topology
        self._bootstrap = list(bootstrap)
        self._timeout_s = timeout_s
        self._tls = tls
        self._custody = custody
        self._direct_dials = DirectDials(timeout_s)
        self.is_own: IsOwn = never_own  # whether a connection leads to a port of ours
        self._asking = trio.Lock()
        self._asked_at = float("-inf")
        self._unanswered: NoAnswer | None = None  # the outcome of the last question
        self._scouting_until = float("-inf")
        self._scouted_at: dict[int, float] = {}  # by nodes whose address does not answer
        self._learned = trio.Event()
        topology.subscribers.append(self._on_learned)

    # -- without a task ----------------------------------------------------------------------------

    def direct(self, node_id: int | None) -> DirectDial | None:
        """Return how to dial this broker without a task (None: any bootstrap broker); None if only `reach` can."""
        if self._tls is not None or self._custody is not None:
            return None
        if node_id is not None:
            route = self._topology.address_of(node_id)
        else:
            route = self._bootstrap[0] if self._bootstrap else None
        return None if route is None else self._direct_dials.find(route)

    def on_connected(self, direct: DirectDial, connected: socket.SocketType) -> Upstream:
        """Return the connection that a direct dial has led to. Raises DialError if it leads to Sluice itself; then it
        remains the caller's.
        """
        take_over(connected, *direct.route, self.is_own)
        return Upstream(PlainTransport(connected), direct.route, reached=direct.reached)

    def has_moved(self, node_id: int | None, route: Address) -> bool:
        """Return whether this broker is known to be elsewhere by now."""
        known = None if node_id is None else self._topology.address_of(node_id)
        return known is not None and known != route

    def on_failed(self, direct: DirectDial, error: OSError) -> FailedDial | None:
        """Return what `reach` has to know of a direct dial that has failed; None if it may be made again."""
        return self._direct_dials.failed(direct, error)

    # -- in a task ---------------------------------------------------------------------------------

    async def reach(self, node_id: int | None, tried: FailedDial | None = None) -> Upstream:
        """Return a connection to this broker (None: to any bootstrap broker). Raises DialError.

        `tried`: a direct dial that has failed, and is not made again.
        """
        if node_id is None:
            return await self._reach_any(tried)
        broker = await self._reach_node(node_id, tried)
        known = self._topology.address_of(node_id)
        if known is None or known == broker.route or not broker.confirmed:
            return broker
        broker.close()  # it has moved during the dial
        return await self._dial(known)

    async def _reach_node(self, node_id: int, tried: FailedDial | None) -> Upstream:
        address = self._topology.address_of(node_id)
        failed: DialError | None = None
        if address is not None:
            try:
                return await self._dial(address, tried)
            except DialError as error:
                if error.reason is CloseReason.UPSTREAM_AUTHENTICATION_FAILED:
                    raise
                failed = error  # it may have moved
        unanswered = await self._ask(node_id, than=address)
        moved = self._topology.address_of(node_id)
        if moved is not None and moved != address:
            return await self._dial(moved)
        if unanswered is None:
            raise failed or DialError(CloseReason.UNKNOWN_NODE, f"no broker has the id {node_id}")
        if not unanswered.wants_authentication or not self._may_replace(node_id, failed):
            raise failed or unanswered.failed
        return await self._reach_in_place_of(node_id, address)

    def _may_replace(self, node_id: int, failed: DialError | None) -> bool:
        """Return whether a bootstrap broker may be dialled in the place of a node that cannot be asked for."""
        if failed is not None:
            now_s = trio.current_time()
            if now_s - self._scouted_at.get(node_id, float("-inf")) < ASK_AGAIN_S:
                return False
            self._scouted_at[node_id] = now_s
        return self._custody is None

    async def _reach_in_place_of(self, node_id: int, address: Address | None) -> Upstream:
        """Return a connection to a bootstrap broker, unless the client that went ahead has learnt where the node is."""
        wait_s = self._scouting_until - trio.current_time()
        if wait_s > 0:
            with trio.move_on_after(wait_s):
                await self._learned.wait()
            learnt = self._topology.address_of(node_id)
            if learnt is not None and learnt != address:
                return await self._dial(learnt)
        self._scouting_until = trio.current_time() + SCOUT_S
        self._learned = trio.Event()
        return (await self._reach_any(None))._replace(confirmed=False)

    def _on_learned(self, _node_id: int, _before: Address | None) -> None:
        self._learned.set()

    async def _reach_any(self, tried: FailedDial | None) -> Upstream:
        """Try the bootstrap brokers in turn; those that fail move to the end of the list."""
        error: DialError | None = None
        for address in tuple(self._bootstrap):
            try:
                return await self._dial(address, tried)
            except DialError as failed:
                error = failed
                if address in self._bootstrap:
                    self._bootstrap.remove(address)
                    self._bootstrap.append(address)
        raise error or DialError(CloseReason.UPSTREAM_REFUSED, "no bootstrap broker is configured")

    async def _ask(self, node_id: int, than: Address | None) -> NoAnswer | None:
        """Ask a bootstrap broker for the addresses of all brokers; return why none has answered, or None."""
        async with self._asking:
            known = self._topology.address_of(node_id)
            if known is not None and known != than:
                return None  # another task learnt it meanwhile
            if trio.current_time() - self._asked_at >= ASK_AGAIN_S:
                self._unanswered = await self._ask_each()
                self._asked_at = trio.current_time()
            return self._unanswered

    async def _ask_each(self) -> NoAnswer | None:
        failed = DialError(CloseReason.UPSTREAM_REFUSED, "no bootstrap broker is configured")
        wants_authentication = False
        for _ in range(len(self._bootstrap)):
            address = self._bootstrap[0]
            self._bootstrap.append(self._bootstrap.pop(0))
            try:
                if await self._try_ask(address):
                    return None
                wants_authentication = True
            except DialError as error:
                failed = error
        return NoAnswer(failed, wants_authentication)

    async def _try_ask(self, address: Address) -> bool:
        """Ask one bootstrap broker; return False if it closes the connection instead. Raises DialError."""
        lookup = MetadataLookup(self._topology)
        broker = await self._dial(address)
        try:
            with trio.fail_after(self._timeout_s):
                await send_all(broker.transport, lookup.question)
                while not lookup.done:
                    data = await receive_some(broker.transport)
                    if not data:
                        return False
                    lookup.feed(data)
        except trio.TooSlowError:
            why = f"{broker.address} did not answer within {self._timeout_s:g} s"
            raise DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, why) from None
        except SessionFault as fault:
            raise DialError(fault.reason, f"{broker.address}: {fault}") from fault
        except OSError:
            return False  # it has reset the connection
        finally:
            broker.close()
        return True

    async def _dial(self, route: Address, tried: FailedDial | None = None) -> Upstream:
        """Return an authenticated connection to one address, if it was not `tried` already. Raises DialError."""
        if tried is not None and tried.route == route:
            raise tried.error
        transport = await dial(*route, self._timeout_s, self._tls, self.is_own)
        address = host_port(*route)
        if self._custody is None:
            if self._tls is None:
                self._direct_dials.note(route, transport.peer_address())
            return Upstream(transport, route)
        failed = CloseReason.UPSTREAM_AUTHENTICATION_FAILED
        lifetime_ms = None
        try:
            with trio.fail_after(self._timeout_s):
                lifetime_ms = await self._custody.authenticate(transport, address)
        except SessionFault as fault:
            raise DialError(fault.reason, f"{address}: {fault}") from None
        except OSError as error:
            why = error.strerror or str(error)
            raise DialError(failed, f"{address}: {why}") from None
        except trio.TooSlowError:
            why = f"no authentication within {self._timeout_s:g} s"
            raise DialError(CloseReason.UPSTREAM_DIAL_TIMEOUT, f"{address}: {why}") from None
        finally:
            if lifetime_ms is None:
                transport.close()
        return Upstream(transport, route, lifetime_ms, self._custody)
