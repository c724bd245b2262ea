"""The latest traced request in each bucket of the histograms of throttled and held requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.telemetry.metrics.families import Exemplar, place_of
from proxy.telemetry.metrics.names import STAGE

if TYPE_CHECKING:
    from proxy.core.stats.request_trace import RequestTrace

STAGES = frozenset(("throttle", "purgatory"))
Wait = tuple[str, str]
"""The name of an API and a stage."""


class ExemplarStore:
    """Keeps one exemplar per API, stage and bucket. Called on the request path, for requests that waited."""

    def __init__(self) -> None:
        self._kept: dict[Wait, dict[int, Exemplar]] = {}

    def note(self, trace: RequestTrace) -> None:
        """Keep an ended request as exemplar if it has a trace."""
        trace_id = trace.trace_id
        if not trace_id:
            return
        for stage in trace.stages:
            if stage.kind in STAGES:
                took_us = stage.ended_us - stage.began_us
                kept = self._kept.setdefault((trace.api.name, stage.kind), {})
                place = place_of(took_us, STAGE.edges)
                kept[place] = Exemplar(trace_id, took_us / 1e6, stage.ended_us / 1e6)

    def copy(self) -> dict[Wait, dict[int, Exemplar]]:
        """Return a copy of all exemplars, by API and stage."""
        return {wait: dict(kept) for wait, kept in self._kept.items()}
