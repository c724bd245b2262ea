"""No purgatory at all: what remains is what the benchmark itself costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.purgatory.play import Request
from proxy.core.purgatory import DelayedOperation, Purgatory

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable


class NoPurgatory(Purgatory):
    """Takes requests and forgets them."""

    __slots__ = ()

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Collection[Hashable], at_ms: int, now_ms: int
    ) -> bool:
        """What would expire completes at once, the others when their time comes."""
        if isinstance(operation, Request) and operation.completes_ms >= at_ms:
            return operation.force_complete(now_ms)
        return False
