"""The audit log: JSON lines about administrative requests and refusals, with user, time and address.

Rules:
- One line when an administrative request (`wire.apis`) has ended, when any request that a policy refused
  has ended, when one would have been refused by an entry in mode `observe`, when a client is refused at its connect,
  and when one fails to authenticate to Sluice. Names and figures come from headers; those of a body only from a policy
  (`policies.audit`, and what it denies), as names and error codes. Of an authentication there are only the mechanism
  and the claimed user.
- The loop makes the line and queues it; a thread writes it. Lines that the disk refuses are counted (`lost`), and a
  line `lines_lost` marks the gap. No request waits.
- The file is bounded. Each user at each address (IPv6: /64 network) has LINES_PER_SECOND of each kind, so one client
  cannot push out the lines of others, nor what it was refused the line of what it has done. Of acts that were done, and
  of those whose end is not known, each API is a kind; acts that failed are one kind, and what reached no broker, or is
  no act, another.
- Further lines are counted by kind. A second later, or at the end of the process, a line `lines_suppressed` has the
  counts: no later line has to come.
- No line is longer than the queue takes: a list is cut at MAX_LIST_BYTES, and a list of what was done has
  further lines (`continued`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import structlog

from policies.api import Outcome
from policies.decision import error_name
from policies.denial import Deny
from proxy.core.connection_limits import address_of
from proxy.core.observer import Observer
from proxy.telemetry.audit_lines import (
    client_fields,
    denied_fields,
    done_pieces,
    encode,
    fact_fields,
    notice,
    refusal_fields,
    safe_text,
    time_text,
)
from proxy.telemetry.rotating_file import RotatingFile
from proxy.telemetry.stderr import NonBlockingWriter

if TYPE_CHECKING:
    from pathlib import Path

    from policies.api import Peer
    from policies.decision import PolicyDecision
    from proxy.core.observer import AuthenticationFailure
    from proxy.core.stats.request_trace import RequestTrace
    from proxy.telemetry.line_limits import LastCounts

LINES_PER_SECOND: Final = 100


class AuditLog(Observer):
    """Writes the audit log to `path`, which rotates at `max_bytes`. Raises OSError if it cannot be opened."""

    receives_audit = True

    def __init__(self, path: str | Path, max_bytes: int, counts: LastCounts) -> None:
        self.suppressed = 0
        self._note = counts.note
        counts.add(self.tell_suppressed)
        self._file = RotatingFile(path, max_bytes)
        self._queue = NonBlockingWriter(self._write)
        self._queue.notice = notice
        self._second = 0
        self._lines: Counter[tuple[str, str, str]] = (
            Counter()
        )  # in this second, by user, host, kind
        self._suppressed: Counter[str] = Counter()  # not told yet, by kind
        self._suppressed_ms = 0  # when the last of them ended
        self._is_running = False

    def lost(self) -> dict[str, int]:
        """Return the number of missing lines: `disk` (a write failed or the queue was full), `rate` (`suppressed`)."""
        return {"disk": self._queue.lines_lost, "rate": self.suppressed}

    def start(self) -> None:
        """Start the thread that writes."""
        self._is_running = True
        self._queue.start()

    def close(self, timeout_s: float) -> None:
        """Write the queued lines within `timeout_s` and close the file. Call it once."""
        self.tell_suppressed()
        if self._is_running:
            self._is_running = False
            if not self._queue.finish(timeout_s):
                structlog.get_logger().warning("audit_log_incomplete", lines=self._queue.unwritten)
                return  # the thread still writes
        self._file.close()

    # -- on the loop -----------------------------------------------------------------------------

    def on_audited(self, trace: RequestTrace) -> None:
        """See Observer."""
        api, ended_us = trace.api, trace.ended_us
        if not self._is_within_rate(_kind(trace), trace.peer, ended_us // 1000):
            return
        is_refused = bool(trace.refused or trace.refused_by)
        line: dict[str, object] = {
            "ts": time_text(ended_us),
            "event": "refused" if is_refused else "request",
            "api": api.name,
            "version": api.version,
            **client_fields(trace.peer),
            "correlation_id": trace.correlation_id,
            "size_bytes": trace.size_bytes,
            "forwarded": trace.forwarded_us != 0,
            "outcome": trace.outcome.value,
            "took_ms": (ended_us - trace.began_us) // 1000,
        }
        if is_refused:
            line |= refusal_fields(
                trace.refused_by, error_name(trace.refused), trace.refused_because
            )
        rest: list[list[object]] = []
        if trace.facts is not None:
            (done, *rest), facts = done_pieces(trace.facts), fact_fields(trace.facts)
            line |= {"done": done, **facts} if done else facts
        self._put(line)
        about = {name: line[name] for name in ("ts", "api", "session", "correlation_id")}
        for done in rest:
            self._put({**about, "event": "continued", "done": done})

    def on_authentication_failed(self, peer: Peer, failure: AuthenticationFailure) -> None:
        """See Observer. Its `user` is still unknown; `claimed_user` is what the client has said."""
        if self._is_within_rate("authentication_failed", peer, failure.now_ms):
            line = {"ts": time_text(failure.now_ms * 1000), "event": "authentication_failed"}
            said = {
                "mechanism": failure.mechanism,
                "claimed_user": safe_text(failure.user),
                "reason": safe_text(failure.why),
            }
            self._put({**line, **client_fields(peer), **said})

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """See Observer. Only clients refused at their connect: refused requests come by `on_audited`."""
        if decision.api_name:
            return
        if self._is_within_rate("connect_refused", decision.peer, decision.now_ms):
            refusal = refusal_fields(decision.policy, decision.error, decision.message)
            line = {"ts": time_text(decision.now_ms * 1000), "event": "connect_refused"}
            self._put({**line, **client_fields(decision.peer), **refusal})

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """See Observer. Only refusals that an entry in mode `observe` would have made."""
        if decision.kind != "reject":
            return
        if self._is_within_rate("would_refuse", decision.peer, decision.now_ms):
            verdict = decision.verdict
            line = {"ts": time_text(decision.now_ms * 1000), "event": "would_refuse"}
            refusal = refusal_fields(decision.policy, decision.error, decision.message)
            denied = denied_fields(verdict) if isinstance(verdict, Deny) else {}
            about = {"api": decision.operation, **client_fields(decision.peer)}
            self._put({**line, **about, **refusal, **denied})

    def tell_suppressed(self) -> bool:
        """Write how many lines of each kind were suppressed since the last such line; return False: none is kept."""
        if self._suppressed:
            counts, self._suppressed = self._suppressed, Counter()
            event = {"ts": time_text(self._suppressed_ms * 1000), "event": "lines_suppressed"}
            self._put({**event, "suppressed": dict(counts)})
        return False

    def _is_within_rate(self, kind: str, peer: Peer, now_ms: int) -> bool:
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._lines.clear()
        client = (peer.user, address_of(peer.host), kind)
        self._lines[client] += 1
        if self._lines[client] <= LINES_PER_SECOND:
            return True
        self.suppressed += 1
        if not self._suppressed:
            self._note()
        self._suppressed[kind] += 1
        self._suppressed_ms = now_ms
        return False

    def _put(self, line: dict[str, object]) -> None:
        self._queue.write(encode(line) + "\n")

    # -- the thread ------------------------------------------------------------------------------

    def _write(self, data: bytes) -> int:
        self._file.append(data)
        return len(data)


def _kind(trace: RequestTrace) -> str:
    """Return which budget the line of this request is of."""
    if not (trace.audited and trace.forwarded_us):
        return "refused"
    if trace.facts is not None and trace.facts.has_failed:
        return "failed"
    return f"{'done' if trace.outcome is Outcome.REPLIED else 'unknown'} {trace.api.name}"
