"""Errors by client; bytes, errors and failed dials by broker.

Rules:
- An error is a request that the broker did not answer: it was silent, so Sluice answered, or the connection ended.
  A refusal by a policy is not an error.
- Rates are those of the last second, from counters that the event loop increments at each read.
- The MAX_KEYS clients that failed last are kept. Brokers are those with a port in `listen.nodes`.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

from policies.api import Outcome
from proxy.core.errors import CloseReason
from proxy.core.observer import Observer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.api import Peer
    from proxy.core.engine import Engine
    from proxy.core.stats.request_trace import RequestTrace
    from proxy.core.stats.usage import UsageRow

MAX_KEYS: Final = 1000
MAX_PARTS: Final = 2000
"""Meters of one user, client id, API and broker: 3 KiB each."""
SWEEP_EVERY: Final = 10
"""Seconds between two sweeps of the meters of clients that are gone."""
_ERRORS: Final = frozenset({Outcome.EXPIRED, Outcome.DISCONNECTED})
_DIALS: Final = frozenset(
    {
        CloseReason.UPSTREAM_REFUSED,
        CloseReason.UPSTREAM_DIAL_TIMEOUT,
        CloseReason.UPSTREAM_AUTHENTICATION_FAILED,
    }
)
_LOST: Final = frozenset(
    {
        CloseReason.BROKER_RESET,
        CloseReason.BROKER_PROTOCOL,
        CloseReason.UPSTREAM_REQUEST_TIMEOUT,
    }
)


class ByteRates(NamedTuple):
    """Bytes per second, from clients and from the broker."""

    in_per_s: float = 0.0
    out_per_s: float = 0.0


class GoldenSignals(Observer):
    """Counts since the start. Call `attach` before reading."""

    def __init__(self) -> None:
        self.dial_failures: Counter[int | None] = Counter()
        """Clients whose broker could not be reached, by node."""
        self.lost: Counter[int | None] = Counter()
        """Connections that a broker reset, or that ended because it sent no reply or an invalid one."""
        self.node_errors: Counter[int | None] = Counter()
        self.errors_in_second = 0
        """Errors in the current second."""
        self.flows: dict[int | None, ByteRates] = {}
        self._errors: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._before: dict[int | None, tuple[int, int]] = {}
        self._before_ms = 0
        self._seconds = 0
        self._engine: Engine

    def attach(self, engine: Engine) -> None:
        """Set the engine, which may already run; from now on it counts by client and broker."""
        self._engine = engine
        engine.meters.part(MAX_PARTS)
        engine.forget_plans()  # plans of open connections have the old meters

    def errors_of(self, user: str, client_id: str) -> int:
        """Return how many requests of this client failed."""
        return self._errors.get((user, client_id), 0)

    def on_session_closed(self, peer: Peer, reason: CloseReason, detail: str) -> None:
        """See Observer."""
        if reason in _DIALS:
            self.dial_failures[peer.node_id] += 1
        elif reason in _LOST:
            self.lost[peer.node_id] += 1

    def on_trace(self, trace: RequestTrace) -> None:
        """See Observer."""
        if trace.outcome not in _ERRORS:
            return
        self.errors_in_second += 1
        self.node_errors[trace.peer.node_id] += 1
        key = trace.peer.user, trace.peer.client_id
        self._errors[key] = self._errors.pop(key, 0) + 1
        if len(self._errors) > MAX_KEYS:
            self._errors.popitem(last=False)

    def on_second(self, ts_ms: int, rows: Sequence[UsageRow]) -> None:
        """See Observer."""
        self.errors_in_second = 0
        elapsed_ms = ts_ms - self._before_ms
        now = {
            node: (from_clients.read_bytes, from_broker.read_bytes)
            for node, (from_clients, from_broker) in self._engine.topology.nodes.traffic.items()
        }
        if elapsed_ms > 0:
            self.flows = {
                node: self._flow(node, counts, elapsed_ms) for node, counts in now.items()
            }
        self._before, self._before_ms = now, ts_ms
        self._seconds += 1
        if self._seconds % SWEEP_EVERY == 0:
            self._engine.meters.sweep(self._engine.usage.keys)

    def _flow(self, node: int | None, counts: tuple[int, int], elapsed_ms: int) -> ByteRates:
        before = self._before.get(node, (0, 0))
        return ByteRates(
            *(1000 * (now - then) / elapsed_ms for now, then in zip(counts, before, strict=True))
        )
