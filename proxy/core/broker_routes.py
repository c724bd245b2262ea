"""Which broker each session is led to, and which sessions are led to the wrong one.

Rules:
- A connection to node n's port belongs at node n. It is elsewhere if n's address is known and another one was dialled.
  Such sessions retire, FEW each WINDOW_MS, so that a broker that moves does not cost all connections at once.
- A first address is followed at once. One that replaces another is followed when it has stayed for SETTLE_MS, and
  for twice as long after each further move within STABLE_MS: brokers that contradict each other end few connections.
- A session is unconfirmed if a bootstrap broker was dialled in the place of its node, whose address was not known or
  did not answer. Its client may send nothing but its authentication before the broker was asked (`route_question`).
- A connection to the bootstrap port belongs at any bootstrap broker; another list of them needs a restart.
- While all are at their place, or none is connected, there is no timer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.errors import CloseReason
from proxy.core.retirements import PATIENCE_MS, Retiring
from proxy.host_port import host_port

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from proxy.core.purgatory.timers import Timer, Timers
    from proxy.core.retirements import Retirements
    from proxy.core.topology import Topology

    Address = tuple[str, int]

FEW: Final = 5
WINDOW_MS: Final = 100
"""At most FEW sessions begin to retire in each window."""
SLICE: Final = 1000
"""The most sessions that one step looks at."""
SETTLE_MS: Final = 1_000
STABLE_MS: Final = 60_000
"""How long a new address must stay before it is followed: at first, and at most."""


class Routed(Retiring, Protocol):
    """A session. `route` is the address that was dialled for it; None before that."""

    route: Address | None


class Time(Protocol):
    """The shared state, which has the time of the current step."""

    @property
    def now_ms(self) -> int: ...


class _Move:
    """The last move of one node, and how long its new address must stay."""

    __slots__ = ("at_ms", "settle_ms", "timer")

    def __init__(self) -> None:
        self.at_ms = -STABLE_MS - 1
        self.settle_ms = 0
        self.timer: Timer | None = None


class BrokerRoutes:
    """The routes of all sessions of a process."""

    __slots__ = (
        "_again",
        "_begun_ms",
        "_left",
        "_misled",
        "_moves",
        "_retirements",
        "_room",
        "_sessions",
        "_time",
        "_timer",
        "_timers",
        "_topology",
        "_unconfirmed",
    )

    def __init__(
        self,
        sessions: Collection[Routed],
        topology: Topology,
        timers: Timers,
        retirements: Retirements,
        time: Time,
    ) -> None:
        self._sessions = sessions
        self._topology = topology
        self._timers = timers
        self._retirements = retirements
        self._time = time
        self._unconfirmed: dict[object, Routed] = {}
        self._misled: dict[object, Callable[[], None]] = {}  # they wait for their end
        self._moves: dict[int, _Move] = {}
        self._left: list[Routed] = []  # of the review that is under way
        self._again = False  # whether another review follows
        self._timer: Timer | None = None
        self._begun_ms, self._room = -WINDOW_MS, FEW  # of the current window
        topology.subscribers.append(self._on_moved)

    # -- how a session comes and goes ------------------------------------------------------------

    def lead(self, session: Routed, route: Address, *, confirmed: bool) -> None:
        """Note the address that was dialled; not `confirmed`: a bootstrap broker's, in the place of the node's."""
        session.route = route
        if not confirmed:
            self._unconfirmed[session] = session
        if self._is_elsewhere(session):  # the node has moved since it was dialled
            self._review(self._time.now_ms)

    def maybe_unconfirmed(self, session: object) -> Routed | None:
        """Return this session if its broker must be asked where the node is, once its client has authenticated."""
        return self._unconfirmed.get(session)

    def confirm(self, session: Routed, on_confirmed: Callable[[], None]) -> None:
        """Judge a session by the broker's answer, and call `on_confirmed` if it is led right.

        If not, it ends in its turn. Until then nothing of its client may be forwarded. If its node moves to its broker
        before that, it is led right after all.
        """
        node_id = session.peer.node_id
        known = None if node_id is None else self._topology.address_of(node_id)
        if known == session.route:
            self._unconfirmed.pop(session, None)
            on_confirmed()
        elif known is None:
            session.end_after_replies(CloseReason.UNKNOWN_NODE, f"no broker has the id {node_id}")
        else:
            self._misled[session] = on_confirmed
            self._review(self._time.now_ms)

    def discard(self, session: Routed) -> None:
        """Forget a session that has ended. After the last one nothing is left to follow."""
        self._unconfirmed.pop(session, None)
        self._misled.pop(session, None)
        if not self._sessions:
            for move in self._moves.values():
                if move.timer is not None:
                    move.timer.cancel()
                    move.timer = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._left.clear()
            self._again = False

    # -- what moves ------------------------------------------------------------------------------

    def _on_moved(self, node_id: int, before: Address | None) -> None:
        """Follow a node whose address has changed, when the new one has settled."""
        now_ms = self._time.now_ms
        if before is None:
            self._review(now_ms)
            return
        move = self._moves.setdefault(node_id, _Move())
        is_rare = now_ms - move.at_ms > STABLE_MS
        move.settle_ms = SETTLE_MS if is_rare else min(2 * move.settle_ms, STABLE_MS)
        move.at_ms = now_ms
        if move.timer is not None:
            move.timer.cancel()

        def on_settled(now_ms: int) -> None:
            move.timer = None
            self._review(now_ms)

        move.timer = self._timers.arm(now_ms + move.settle_ms, on_settled)

    # -- who is elsewhere ------------------------------------------------------------------------

    def _is_elsewhere(self, session: Routed) -> bool:
        node_id, route = session.peer.node_id, session.route
        if route is None or node_id is None:
            return False
        move = self._moves.get(node_id)
        if move is not None and move.timer is not None and session not in self._unconfirmed:
            return False  # its address has not settled
        known = self._topology.address_of(node_id)
        return known is not None and known != route

    def _review(self, now_ms: int) -> None:
        """Look at all sessions, from now on or after the review that is under way."""
        self._again = True
        if self._timer is None:
            self._timer = self._timers.arm(now_ms, self._step)

    def _step(self, now_ms: int) -> None:
        self._timer = None
        if now_ms >= self._begun_ms + WINDOW_MS:
            self._begun_ms, self._room = now_ms, FEW
        if not self._left and self._again:
            self._left, self._again = list(self._sessions), False
        left = self._left
        try:
            for _ in range(min(SLICE, len(left))):
                if not self._room:
                    break
                self._check(left.pop(), now_ms)
        finally:  # a fault of one session keeps no other
            if left or self._again:
                next_ms = now_ms + 1 if self._room else self._begun_ms + WINDOW_MS
                self._timer = self._timers.arm(next_ms, self._step)

    def _check(self, session: Routed, now_ms: int) -> None:
        if session.ending or session in self._retirements:
            return
        if not self._is_elsewhere(session):
            on_confirmed = self._misled.pop(session, None)
            if on_confirmed is not None:
                self.confirm(session, on_confirmed)
                session.ask_for_turn()
            return
        self._room -= 1
        patience_ms = 0 if session in self._unconfirmed else PATIENCE_MS
        detail = self._detail(session)
        self._retirements.retire(session, CloseReason.ROUTE_CHANGED, detail, now_ms, patience_ms)

    def _detail(self, session: Routed) -> str:
        node_id, route = session.peer.node_id, session.route
        known = None if node_id is None else self._topology.address_of(node_id)
        if route is None or known is None:  # it was not led yet, or belongs anywhere
            return ""
        return f"it led to {host_port(*route)}, and broker {node_id} is at {host_port(*known)}"
