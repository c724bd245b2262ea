"""How one request fared, for whoever tells of it: kept only of those that waited, failed, were slow or sampled.

Times are the engine's microseconds. A RequestTrace is made when the first thing worth telling happens to a request,
filled on the way, and handed to the observer when the request has ended (`Observer.on_trail`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.api import Outcome

if TYPE_CHECKING:
    from policies.api import Peer, QuotaViolation
    from wire.apis import Api
    from wire.produce import ProduceWalker


class Stage(NamedTuple):
    """A wait before the request was forwarded. `kind` is one of `meters.STAGES`, `detail` what was waited for,
    `outcome` how a wait in the purgatory ended.
    """

    kind: str
    began_us: int
    ended_us: int
    detail: str = ""
    outcome: str = ""


class RequestTrace:
    """See the module.

    `began_us`: the first byte of the request came; `forwarded_us`: its last byte went on (0: never);
    `ended_us`: the reply was handed to the kernel or laid into the client's outbox, or there will be none.
    `throttle_until_ms`: until when the client is to be quiet after this (0: no throttle).
    `kept`: what a reply made here would have had to say of a tracked Produce: its topics are in it.
    """

    __slots__ = (
        "api",
        "audited",
        "began_us",
        "correlation_id",
        "ended_us",
        "excess",
        "forwarded_us",
        "kept",
        "outcome",
        "peer",
        "refused",
        "refused_because",
        "refused_by",
        "reply_bytes",
        "sampled",
        "size_bytes",
        "slow",
        "stages",
        "throttle_until_ms",
        "trace_id",
    )

    peer: Peer
    api: Api
    correlation_id: int
    size_bytes: int
    outcome: Outcome

    def __init__(self, began_us: int) -> None:
        self.began_us = began_us
        self.forwarded_us = 0
        self.ended_us = 0
        self.stages: list[Stage] = []
        self.excess: QuotaViolation | None = None
        self.kept: bytearray | bytes | ProduceWalker | None = None
        self.throttle_until_ms = 0
        self.reply_bytes = 0
        self.refused = 0  # the error code a policy answered with
        self.refused_by = ""  # that policy's entry
        self.refused_because = ""  # its words
        self.audited = (
            False  # the request is administrative: it is told of even if nothing happened to it
        )
        self.sampled = False
        self.slow = False
        self.trace_id = ""  # the tracer's, if this one is exported

    @property
    def is_news(self) -> bool:
        """Whether something was decided about the request, or it waited, failed or was slow."""
        return bool(
            self.throttle_until_ms
            or self.refused
            or self.refused_by
            or self.slow
            or self.stages
            or self.outcome is Outcome.EXPIRED
            or self.outcome is Outcome.DISCONNECTED
        )

    def throttle_time_ms(self) -> int:
        """How long the client was told to be quiet when the reply left."""
        return max(0, self.throttle_until_ms - self.ended_us // 1000)
