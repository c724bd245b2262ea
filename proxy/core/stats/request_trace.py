"""Traces of single requests, kept only for those that waited, failed, were slow or were sampled.

Times are the engine's, in microseconds. A RequestTrace is created at the first event of a request that must be
reported, and passed to the observer when the request has ended (`Observer.on_trace`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.api import Outcome

if TYPE_CHECKING:
    from policies.api import Peer, QuotaViolation
    from policies.audit_facts import AuditFacts
    from wire.apis import Api
    from wire.produce import ProduceWalker


class Stage(NamedTuple):
    """A wait before the request was forwarded. `kind` is one of `meters.STAGES`, `detail` names the cause of the wait,
    and `outcome` is the ending of a wait in the purgatory.
    """

    kind: str
    began_us: int
    ended_us: int
    detail: str = ""
    outcome: str = ""


class RequestTrace:
    """The trace of one request.

    `began_us`: when its first byte arrived; `forwarded_us`: when its last byte was forwarded (0: never);
    `ended_us`: when the reply was passed to the kernel or the client's outbox, or it was clear that none follows.
    `throttle_until_ms`: until when the request throttles its client (0: no throttle).
    `kept`: the data of a tracked Produce from which a local reply would be made; it contains the topics.
    """

    __slots__ = (
        "api",
        "audited",
        "began_us",
        "correlation_id",
        "ended_us",
        "excess",
        "facts",
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
        self.refused_because = ""  # the policy's reason
        self.audited = False  # the request is administrative, and always reported
        self.facts: AuditFacts | None = None  # names and errors that a policy tells the audit log
        self.sampled = False
        self.slow = False
        self.trace_id = ""  # the id given by the tracer, if the trace is exported

    @property
    def is_news(self) -> bool:
        """Whether the request was throttled, refused or answered by Sluice, or it waited, failed or was slow."""
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
        """Return the throttle time that remained when the reply was sent, in ms; 0: none."""
        return max(0, self.throttle_until_ms - self.ended_us // 1000)
