"""Request traces made by hand, and an exporter that remembers, for tests of telemetry."""

from collections.abc import Sequence

from policies.api import Outcome, Peer, QuotaViolation
from proxy.core.stats.request_trace import RequestTrace, Stage
from proxy.telemetry.traces.spans import Span
from wire import apis

EPOCH_US = 1_790_000_000_000_000
PEER = Peer(7, "10.0.0.9", 40000, node_id=2, client_id="billing-1", user="alice")


def waits(*lengths: tuple[str, int], began_us: int = EPOCH_US) -> list[Stage]:
    """Return stages of (kind, microseconds) that follow one another."""
    stages = []
    for kind, took_us in lengths:
        stages.append(Stage(kind, began_us, began_us + took_us))
        began_us += took_us
    return stages


def trace(
    stages: Sequence[Stage] = (),
    upstream_us: int | None = 5000,
    *,
    api_key: int = apis.ApiKey.PRODUCE,
    version: int = 9,
    outcome: Outcome = Outcome.REPLIED,
    peer: Peer = PEER,
    excess: QuotaViolation | None = None,
    quiet_ms: int = 0,
    turn_us: int = 0,
    began_us: int = EPOCH_US,
) -> RequestTrace:
    """Return the trace of a request that has ended.

    With `upstream_us` None it was never forwarded, and its reply waited `turn_us` for its turn. `quiet_ms` is the
    throttle time in its reply.
    """
    api = apis.known(api_key, version)
    assert api is not None
    made = RequestTrace(began_us)
    made.stages += stages
    made.peer, made.api, made.outcome = peer, api, outcome
    made.correlation_id, made.size_bytes, made.reply_bytes = 77, 1000, 90
    until_us = stages[-1].ended_us if stages else began_us
    made.forwarded_us = 0 if upstream_us is None else until_us
    made.ended_us = until_us + (turn_us if upstream_us is None else upstream_us)
    made.throttle_until_ms = made.ended_us // 1000 + quiet_ms if quiet_ms else 0
    made.excess = excess
    return made


class Kept:
    """An exporter that keeps the spans, or refuses them with `why`."""

    def __init__(self, why: str = "") -> None:
        self.why = why
        self.batches: list[list[Span]] = []
        self.closed = False

    @property
    def spans(self) -> list[Span]:
        return [span for batch in self.batches for span in batch]

    def send(self, spans: Sequence[Span]) -> str:
        if not self.why:
            self.batches.append(list(spans))
        return self.why

    def stop_waiting(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True
