"""A purgatory that does nothing; a run with it measures the cost of the benchmark itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.purgatory.play import Request
from proxy.core.purgatory.purgatory import DelayedOperation, Purgatory

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable


class NoPurgatory(Purgatory):
    """Drops every request."""

    __slots__ = ()

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Collection[Hashable], at_ms: int, now_ms: int
    ) -> bool:
        """Complete at once what would expire; return whether it was completed."""
        if isinstance(operation, Request) and operation.completes_ms >= at_ms:
            return operation.force_complete(now_ms)
        return False
